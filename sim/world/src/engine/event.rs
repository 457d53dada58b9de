//! The event engine: a single-threaded executor and one queue of events in integer nanoseconds.
//!
//! There are no ticks and no busy loop: time jumps to the next event. All events that are due at an
//! instant are handled before the tasks that they wake; the tasks run in the order of drawn
//! priorities. The engine knows hosts, links, disks and clocks; [`crate::world`] handles faults.

mod executor;
mod kernel;
mod machine;
mod network;
mod process;
mod queue;
mod stream;

use std::cell::{Cell, RefCell, RefMut};
use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::host::Host;
use lockstorm_platform::order::Naming;
use lockstorm_platform::time::{ClockSetting, HostClocks, Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId, Trace};

use crate::engine::event::executor::{Running, Tasks};
use crate::engine::event::kernel::{Dispatched, Kernel};
use crate::engine::event::machine::Machine;
use crate::engine::state::State;
use crate::engine::{Engine, Process, Stop};

/// See the head of this file. Dropping it drops every task.
pub struct EventEngine {
    shared: Rc<Shared>,
}

/// The state that tasks, streams and timers share.
struct Shared {
    kernel: RefCell<Kernel>,
    tasks: RefCell<Tasks>,
    processes: RefCell<Vec<Option<Process>>>,
    /// Hosts whose process has exited on its own and still has tasks.
    exited: RefCell<Vec<HostId>>,
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
        let world = WORLDS.with(|count| count.replace(count.get() + 1));
        let shared = Shared {
            kernel: RefCell::new(Kernel::new(state)),
            tasks: RefCell::new(Tasks::new(world)),
            processes: RefCell::new(Vec::new()),
            exited: RefCell::default(),
        };
        EventEngine { shared: Rc::new(shared) }
    }

    /// Handles events until a task is to run or the world must act.
    fn next(&self, limit: Nanos) -> Next {
        let kernel = &mut *self.shared.kernel.borrow_mut();
        let tasks = &mut *self.shared.tasks.borrow_mut();
        loop {
            tasks.collect(kernel);
            if let Some(fault) = kernel.state.strikes.pop_front() {
                return Next::Stop(Stop::Strike(fault));
            }
            match kernel.dispatch_due() {
                Dispatched::Done => continue,
                Dispatched::Strike(fault) => return Next::Stop(Stop::Strike(fault)),
                Dispatched::Call(call) => return Next::Stop(Stop::Call(call)),
                Dispatched::Nothing => {}
            }
            if let Some(running) = tasks.next(kernel) {
                return Next::Run(running);
            }
            if !kernel.advance(limit) {
                return Next::Stop(Stop::Limit);
            }
        }
    }

    /// Drops all tasks. The tasks refer to the engine and the engine owns the tasks: without this,
    /// nothing would be freed.
    fn end(&self) {
        let tasks = self.shared.tasks.borrow_mut().take_all();
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
        Machine::host(&self.shared, id)
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
            let finished = self.shared.tasks.borrow_mut().put_back(running, done);
            drop(finished);
            self.shared.bury();
        }
    }

    fn finish(&mut self) -> Trace {
        self.end();
        std::mem::replace(&mut self.kernel().state.trace, Trace::new(false))
    }
}
