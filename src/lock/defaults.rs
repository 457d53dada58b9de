//! The defaults of an algorithm for settings that the configuration omits.

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};

use crate::lock::client::resend_pause;
use crate::lock::config::{AfterExtend, AfterTry, AskOrder, LeaseUnit, LockConfig, TokenScope};
use crate::lock::lease::{Lease, drift_allowance};

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
    /// The minimum back-off between two tries, as a function of the maximum.
    pub retry_from: fn(Nanos) -> Nanos,
    /// Which acquires have the same owner value.
    pub token: TokenScope,
    /// The deduction for clocks with different rates, as a function of the time to live.
    pub drift: fn(Nanos) -> Nanos,
    /// Whether a grant that is over before its caller has it is refused.
    pub validity: bool,
    /// The order in which several nodes are asked.
    pub order: AskOrder,
    /// What becomes of the keys of a try that was refused.
    pub failed_try: AfterTry,
    /// What becomes of the keys of a grant whose extend failed.
    pub failed_extend: AfterExtend,
}

/// A configuration with all defaults filled in. Lengths in ns. See [`Defaults`] for those that are
/// not explained here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Time to live of the lock's key, in whole units; 0 for none.
    pub ttl: Nanos,
    /// The unit of the time to live.
    pub unit: Nanos,
    /// Timeout of one request.
    pub timeout: Nanos,
    /// The number of tries of one acquire.
    pub tries: u32,
    /// The maximum back-off between two tries.
    pub retry: Nanos,
    /// The minimum back-off between two tries.
    pub retry_from: Nanos,
    /// The clock of its host that the client reads.
    pub clock: Clock,
    /// Which acquires have the same owner value.
    pub token: TokenScope,
    /// The deduction for clocks with different rates.
    pub drift: Nanos,
    /// Whether a grant that is over before its caller has it is refused.
    pub validity: bool,
    /// The order in which several nodes are asked.
    pub order: AskOrder,
    /// What becomes of the keys of a try that was refused.
    pub failed_try: AfterTry,
    /// What becomes of the keys of a grant whose extend failed.
    pub failed_extend: AfterExtend,
    /// How often a request that had no reply is sent again.
    pub resend: u32,
}

/// The defaults of a lock on one node whose key expires.
pub const LEASE: Defaults = Defaults {
    ttl: 10 * SECOND,
    unit: MILLISECOND,
    timeout: |ttl| (ttl / 10).min(SECOND),
    tries: 1,
    retry: 200 * MILLISECOND,
    retry_from: |_| 0,
    token: TokenScope::Try,
    drift: |_| 0,
    validity: true,
    order: AskOrder::Parallel,
    failed_try: AfterTry::Keep,
    failed_extend: AfterExtend::Keep,
};

/// The defaults of a lock on one node whose key exists until it is deleted.
pub const MUTEX: Defaults = Defaults { ttl: 0, timeout: |_| SECOND, ..LEASE };

impl Defaults {
    /// `config` with these defaults filled in. A time to live is rounded up to whole units; a node
    /// accepts no less than one.
    pub fn settle(&self, config: &LockConfig) -> Choices {
        let unit = match config.unit {
            Some(LeaseUnit::Seconds) => SECOND,
            Some(LeaseUnit::Milliseconds) => MILLISECOND,
            None => self.unit,
        };
        let ttl = config.ttl.unwrap_or(self.ttl);
        let ttl = if self.ttl == 0 { 0 } else { ttl.div_ceil(unit).max(1) * unit };
        let retry = config.retry.unwrap_or(self.retry);
        Choices {
            ttl,
            unit,
            timeout: config.timeout.unwrap_or_else(|| (self.timeout)(ttl)),
            tries: config.tries.unwrap_or(self.tries).max(1),
            retry,
            retry_from: config.retry_from.unwrap_or_else(|| (self.retry_from)(retry)).min(retry),
            clock: config.clock.unwrap_or(Clock::Monotonic),
            token: config.token.unwrap_or(self.token),
            drift: config.drift.unwrap_or_else(|| (self.drift)(ttl)),
            validity: config.validity.unwrap_or(self.validity),
            order: config.order.unwrap_or(self.order),
            failed_try: config.failed_try.unwrap_or(self.failed_try),
            failed_extend: config.failed_extend.unwrap_or(self.failed_extend),
            resend: config.resend,
        }
    }

    /// `config` with these defaults in place of what it omits.
    pub fn fill(&self, config: &LockConfig) -> LockConfig {
        let choices = self.settle(config);
        let unit = match choices.unit {
            SECOND => Some(LeaseUnit::Seconds),
            MILLISECOND => Some(LeaseUnit::Milliseconds),
            _ => config.unit,
        };
        LockConfig {
            ttl: Some(choices.ttl),
            unit,
            timeout: Some(choices.timeout),
            tries: Some(choices.tries),
            retry: Some(choices.retry),
            retry_from: Some(choices.retry_from),
            clock: Some(choices.clock),
            token: Some(choices.token),
            drift: Some(choices.drift),
            validity: Some(choices.validity),
            order: Some(choices.order),
            failed_try: Some(choices.failed_try),
            failed_extend: Some(choices.failed_extend),
            ..config.clone()
        }
    }
}

impl Choices {
    /// The lease as the holder counts it.
    pub fn lease(&self, config: &LockConfig) -> Lease {
        Lease { ttl: self.ttl, drift: self.drift, clock: self.clock, from: config.deadline_from }
    }

    /// The maximum time until a request has a reply, or is given up, ns.
    pub fn patience(&self) -> Nanos {
        let pauses = (0..self.resend).map(resend_pause).fold(0, Nanos::saturating_add);
        self.timeout.saturating_mul(u64::from(self.resend) + 1).saturating_add(pauses)
    }

    /// The relative rate error that the deduction for drift covers, ppm.
    pub fn drift_ppm(&self) -> u64 {
        let relative = self.drift.saturating_sub(drift_allowance(0));
        relative.saturating_mul(1_000_000).checked_div(self.ttl).unwrap_or(0)
    }
}
