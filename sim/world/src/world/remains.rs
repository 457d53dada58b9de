//! What is left when a world has ended: its trace, the faults that struck, the lines of its clocks.

use lockstorm_platform::fault::HostNames;
use lockstorm_platform::time::{Clock, Instant, Line};
use lockstorm_platform::trace::{HostId, Trace};

/// A clock that follows another line from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// The host.
    pub host: HostId,
    /// The clock.
    pub clock: Clock,
    /// From when on.
    pub from: Instant,
    /// The line.
    pub line: Line,
}

/// A fault that has struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The fault's number.
    pub fault: u32,
    /// When it struck.
    pub from: Instant,
    /// When it was over, if it was.
    pub to: Option<Instant>,
    /// How many messages, tasks, commands, writes, keys or other things it touched; 0: it struck
    /// nothing. `None` where the engine does not count.
    pub met: Option<u64>,
}

/// What is left when a world has ended.
pub struct Remains {
    /// The trace.
    pub trace: Trace,
    /// Who was who.
    pub names: HostNames,
    /// The faults that struck, in order.
    pub strikes: Vec<Strike>,
    /// Every line that a clock followed, in order.
    pub clocks: Vec<ClockChange>,
    /// How many messages did not arrive at once; `None` where nobody counts.
    pub missed: Option<Missed>,
    /// When the world ended.
    pub end: Instant,
}

/// How many messages did not arrive when they were sent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Tries that were lost, by faults or by what links lose without any.
    pub lost: u64,
    /// Messages that met a link which a fault had cut.
    pub cut: u64,
}
