//! The defaults of an algorithm for settings that the configuration omits.

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};

use crate::lock::config::LockConfig;
use crate::lock::lease::Lease;

/// The defaults of an algorithm. Lengths in ns.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Time to live of the lock's key; 0 for a lock that never expires.
    pub ttl: Nanos,
    /// The unit of the time to live.
    pub unit: Nanos,
    /// Timeout of one request, as a function of the time to live.
    pub timeout: fn(Nanos) -> Nanos,
    /// The number of tries of one acquire.
    pub tries: u32,
    /// The maximum back-off between two tries.
    pub retry: Nanos,
}

/// A configuration with all defaults filled in. Lengths in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Time to live of the lock's key, in whole units; 0 for none.
    pub ttl: Nanos,
    /// Timeout of one request.
    pub timeout: Nanos,
    /// The number of tries of one acquire.
    pub tries: u32,
    /// The maximum back-off between two tries.
    pub retry: Nanos,
    /// The clock of its host that the client reads.
    pub clock: Clock,
}

/// The defaults of a lock on one node whose key expires.
pub const LEASE: Defaults = Defaults {
    ttl: 10 * SECOND,
    unit: MILLISECOND,
    timeout: |ttl| (ttl / 10).min(SECOND),
    tries: 1,
    retry: 200 * MILLISECOND,
};

/// The defaults of a lock on one node whose key exists until it is deleted.
pub const MUTEX: Defaults = Defaults { ttl: 0, timeout: |_| SECOND, ..LEASE };

impl Defaults {
    /// `config` with these defaults filled in. A time to live is rounded up to whole units; a node
    /// accepts no less than one.
    pub fn settle(&self, config: &LockConfig) -> Choices {
        let ttl = config.ttl.unwrap_or(self.ttl);
        let ttl = if self.ttl == 0 { 0 } else { ttl.div_ceil(self.unit).max(1) * self.unit };
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
    /// The lease as the holder counts it, without an allowance for drift.
    pub fn lease(&self, config: &LockConfig) -> Lease {
        Lease { ttl: self.ttl, drift: 0, clock: self.clock, from: config.deadline_from }
    }
}
