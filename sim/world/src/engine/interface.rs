//! What a world requires of an engine: run processes on machines, carry what they send, and return
//! when the world has to act.

use std::cell::RefMut;
use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::host::{Host, LocalFuture};
use lockstorm_platform::order::Naming;
use lockstorm_platform::time::{ClockSetting, HostClocks, Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId, Trace};

use crate::engine::state::State;

/// What a process runs: made anew at each start.
pub type Process = Rc<dyn Fn(Host) -> LocalFuture<'static, ()>>;

/// Why [`Engine::run_until`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The fault with this number is to strike now.
    Strike(u32),
    /// A moment that was set by [`Engine::call_at`] has come.
    Call(u32),
    /// The limit is reached.
    Limit,
}

/// A world's engine. Dropping it ends every task.
pub trait Engine {
    /// What the world consists of.
    fn state(&self) -> RefMut<'_, State>;
    /// Adds a machine. It is switched on; its process is not started.
    fn add_host(&mut self, name: &str, address: SocketAddrV4, clocks: ClockSetting) -> HostId;
    /// Says what the machine's process runs.
    fn install(&mut self, host: HostId, process: Process);
    /// The platform of a machine, for a task that is not part of its process.
    fn host(&self, id: HostId) -> Host;
    /// Switches the machine on, if it is off, and starts its process anew. What was paused or
    /// suspended is so no longer.
    fn start(&self, host: HostId);
    /// Kills the process: its tasks are dropped, its kernel closes its connections.
    fn kill(&self, host: HostId);
    /// Cuts the power: nothing is said to anybody, and what was not synced is gone.
    fn power_off(&self, host: HostId);
    /// Stops scheduling the process, or goes on with it. Counted.
    fn pause(&self, host: HostId, paused: bool);
    /// Puts the whole machine to sleep, or wakes it. Counted.
    fn suspend(&self, host: HostId, suspended: bool);
    /// Changes a machine's clocks and lets its sleepers look at them again.
    fn change_clocks(&self, host: HostId, change: &dyn Fn(&mut HostClocks, Nanos));
    /// Closes or opens a directed link. Counted: as many openings as closings open it.
    fn block(&self, from: HostId, to: HostId, blocked: bool);
    /// Resets every connection between two hosts, in both directions, at once; their number.
    fn reset(&self, one: HostId, other: HostId) -> u64;
    /// Breaks connections between two hosts so that what was applied is not answered: every one,
    /// or, where an engine can tell, the one whose request was waited for. Their number.
    fn cut_reply(&self, one: HostId, other: HostId) -> u64 {
        self.reset(one, other)
    }
    /// Whether it counts what faults touch: see [`crate::engine::counters`].
    fn counts_faults(&self) -> bool {
        true
    }
    /// Writes an event of the world itself into the trace.
    fn record(&self, event: Event) -> Stamp;
    /// Has the fault strike at a true time.
    fn strike_at(&self, at: Nanos, fault: u32);
    /// Has [`Engine::run_until`] come back with [`Stop::Call`] at a true time.
    fn call_at(&self, at: Nanos, call: u32);
    /// Forgets every anchor that still waits and every strike that is still to come.
    fn forget_strikes(&self);
    /// What moves a name to an address.
    fn naming(&self) -> Naming;
    /// Runs until true time `limit`, or until the world has to act.
    fn run_until(&mut self, limit: Nanos) -> Stop;
    /// Ends every task and hands over the trace.
    fn finish(&mut self) -> Trace;
}
