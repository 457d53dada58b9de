//! The lease that a remedy tries, as far as it was measured.

use lockstorm_platform::fault::MAX_LENGTH;
use lockstorm_platform::time::{Nanos, SECOND};

use crate::explain::experiment::Threshold;

/// The least lease with which a violated plan was seen to hold, ns, by its thresholds: one that is
/// longer than its own, and not one that is so short that other things happen. The next whole
/// second above, since the figure is that of one run to the millisecond.
pub fn lease_that_holds(thresholds: &[Threshold]) -> Option<Nanos> {
    let is_longer = |found: &&Threshold| {
        found.of == "lock.ttl" && found.holds > found.breaks && !found.is_untested
    };
    let longer = thresholds.iter().filter(is_longer);
    let least = longer.filter_map(|found| Nanos::try_from(found.holds).ok()).min()?;
    Some((least / SECOND + 1).saturating_mul(SECOND).min(MAX_LENGTH))
}
