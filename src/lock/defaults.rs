//! What an algorithm chooses where its configuration says nothing.

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};

use crate::lock::config::LockConfig;
use crate::lock::lease::Lease;

/// The choices of an algorithm. Lengths in ns.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Time to live of the lock's key; 0 for a lock that never ends by itself.
    pub ttl: Nanos,
    /// What the time to live is counted in.
    pub unit: Nanos,
    /// Time-out of one request, from the time to live.
    pub timeout: fn(Nanos) -> Nanos,
    /// How often one acquire tries.
    pub tries: u32,
    /// The longest back-off between two tries.
    pub retry: Nanos,
}

/// A configuration with nothing left open. Lengths in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Time to live of the lock's key, in whole units; 0 if it has none.
    pub ttl: Nanos,
    /// Time-out of one request.
    pub timeout: Nanos,
    /// How often one acquire tries.
    pub tries: u32,
    /// The longest back-off between two tries.
    pub retry: Nanos,
    /// Which clock of its host the client reads.
    pub clock: Clock,
}

/// The choices of a lock on one node whose key lives for a while.
pub const LEASE: Defaults = Defaults {
    ttl: 10 * SECOND,
    unit: MILLISECOND,
    timeout: |ttl| (ttl / 10).min(SECOND),
    tries: 1,
    retry: 200 * MILLISECOND,
};

/// The choices of a lock on one node whose key lives until it is deleted.
pub const MUTEX: Defaults = Defaults { ttl: 0, timeout: |_| SECOND, ..LEASE };

impl Defaults {
    /// `config` with these choices where it makes none. A time to live is rounded up to whole
    /// units, of which a node takes no less than one.
    pub fn settle(&self, config: &LockConfig) -> Choices {
        let asked = config.ttl.unwrap_or(self.ttl);
        let ttl = if self.ttl == 0 { 0 } else { asked.div_ceil(self.unit).max(1) * self.unit };
        Choices {
            ttl,
            timeout: config.timeout.unwrap_or_else(|| (self.timeout)(ttl)),
            tries: config.tries.unwrap_or(self.tries).max(1),
            retry: config.retry.unwrap_or(self.retry),
            clock: config.clock.unwrap_or(Clock::Monotonic),
        }
    }
}

impl Choices {
    /// The lease that a holder counts, without an allowance for drift.
    pub fn lease(&self, config: &LockConfig) -> Lease {
        Lease { ttl: self.ttl, drift: 0, clock: self.clock, from: config.deadline_from }
    }
}
