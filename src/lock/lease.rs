//! The arithmetic of leases: the remaining time, and the reading until which a grant is valid.

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};

use crate::lock::Deadline;
use crate::lock::config::DeadlineFrom;

/// A time to live as its holder measures it.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// Time to live of the key, ns.
    pub ttl: Nanos,
    /// The deduction for clocks with different rates, ns.
    pub drift: Nanos,
    /// The clock that the holder reads.
    pub clock: Clock,
    /// The start of the lease.
    pub from: DeadlineFrom,
}

impl Lease {
    /// The deadline of a grant or renewal: `sent` is the reading at which its first request was
    /// sent; its last reply has just arrived.
    pub fn deadline(&self, host: &Host, sent: Nanos) -> Deadline {
        let from = match self.from {
            DeadlineFrom::Send => sent,
            DeadlineFrom::Reply => host.now(self.clock),
        };
        (self.clock, from.saturating_add(self.ttl.saturating_sub(self.drift)))
    }

    /// The time left at reading `now` of a lease that was requested at reading `sent`; `None` if
    /// the lease is over.
    pub fn left(&self, sent: Nanos, now: Nanos) -> Option<Nanos> {
        validity(self.ttl, now.saturating_sub(sent), self.drift)
    }
}

/// The time left of a time to live after `elapsed`, less the allowance for drift; `None` if nothing
/// is left. All in ns.
pub fn validity(ttl: Nanos, elapsed: Nanos, drift: Nanos) -> Option<Nanos> {
    ttl.checked_sub(elapsed)?.checked_sub(drift).filter(|left| *left > 0)
}

/// Redlock's allowance for drift: 1 % of the time to live and 2 ms for the node's own rounding.
pub fn drift_allowance(ttl: Nanos) -> Nanos {
    ttl / 100 + 2 * MILLISECOND
}

/// Whether the clock of a deadline has reached it.
pub fn is_over(host: &Host, deadline: Option<Deadline>) -> bool {
    deadline.is_some_and(|(clock, reading)| host.now(clock) >= reading)
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

    use super::{drift_allowance, validity};

    fn check(ttl: Nanos, elapsed: Nanos, drift: Nanos, left: Option<Nanos>) {
        assert_eq!(validity(ttl, elapsed, drift), left, "{ttl} - {elapsed} - {drift}");
    }

    #[test]
    fn validity_is_the_lease_less_the_time_spent_and_the_drift() {
        check(5 * SECOND, 2 * SECOND, SECOND, Some(2 * SECOND));
        check(5 * SECOND, 4 * SECOND, SECOND, None);
        check(5 * SECOND, 5 * SECOND, 0, None);
        check(5 * SECOND, 9 * SECOND, SECOND, None);
        check(SECOND, 0, 2 * SECOND, None);
        check(SECOND, SECOND - 2, 1, Some(1));
    }

    #[test]
    fn the_allowance_is_one_percent_and_two_milliseconds() {
        assert_eq!(drift_allowance(10 * SECOND), 102 * MILLISECOND);
        assert_eq!(drift_allowance(0), 2 * MILLISECOND);
    }
}
