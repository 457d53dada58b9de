//! Which node was promoted in place of another.

use lockstorm_platform::time::Instant;

use crate::explain::witness::Witness;
use crate::history::Seen;
use crate::reading::moment::Moment;

/// When a node that had followed another was last promoted by a moment.
pub fn took_over(witness: &Witness<'_>, node: &str, from: &str, by: Moment) -> Option<Instant> {
    let mut follows = None;
    let mut led = None;
    for told in witness.history().sightings.iter().filter(|told| told.by == node) {
        match told.what {
            Seen::Follows => follows = Some(&told.master),
            Seen::Leads if Moment::from(told.at) <= by => {
                led = follows.filter(|master| *master == from).map(|_| told.at).or(led);
            }
            _ => {}
        }
    }
    led
}
