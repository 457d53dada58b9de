//! The time of a node: what its commands read, and what goes on while one of them runs.

/// The wall clock of a node, as its commands see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeClock {
    /// When the current command began, in Unix milliseconds. It is frozen while a script or
    /// transaction runs.
    pub now_ms: u64,
    /// The same in microseconds.
    pub now_us: u64,
    /// The clock at present, in microseconds: later than `now_us` where a fault has made a script
    /// slow.
    pub running_us: u64,
    /// When the node started, in Unix milliseconds.
    pub started_ms: u64,
}

impl NodeClock {
    /// The clock of a node that starts at `now_ms`.
    pub fn starting_at(now_ms: u64) -> NodeClock {
        let now_us = now_ms * 1_000;
        NodeClock { now_ms, now_us, running_us: now_us, started_ms: now_ms }
    }

    /// Sets the time of the next command, from the wall clock in nanoseconds.
    pub fn set(&mut self, wall_ns: u64) {
        self.now_us = wall_ns / 1_000;
        self.running_us = self.now_us;
        self.now_ms = wall_ns / 1_000_000;
    }
}
