//! Tasks: a slab of futures, each of one host.
//!
//! [`Executor::collect`] moves the tasks that were woken into the ready heap, where a drawn
//! priority decides the order, or parks them if their host is halted. The tasks of a Redis server
//! keep the order in which they were woken.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::task::{Context, Waker};

use lockstorm_platform::host::LocalFuture;
use lockstorm_platform::rng::{Draws, Purpose};
use lockstorm_platform::trace::{Happening, HostId};

use crate::engine::event::kernel::Kernel;
use crate::engine::event::waker::{TaskId, TaskWaker, forget_woken, swap_woken};

struct Task {
    host: HostId,
    /// The future and its waker; taken out while it is polled.
    body: Option<Body>,
    note: Arc<TaskWaker>,
    ties: Draws,
    wakes: u32,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    task: Option<Task>,
}

/// A future and the waker to poll it with.
pub struct Body {
    future: LocalFuture<'static, ()>,
    waker: Waker,
}

/// A task taken out to be polled, so that nothing is borrowed while it runs.
pub struct Running {
    id: TaskId,
    body: Body,
}

impl Running {
    /// Polls the task once; returns whether it is done.
    pub fn poll(&mut self) -> bool {
        let Body { future, waker } = &mut self.body;
        future.as_mut().poll(&mut Context::from_waker(waker)).is_ready()
    }
}

/// Every task of one world.
pub struct Executor {
    world: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Ordered by priority, then by wake-up.
    ready: BinaryHeap<Reverse<(u64, u64, TaskId)>>,
    woken: u64,
    taken: Vec<(u64, TaskId)>,
}

impl Executor {
    /// No tasks. Discards wake-ups that other worlds left on this thread.
    pub fn new(world: u64) -> Executor {
        forget_woken();
        Executor {
            world,
            slots: Vec::new(),
            free: Vec::new(),
            ready: BinaryHeap::new(),
            woken: 0,
            taken: Vec::new(),
        }
    }

    /// Adds a task of a host and wakes it.
    pub fn spawn(&mut self, kernel: &mut Kernel, host: HostId, future: LocalFuture<'static, ()>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("a world has under 2^32 tasks")
        });
        let place = &mut self.slots[slot as usize];
        let id = TaskId { slot, generation: place.generation };
        let note = TaskWaker::new(self.world, id);
        let waker = Waker::from(Arc::clone(&note));
        // Addressed by name, not by slot: which slot is free depends on all other tasks.
        let entity = kernel.name_task(host);
        let ties = kernel.state.chance.draws(Purpose::Tie, &entity);
        waker.wake_by_ref();
        debug_assert!(place.task.is_none(), "a free slot has no task");
        place.task = Some(Task { host, body: Some(Body { future, waker }), note, ties, wakes: 0 });
    }

    /// Makes woken tasks ready, or parks them if their host is halted.
    pub fn collect(&mut self, kernel: &mut Kernel) {
        if !swap_woken(&mut self.taken) {
            return;
        }
        let mut taken = std::mem::take(&mut self.taken);
        for (world, id) in taken.drain(..) {
            if world == self.world {
                self.make_ready(kernel, id);
            }
        }
        self.taken = taken;
    }

    /// Makes parked tasks ready.
    pub fn unpark(&mut self, kernel: &mut Kernel, parked: Vec<TaskId>) {
        for id in parked {
            self.make_ready(kernel, id);
        }
    }

    fn make_ready(&mut self, kernel: &mut Kernel, id: TaskId) {
        let Some(task) = live(&mut self.slots, id) else { return };
        if kernel.state.machine(task.host).is_halted() {
            kernel.park(task.host, id);
            return;
        }
        // Each wake-up has its own draw, so no other task changes this priority.
        let drawn = task.ties.at(u64::from(task.wakes));
        task.wakes += 1;
        let priority = kernel.priority(task.host, drawn);
        self.woken += 1;
        self.ready.push(Reverse((priority, self.woken, id)));
    }

    /// Takes out the next ready task to be polled. If its host has been halted meanwhile, the task
    /// is parked.
    pub fn next(&mut self, kernel: &mut Kernel) -> Option<Running> {
        while let Some(Reverse((priority, _, id))) = self.ready.pop() {
            let Some(task) = live(&mut self.slots, id) else { continue };
            // Checked again: a strike may have halted the host after the task became ready.
            if kernel.state.machine(task.host).is_halted() {
                kernel.park(task.host, id);
                continue;
            }
            debug_assert!(
                kernel.state.machine(task.host).powered,
                "a machine without power runs nothing"
            );
            // Before the poll, so that a wake during the poll is noted.
            task.note.reset();
            let body = task.body.take().expect("a task is polled by one at a time");
            let wakes = task.wakes;
            kernel.happen(Happening::Run, id.slot, wakes, &priority.to_le_bytes());
            return Some(Running { id, body });
        }
        None
    }

    /// Puts a polled task back; if it is done, frees its slot and returns its future to be dropped.
    pub fn put_back(&mut self, running: Running, done: bool) -> Option<Running> {
        let id = running.id;
        let task = live(&mut self.slots, id).expect("a running task is not killed");
        debug_assert!(task.body.is_none(), "a task is polled by one at a time");
        if !done {
            task.body = Some(running.body);
            return None;
        }
        self.release(id.slot);
        Some(running)
    }

    /// Takes out all tasks of a host, to be dropped when nothing is borrowed.
    pub fn take_of(&mut self, host: HostId) -> Vec<Body> {
        self.take_where(|task| task.host == host)
    }

    /// Takes out all tasks, to be dropped when nothing is borrowed.
    pub fn take_all(&mut self) -> Vec<Body> {
        self.ready.clear();
        self.take_where(|_| true)
    }

    fn take_where(&mut self, chosen: impl Fn(&Task) -> bool) -> Vec<Body> {
        let mut futures = Vec::new();
        // In the order of slots: dropped tasks close their streams, and the trace shows the order.
        for slot in 0..self.slots.len() {
            if self.slots[slot].task.as_ref().is_some_and(&chosen) {
                let slot = u32::try_from(slot).expect("slots are counted in u32");
                futures.extend(self.release(slot));
            }
        }
        futures
    }

    fn release(&mut self, slot: u32) -> Option<Body> {
        let place = &mut self.slots[slot as usize];
        debug_assert!(place.task.is_some(), "a slot is freed once");
        // Makes stale what still refers to the old task: wake-ups and entries of `ready`.
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        place.task.take().and_then(|task| task.body)
    }
}

fn live(slots: &mut [Slot], id: TaskId) -> Option<&mut Task> {
    let slot = slots.get_mut(id.slot as usize)?;
    (slot.generation == id.generation).then_some(slot.task.as_mut()).flatten()
}
