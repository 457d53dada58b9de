//! The lease that a remedy tries, if one was measured.

use lockstorm_platform::fault::MAX_LENGTH;
use lockstorm_platform::time::{Nanos, SECOND};

use crate::explain::experiment::Threshold;

/// The minimum lease with which a violated plan was seen to hold, ns, according to its thresholds.
/// It is longer than the plan's own lease: a shorter one would make other things happen. It is
/// rounded up to a whole second, since the figure is that of one run to the millisecond.
pub fn lease_that_holds(thresholds: &[Threshold]) -> Option<Nanos> {
    let is_longer = |found: &&Threshold| {
        found.of == "lock.ttl" && found.holds > found.breaks && !found.is_untested
    };
    let longer = thresholds.iter().filter(is_longer);
    let least = longer.filter_map(|found| Nanos::try_from(found.holds).ok()).min()?;
    Some((least / SECOND + 1).saturating_mul(SECOND).min(MAX_LENGTH))
}
