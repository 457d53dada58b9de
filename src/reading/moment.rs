//! Points in true time that a checker compares: trace positions, and the points between them at
//! which a clock passes a reading.
//!
//! In one run `at` never decreases while `seq` grows, so ordering by (`at`, `seq`) orders trace
//! positions by `seq`, and puts a clock's passing before everything recorded in its nanosecond.

use lockstorm_platform::time::{Instant, Nanos, Stamp};

use crate::history::History;

/// A point that can be compared with any other point of the same run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// True time.
    pub at: Nanos,
    /// Position in the trace; 0 for a clock's passing.
    pub seq: u64,
}

impl Moment {
    /// Later than every other moment.
    pub const NEVER: Moment = Moment { at: Nanos::MAX, seq: u64::MAX };

    /// The point at which a clock passes a reading: before everything recorded at `at`.
    pub fn passing(at: Nanos) -> Moment {
        Moment { at, seq: 0 }
    }

    /// The point as a trace position: a clock's passing takes that of the last record before it.
    pub fn instant(self, history: &History) -> Instant {
        if self == Moment::NEVER || self >= Moment::from(history.end) {
            return history.end;
        }
        let seq = if self.seq > 0 { self.seq } else { last_seq_before(history, self.at) };
        Instant { seq, at: self.at }
    }
}

impl From<Instant> for Moment {
    fn from(instant: Instant) -> Moment {
        Moment { at: instant.at, seq: instant.seq }
    }
}

impl From<Stamp> for Moment {
    fn from(stamp: Stamp) -> Moment {
        Moment::from(stamp.instant())
    }
}

fn last_seq_before(history: &History, at: Nanos) -> u64 {
    let stamps = history.ops.iter().flat_map(|op| [Some(op.call), op.ret]).flatten();
    let instants = stamps.map(|stamp| stamp.instant());
    let instants = instants.chain(history.keys.iter().map(|key| key.at));
    let instants = instants.chain(history.accesses.iter().map(|access| access.at));
    let instants = instants.chain(history.fault_intervals.iter().map(|interval| interval.from));
    instants.filter(|instant| instant.at < at).map(|instant| instant.seq).max().unwrap_or(0)
}
