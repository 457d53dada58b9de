//! What a world requires of an engine: run processes on machines, carry their messages, and return
//! when the world must act.

use std::cell::RefMut;
use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::host::{Host, LocalFuture};
use lockstorm_platform::order::Naming;
use lockstorm_platform::time::{ClockSetting, HostClocks, Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId, Trace};

use crate::engine::state::State;

/// What a process runs; called again at each start.
pub type Process = Rc<dyn Fn(Host) -> LocalFuture<'static, ()>>;

/// Why [`Engine::run_until`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The fault with this number must strike now.
    Strike(u32),
    /// A time set by [`Engine::call_at`] has come.
    Call(u32),
    /// The limit is reached.
    Limit,
}

/// A world's engine. Dropping it drops every task.
pub trait Engine {
    /// The parts of the world.
    fn state(&self) -> RefMut<'_, State>;
    /// Adds a machine. It is powered on; its process is not started.
    fn add_host(&mut self, name: &str, address: SocketAddrV4, clocks: ClockSetting) -> HostId;
    /// Sets what the machine's process runs.
    fn install(&mut self, host: HostId, process: Process);
    /// The platform of a machine, for a task that is not part of its process.
    fn host(&self, id: HostId) -> Host;
    /// Powers the machine on, if it is off, and starts a new process. Ends any pause or suspension.
    fn start(&self, host: HostId);
    /// Kills the process: its tasks are dropped, its kernel closes its connections.
    fn kill(&self, host: HostId);
    /// Cuts the power: no peer is notified, and unsynced data is lost.
    fn power_off(&self, host: HostId);
    /// Stops scheduling the process, or resumes it. Counted: as many resumes as pauses are needed.
    fn pause(&self, host: HostId, paused: bool);
    /// Suspends the whole machine, or resumes it. Counted.
    fn suspend(&self, host: HostId, suspended: bool);
    /// Changes a machine's clocks and makes its sleepers check them again.
    fn change_clocks(&self, host: HostId, change: &dyn Fn(&mut HostClocks, Nanos));
    /// Closes or opens a directed link. Counted: it takes as many openings as closings to open it.
    fn block(&self, from: HostId, to: HostId, blocked: bool);
    /// Resets every connection between two hosts at once, in both directions. Returns their number.
    fn reset(&self, one: HostId, other: HostId) -> u64;
    /// Breaks connections between two hosts so that an executed request gets no reply: all of them
    /// or, where an engine knows it, the one whose request the strike is anchored to. Returns their
    /// number.
    fn cut_reply(&self, one: HostId, other: HostId) -> u64 {
        self.reset(one, other)
    }
    /// Whether it counts what faults touch: see [`crate::engine::counters`].
    fn counts_faults(&self) -> bool {
        true
    }
    /// Records an event of the world itself in the trace.
    fn record(&self, event: Event) -> Stamp;
    /// Schedules the strike of a fault at a true time.
    fn strike_at(&self, at: Nanos, fault: u32);
    /// Makes [`Engine::run_until`] return [`Stop::Call`] at a true time.
    fn call_at(&self, at: Nanos, call: u32);
    /// Cancels every waiting anchor and every scheduled strike.
    fn forget_strikes(&self);
    /// The function that points a name at an address.
    fn naming(&self) -> Naming;
    /// Runs until true time `limit`, or until the world must act.
    fn run_until(&mut self, limit: Nanos) -> Stop;
    /// Drops every task and returns the trace.
    fn finish(&mut self) -> Trace;
}
