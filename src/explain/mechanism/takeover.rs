//! Which node was promoted in place of another.

use lockstorm_platform::time::Instant;

use crate::explain::story::Evidence;
use crate::explain::witness::Witness;
use crate::history::Seen;
use crate::reading::moment::Moment;

/// When a node that had followed another was last promoted by a moment, and the report of that.
pub fn took_over(
    witness: &Witness<'_>,
    node: &str,
    from: &str,
    by: Moment,
) -> Option<(Instant, Evidence)> {
    let mut follows = None;
    let mut led = None;
    let sightings = witness.history().sightings.iter().enumerate();
    for (index, role) in sightings.filter(|(_, role)| role.by == node) {
        match role.what {
            Seen::Follows => follows = Some(&role.master),
            Seen::Leads if Moment::from(role.at) <= by => {
                let report = (role.at, Evidence::Sighting(index));
                led = follows.filter(|master| *master == from).map(|_| report).or(led);
            }
            _ => {}
        }
    }
    led
}

/// When a node that had followed any other was last promoted by a moment, and the report of that.
pub fn led_since(witness: &Witness<'_>, node: &str, by: Moment) -> Option<(Instant, Evidence)> {
    let (mut follows, mut led) = (false, None);
    let sightings = witness.history().sightings.iter().enumerate();
    for (index, role) in sightings.filter(|(_, role)| role.by == node) {
        match role.what {
            Seen::Follows => follows = true,
            Seen::Leads if follows && Moment::from(role.at) <= by => {
                (follows, led) = (false, Some((role.at, Evidence::Sighting(index))));
            }
            _ => {}
        }
    }
    led
}
