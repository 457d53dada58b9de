//! The lease that a remedy tries, as far as it was measured.

use lockstorm_platform::time::Nanos;

use crate::explain::experiment::Threshold;

/// The least lease with which a violated plan was seen to hold, ns, by its thresholds: one that is
/// longer than its own, and not one that is so short that other things happen.
pub fn lease_that_holds(thresholds: &[Threshold]) -> Option<Nanos> {
    let is_longer = |found: &&Threshold| {
        found.of == "lock.ttl" && found.holds > found.breaks && !found.is_untested
    };
    let longer = thresholds.iter().filter(is_longer);
    longer.filter_map(|found| found.holds.try_into().ok()).min()
}
