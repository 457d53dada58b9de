//! The event engine: a single-threaded executor and one queue of events in integer nanoseconds.
//!
//! There are no ticks and no busy loop: time jumps to the next event. All events that are due at an
//! instant are handled before the tasks that they wake; the tasks run in the order of drawn
//! priorities, those of one Redis server in the order in which they were woken. The engine knows
//! hosts, links, disks and clocks; [`crate::world`] handles faults.

mod connection;
mod disturbance;
mod executor;
mod kernel;
mod machine;
mod process;
mod queue;
mod shared;
mod stream;
mod tcp;
mod waker;

use std::cell::{Cell, RefCell, RefMut};
use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::host::Host;
use lockstorm_platform::order::Naming;
use lockstorm_platform::time::{ClockSetting, HostClocks, Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId, Trace};

use crate::engine::event::executor::{Executor, Running};
use crate::engine::event::kernel::Kernel;
use crate::engine::event::machine::EventMachine;
use crate::engine::event::queue::Due;
use crate::engine::event::shared::EventShared;
use crate::engine::interface::{Engine, Process, Stop};
use crate::engine::state::State;

/// See the head of this file. Dropping it drops every task.
pub struct EventEngine {
    shared: Rc<EventShared>,
}

/// The next action.
enum Next {
    /// A task is ready.
    Run(Running),
    /// The world must act.
    Stop(Stop),
}

thread_local! {
    static WORLDS: Cell<u64> = const { Cell::new(0) };
}

impl EventEngine {
    /// An engine without hosts at true time zero.
    pub fn new(state: State) -> EventEngine {
        // The worlds of a thread share one list of wake-ups; this number distinguishes them.
        let world = WORLDS.with(|count| count.replace(count.get() + 1));
        let shared = EventShared {
            kernel: RefCell::new(Kernel::new(state)),
            executor: RefCell::new(Executor::new(world)),
            processes: RefCell::new(Vec::new()),
            exited: RefCell::default(),
        };
        EventEngine { shared: Rc::new(shared) }
    }

    /// Handles events until a task must run or the world must act.
    fn next(&self, limit: Nanos) -> Next {
        let kernel = &mut *self.shared.kernel.borrow_mut();
        let executor = &mut *self.shared.executor.borrow_mut();
        loop {
            executor.collect(kernel);
            // A fault whose anchor was just recorded strikes before any further event or task.
            if let Some(fault) = kernel.state.strikes.pop_front() {
                return Next::Stop(Stop::Strike(fault));
            }
            match kernel.pop_due() {
                Some(Due::Strike(fault)) => return Next::Stop(Stop::Strike(fault)),
                Some(Due::Call(call)) => return Next::Stop(Stop::Call(call)),
                Some(Due::Timer { slot, generation }) => kernel.fire(slot, generation),
                Some(Due::Arrival { connection, side }) => kernel.arrive(connection, side),
                // Tasks run when nothing more is due at this instant, and time advances when no
                // task is ready.
                None => {
                    debug_assert!(
                        kernel.state.strikes.is_empty(),
                        "faults strike before tasks run"
                    );
                    if let Some(running) = executor.next(kernel) {
                        return Next::Run(running);
                    }
                    if !kernel.advance(limit) {
                        return Next::Stop(Stop::Limit);
                    }
                }
            }
        }
    }

    /// Drops all tasks. The tasks refer to the engine and the engine owns the tasks: without this
    /// call, nothing would be freed.
    fn end(&self) {
        // Dropped while nothing is borrowed, because tasks close their streams through the kernel.
        // The events come last: what closes now is scheduled too.
        let tasks = self.shared.executor.borrow_mut().take_all();
        drop(tasks);
        let processes = std::mem::take(&mut *self.shared.processes.borrow_mut());
        drop(processes);
        self.shared.kernel.borrow_mut().forget_events();
    }

    fn kernel(&self) -> RefMut<'_, Kernel> {
        self.shared.kernel.borrow_mut()
    }
}

impl Drop for EventEngine {
    fn drop(&mut self) {
        self.end();
    }
}

impl Engine for EventEngine {
    fn state(&self) -> RefMut<'_, State> {
        RefMut::map(self.kernel(), |kernel| &mut kernel.state)
    }

    fn add_host(&mut self, name: &str, address: SocketAddrV4, clocks: ClockSetting) -> HostId {
        self.shared.processes.borrow_mut().push(None);
        self.kernel().add_host(name, *address.ip(), clocks)
    }

    fn install(&mut self, host: HostId, process: Process) {
        self.shared.processes.borrow_mut()[usize::from(host.0)] = Some(process);
    }

    fn host(&self, id: HostId) -> Host {
        EventMachine::host(&self.shared, id)
    }

    fn start(&self, host: HostId) {
        self.shared.start(host);
    }

    fn kill(&self, host: HostId) {
        self.shared.kill(host);
    }

    fn power_off(&self, host: HostId) {
        self.shared.power_off(host);
    }

    fn pause(&self, host: HostId, paused: bool) {
        self.shared.pause(host, paused);
    }

    fn suspend(&self, host: HostId, suspended: bool) {
        self.shared.suspend(host, suspended);
    }

    fn change_clocks(&self, host: HostId, change: &dyn Fn(&mut HostClocks, Nanos)) {
        self.kernel().change_clocks(host, change);
    }

    fn block(&self, from: HostId, to: HostId, blocked: bool) {
        self.kernel().block(from, to, blocked);
    }

    fn reset(&self, one: HostId, other: HostId) -> u64 {
        self.kernel().reset_between(one, other)
    }

    fn record(&self, event: Event) -> Stamp {
        self.kernel().record_world(event)
    }

    fn strike_at(&self, at: Nanos, fault: u32) {
        self.kernel().strike_at(at, fault);
    }

    fn call_at(&self, at: Nanos, call: u32) {
        self.kernel().call_at(at, call);
    }

    fn forget_strikes(&self) {
        self.kernel().forget_strikes();
    }

    fn naming(&self) -> Naming {
        let shared = Rc::clone(&self.shared);
        Rc::new(move |name, address| shared.kernel.borrow_mut().state.set_name(name, address))
    }

    fn run_until(&mut self, limit: Nanos) -> Stop {
        loop {
            let mut running = match self.next(limit) {
                Next::Run(running) => running,
                Next::Stop(stop) => return stop,
            };
            let done = running.poll();
            // A finished future is dropped only when nothing is borrowed: it may close streams.
            let finished = self.shared.executor.borrow_mut().put_back(running, done);
            drop(finished);
            // A process that exited in this poll is dropped before another task runs.
            self.shared.reap();
        }
    }

    fn finish(&mut self) -> Trace {
        // First, because what the tasks send as they are dropped belongs to this trace.
        self.end();
        std::mem::replace(&mut self.kernel().state.trace, Trace::new(false))
    }
}
