//! The event engine: a single-threaded executor and one queue of events in integer nanoseconds.
//!
//! There are no ticks and no busy loop: time jumps to the next event. All events that are due in
//! an instant come before the tasks that they wake; the tasks run in the order of drawn
//! priorities. The engine knows hosts, links, disks and clocks; faults as such are the
//! [`crate::world`]'s.

mod disk;
mod executor;
mod kernel;
mod machine;
mod network;
mod process;
mod queue;
mod stream;

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use crate::engine::event::executor::{Running, Tasks};
use crate::engine::event::kernel::{Dispatched, Kernel};
use crate::engine::event::machine::Machine;
use crate::fault::{HostNames, Watch};
use crate::network::Latency;
use crate::platform::{Host, LocalFuture, Slowness};
use crate::rng::Chance;
use crate::time::{Clock, ClockSetting, Line, Nanos, Stamp};
use crate::trace::{Event, HostId, Trace};

/// What a process runs: made anew at each start.
pub type Process = Rc<dyn Fn(Host) -> LocalFuture<'static, ()>>;

/// Why [`Engine::run_until`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The fault with this number is to strike now.
    Strike(u32),
    /// A moment that was asked for by [`Engine::call_at`] has come.
    Call(u32),
    /// The limit is reached.
    Limit,
}

/// A world's engine. Dropping it ends every task.
pub struct Engine {
    shared: Rc<Shared>,
}

/// Moves names to other addresses, as an operator's DNS change does.
pub struct Naming(Rc<Shared>);

impl Naming {
    /// Gives a name to an address, or moves it there.
    pub fn set_name(&self, name: &str, address: SocketAddrV4) {
        self.0.kernel.borrow_mut().set_name(name, address);
    }
}

/// What tasks, streams and timers hold on to.
struct Shared {
    kernel: RefCell<Kernel>,
    tasks: RefCell<Tasks>,
    processes: RefCell<Vec<Option<Process>>>,
}

/// What comes next.
enum Next {
    /// A task is ready.
    Run(Running),
    /// The world has to act.
    Stop(Stop),
}

thread_local! {
    static WORLDS: Cell<u64> = const { Cell::new(0) };
}

impl Engine {
    /// An engine without hosts at true time zero.
    pub fn new(chance: Chance, latency: Latency, trace: Trace) -> Engine {
        let world = WORLDS.with(|count| count.replace(count.get() + 1));
        let shared = Shared {
            kernel: RefCell::new(Kernel::new(chance, latency, trace)),
            tasks: RefCell::new(Tasks::new(world)),
            processes: RefCell::new(Vec::new()),
        };
        Engine { shared: Rc::new(shared) }
    }

    /// Adds a machine. It is switched on; its process is not started.
    pub fn add_host(&self, name: &str, ip: Ipv4Addr, clocks: ClockSetting) -> HostId {
        self.shared.processes.borrow_mut().push(None);
        self.shared.kernel.borrow_mut().add_host(name, ip, clocks)
    }

    /// Gives a name to an address, or moves it there.
    pub fn set_name(&self, name: &str, address: SocketAddrV4) {
        self.naming().set_name(name, address);
    }

    /// A handle that can move names later.
    pub fn naming(&self) -> Naming {
        Naming(Rc::clone(&self.shared))
    }

    /// The platform of a host, for a task that is not part of its process.
    pub fn host(&self, id: HostId) -> Host {
        Machine::host(&self.shared, id)
    }

    /// Who is who.
    pub fn names(&self) -> HostNames {
        self.shared.kernel.borrow().names.clone()
    }

    /// True time.
    pub fn now(&self) -> Nanos {
        self.shared.kernel.borrow().now
    }

    /// Has the fault strike when its anchor's event comes.
    pub fn watch(&self, watch: Watch) {
        self.shared.kernel.borrow_mut().watches.push(watch);
    }

    /// Forgets every anchor that still waits and every strike that is still to come.
    pub fn forget_strikes(&self) {
        self.shared.kernel.borrow_mut().forget_strikes();
    }

    /// Has the fault strike at a true time.
    pub fn strike_at(&self, at: Nanos, fault: u32) {
        self.shared.kernel.borrow_mut().strike_at(at, fault);
    }

    /// Has [`Engine::run_until`] come back with [`Stop::Call`] at a true time.
    pub fn call_at(&self, at: Nanos, call: u32) {
        self.shared.kernel.borrow_mut().call_at(at, call);
    }

    /// Writes an event of the world itself into the trace.
    pub fn record(&self, event: Event) -> Stamp {
        self.shared.kernel.borrow_mut().record_world(event)
    }

    /// Runs until true time `limit`, or until the world has to act.
    pub fn run_until(&self, limit: Nanos) -> Stop {
        loop {
            let mut running = match self.next(limit) {
                Next::Run(running) => running,
                Next::Stop(stop) => return stop,
            };
            let done = running.poll();
            // A finished future is dropped only when nothing is borrowed: it may close streams.
            let finished = self.shared.tasks.borrow_mut().put_back(running, done);
            drop(finished);
        }
    }

    /// Handles events until a task is to run or the world has to act.
    fn next(&self, limit: Nanos) -> Next {
        let kernel = &mut *self.shared.kernel.borrow_mut();
        let tasks = &mut *self.shared.tasks.borrow_mut();
        loop {
            tasks.collect(kernel);
            if let Some(fault) = kernel.strikes.pop_front() {
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

    /// The trace so far, for a look.
    pub fn with_trace<T>(&self, look: impl FnOnce(&Trace) -> T) -> T {
        look(&self.shared.kernel.borrow().trace)
    }

    /// Ends every task and hands over the trace.
    pub fn finish(self) -> Trace {
        self.end();
        let mut kernel = self.shared.kernel.borrow_mut();
        std::mem::replace(&mut kernel.trace, Trace::new(false))
    }

    /// Tasks hold the engine and the engine holds the tasks: without an end nothing is freed.
    fn end(&self) {
        let tasks = self.shared.tasks.borrow_mut().take_all();
        drop(tasks);
        let processes = std::mem::take(&mut *self.shared.processes.borrow_mut());
        drop(processes);
        self.shared.kernel.borrow_mut().forget_events();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

/// What faults do to links and hosts.
impl Engine {
    /// Closes or opens a directed link. Counted: as many openings as closings open it.
    pub fn block(&self, from: HostId, to: HostId, blocked: bool) {
        self.shared.kernel.borrow_mut().block(from, to, blocked);
    }

    /// Sets the latency of a directed link.
    pub fn set_latency(&self, from: HostId, to: HostId, latency: Latency) {
        self.shared.kernel.borrow_mut().network.link(from, to).latency = latency;
    }

    /// Changes what faults add to a directed link, by the difference.
    pub fn disturb(&self, from: HostId, to: HostId, change: Disturbance) {
        self.shared.kernel.borrow_mut().network.link(from, to).disturb(change);
    }

    /// Resets every connection between two hosts, in both directions, at once.
    pub fn reset(&self, one: HostId, other: HostId) {
        self.shared.kernel.borrow_mut().reset_between(one, other);
    }

    /// Changes a host's slowness.
    pub fn set_slowness(&self, host: HostId, change: impl FnOnce(&mut Slowness)) {
        change(&mut self.shared.kernel.borrow_mut().host(host).slowness);
    }

    /// Makes fsync on a host lie, or be honest again.
    pub fn set_lying_disk(&self, host: HostId, lies: bool) {
        self.shared.kernel.borrow_mut().host(host).disk.borrow_mut().lies = lies;
    }

    /// Steps the wall clock.
    pub fn step_clock(&self, host: HostId, by: i64) {
        self.shared
            .kernel
            .borrow_mut()
            .change_clocks(host, |clocks, now| clocks.step_wall(now, by));
    }

    /// Sets the rate of all clocks of a host, or gives them the one that they started with.
    pub fn set_rate(&self, host: HostId, ppm: Option<i32>) {
        self.shared
            .kernel
            .borrow_mut()
            .change_clocks(host, |clocks, now| clocks.set_rate(now, ppm));
    }

    /// Freezes the wall clock, or lets it go on.
    pub fn freeze_clock(&self, host: HostId, frozen: bool) {
        let freeze = |clocks: &mut crate::time::HostClocks, now| clocks.freeze_wall(now, frozen);
        self.shared.kernel.borrow_mut().change_clocks(host, freeze);
    }

    /// The line that a host's clock is on.
    pub fn clock_line(&self, host: HostId, clock: Clock) -> Line {
        self.shared.kernel.borrow_mut().host(host).clocks.line(clock)
    }
}

/// What faults add to a link, as a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Nanoseconds added to each message.
    pub extra: i64,
    /// Nanoseconds of which up to so many are added to each message.
    pub jitter: i64,
    /// Lost tries in a million.
    pub loss_per_million: i64,
}
