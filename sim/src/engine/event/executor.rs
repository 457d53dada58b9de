//! Tasks: a slab of futures, each of one host, woken through `std::task::Wake` without unsafe.
//!
//! A waker only notes its task in a list of this thread; [`Tasks::collect`] moves the list into
//! the ready heap, where a drawn priority decides the order, or parks tasks of paused hosts.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use crate::engine::event::kernel::Kernel;
use crate::platform::LocalFuture;
use crate::rng::{Draws, Purpose};
use crate::trace::{Happening, HostId};

/// A task in one world: its slot and how often the slot was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    slot: u32,
    generation: u32,
}

struct TaskWaker {
    world: u64,
    task: TaskId,
    noted: AtomicBool,
}

thread_local! {
    /// Tasks that were woken since the last look. They carry their world: a waker may outlive it.
    static WOKEN: RefCell<Vec<(u64, TaskId)>> = const { RefCell::new(Vec::new()) };
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.noted.swap(true, Ordering::Relaxed) {
            WOKEN.with(|woken| woken.borrow_mut().push((self.world, self.task)));
        }
    }
}

struct Task {
    host: HostId,
    future: Option<LocalFuture<'static, ()>>,
    note: Arc<TaskWaker>,
    waker: Waker,
    ties: Draws,
    wakes: u32,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    task: Option<Task>,
}

/// A task taken out to be polled: nothing is borrowed while it runs.
pub struct Running {
    id: TaskId,
    future: LocalFuture<'static, ()>,
    waker: Waker,
}

impl Running {
    /// Polls the task once; whether it is done.
    pub fn poll(&mut self) -> bool {
        self.future.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready()
    }
}

/// Every task of one world.
pub struct Tasks {
    world: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By priority, then in order of waking.
    ready: BinaryHeap<Reverse<(u64, u64, TaskId)>>,
    woken: u64,
    taken: Vec<(u64, TaskId)>,
}

impl Tasks {
    /// No tasks. Notes that other worlds left on this thread are thrown away.
    pub fn new(world: u64) -> Tasks {
        WOKEN.with(|woken| woken.borrow_mut().clear());
        Tasks {
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
        let note =
            Arc::new(TaskWaker { world: self.world, task: id, noted: AtomicBool::new(false) });
        let waker = Waker::from(Arc::clone(&note));
        let entity = kernel.name_task(host);
        let ties = kernel.chance.draws(Purpose::Tie, &entity);
        place.task = Some(Task { host, future: Some(future), note, waker, ties, wakes: 0 });
        self.slots[slot as usize].task.as_ref().expect("just put there").waker.wake_by_ref();
    }

    /// Makes the tasks that were woken ready, or parks them where their host is paused.
    pub fn collect(&mut self, kernel: &mut Kernel) {
        let mut taken = std::mem::take(&mut self.taken);
        WOKEN.with(|woken| std::mem::swap(&mut taken, &mut woken.borrow_mut()));
        for (world, id) in taken.drain(..) {
            if world == self.world {
                self.make_ready(kernel, id);
            }
        }
        self.taken = taken;
    }

    /// Makes tasks ready that were parked.
    pub fn unpark(&mut self, kernel: &mut Kernel, parked: Vec<TaskId>) {
        for id in parked {
            self.make_ready(kernel, id);
        }
    }

    fn make_ready(&mut self, kernel: &mut Kernel, id: TaskId) {
        let Some(task) = live(&mut self.slots, id) else { return };
        let host = kernel.host(task.host);
        if host.is_halted() {
            host.parked.push(id);
            return;
        }
        let priority = task.ties.at(u64::from(task.wakes));
        task.wakes += 1;
        self.woken += 1;
        self.ready.push(Reverse((priority, self.woken, id)));
    }

    /// Takes the next ready task out to be polled. One whose host has been paused meanwhile is
    /// parked.
    pub fn next(&mut self, kernel: &mut Kernel) -> Option<Running> {
        while let Some(Reverse((priority, _, id))) = self.ready.pop() {
            let Some(task) = live(&mut self.slots, id) else { continue };
            let host = kernel.host(task.host);
            if host.is_halted() {
                host.parked.push(id);
                continue;
            }
            task.note.noted.store(false, Ordering::Relaxed);
            let future = task.future.take().expect("a task is polled by one at a time");
            let (wakes, waker) = (task.wakes, task.waker.clone());
            kernel.happen(Happening::Run, id.slot, wakes, &priority.to_le_bytes());
            return Some(Running { id, future, waker });
        }
        None
    }

    /// Puts a polled task back, or frees its slot and hands its future over to be dropped.
    pub fn put_back(&mut self, running: Running, done: bool) -> Option<Running> {
        let id = running.id;
        let task = live(&mut self.slots, id).expect("a running task is not killed");
        if !done {
            task.future = Some(running.future);
            return None;
        }
        self.release(id.slot);
        Some(running)
    }

    /// Takes all tasks of a host out, to be dropped when nothing is borrowed.
    pub fn take_of(&mut self, host: HostId) -> Vec<LocalFuture<'static, ()>> {
        self.take_where(|task| task.host == host)
    }

    /// Takes all tasks out, to be dropped when nothing is borrowed.
    pub fn take_all(&mut self) -> Vec<LocalFuture<'static, ()>> {
        self.ready.clear();
        self.take_where(|_| true)
    }

    fn take_where(&mut self, chosen: impl Fn(&Task) -> bool) -> Vec<LocalFuture<'static, ()>> {
        let mut futures = Vec::new();
        for slot in 0..self.slots.len() {
            if self.slots[slot].task.as_ref().is_some_and(&chosen) {
                let slot = u32::try_from(slot).expect("slots are counted in u32");
                futures.extend(self.release(slot));
            }
        }
        futures
    }

    fn release(&mut self, slot: u32) -> Option<LocalFuture<'static, ()>> {
        let place = &mut self.slots[slot as usize];
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        place.task.take().and_then(|task| task.future)
    }
}

fn live(slots: &mut [Slot], id: TaskId) -> Option<&mut Task> {
    let slot = slots.get_mut(id.slot as usize)?;
    (slot.generation == id.generation).then_some(slot.task.as_mut()).flatten()
}
