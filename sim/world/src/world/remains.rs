//! What a world leaves at its end: its trace, the faults that struck, the lines of its clocks.

use lockstorm_platform::fault::HostNames;
use lockstorm_platform::time::{Clock, Instant, Line};
use lockstorm_platform::trace::{HostId, Trace};

/// A clock that follows a new line from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// The host.
    pub host: HostId,
    /// The clock.
    pub clock: Clock,
    /// The instant of the change.
    pub from: Instant,
    /// The new line.
    pub line: Line,
}

/// A fault that has struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The fault's number.
    pub fault: u32,
    /// When it struck.
    pub from: Instant,
    /// When it ended, if it has.
    pub to: Option<Instant>,
    /// How many messages, tasks, commands, writes, keys or other things it touched; 0: it had no
    /// effect. `None` if the engine does not count.
    pub met: Option<u64>,
    /// The effects of its command on its target, in order: the keys that it removed, or the
    /// promotion. Empty if it is no command.
    pub done: Vec<Instant>,
}

/// What remains after a world has ended.
pub struct Remains {
    /// The trace.
    pub trace: Trace,
    /// The hosts' names and addresses.
    pub names: HostNames,
    /// The faults that struck, in order.
    pub strikes: Vec<Strike>,
    /// Every line that a clock followed, in order.
    pub clocks: Vec<ClockChange>,
    /// How many messages were lost or held; `None` if the engine does not count.
    pub missed: Option<Missed>,
    /// When the world ended.
    pub end: Instant,
}

/// How many messages did not arrive at their first try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Lost tries, whether by faults or by a link's own loss.
    pub lost: u64,
    /// Messages that met a link cut by a fault.
    pub cut: u64,
}
