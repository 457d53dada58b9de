//! Which node was promoted in place of another.

use lockstorm_platform::time::Instant;

use crate::explain::witness::Witness;
use crate::history::Seen;
use crate::reading::moment::Moment;

/// When a node that had followed another was last promoted by a moment.
pub fn took_over(witness: &Witness<'_>, node: &str, from: &str, by: Moment) -> Option<Instant> {
    let mut follows = None;
    let mut led = None;
    for role in witness.history().sightings.iter().filter(|role| role.by == node) {
        match role.what {
            Seen::Follows => follows = Some(&role.master),
            Seen::Leads if Moment::from(role.at) <= by => {
                led = follows.filter(|master| *master == from).map(|_| role.at).or(led);
            }
            _ => {}
        }
    }
    led
}
