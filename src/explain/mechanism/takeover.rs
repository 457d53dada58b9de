//! Which node was promoted in place of another.

use lockstorm_platform::time::Instant;

use crate::explain::evidence::Evidence;
use crate::explain::witness::Witness;
use crate::history::Seen;
use crate::reading::leaders;
use crate::reading::moment::Moment;

/// When a node that had followed another (`from`, if given) last became a master by a moment, and
/// the report of that. A master that restarts as a master does not count.
pub fn took_over(
    witness: &Witness<'_>,
    node: &str,
    from: Option<&str>,
    by: Moment,
) -> Option<(Instant, Evidence)> {
    let (mut follows, mut led) = (None, None);
    let sightings = witness.history().sightings.iter().enumerate();
    for (index, role) in sightings.filter(|(_, role)| role.by == node) {
        match role.what {
            Seen::Follows => follows = Some(&role.master),
            Seen::Leads if Moment::from(role.at) <= by => {
                let followed = follows.take();
                if followed.is_some_and(|master| from.is_none_or(|from| master == from)) {
                    led = Some((role.at, Evidence::Sighting(index)));
                }
            }
            _ => {}
        }
    }
    led
}

/// How a node that had followed another became a master, in words. A replica that is started as a
/// master is not promoted.
pub fn became_master(witness: &Witness<'_>, node: &str, led: Instant) -> &'static str {
    let promoted = leaders::promoted(&witness.reading);
    match promoted.iter().any(|seen| seen.by == node && seen.at == led) {
        true => "was made master",
        false => "was started as a master",
    }
}
