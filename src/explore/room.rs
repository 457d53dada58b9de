//! Which settings leave no room for work in a lease: time-outs, messages and work break one
//! assumption, and not all of them need to change for it to hold.

use crate::ledger::overwork::{Overwork, overworked};
use crate::ledger::part::{Part, Parts, Strikes, settings_of, subsets, without};
use crate::plan::Plan;
use crate::run::Lab;

/// The smallest sets of settings each of which, removed, leaves time of the lease for work, in
/// order of size; none if there is time.
pub fn room(lab: &Lab, plan: &Plan) -> Vec<Parts> {
    let overwork = |plan: &Plan| overworked(plan, &lab.promise(plan));
    let leaves_none = |overwork: Overwork| overwork.bound == 0;
    if !overwork(plan).is_some_and(leaves_none) {
        return Vec::new();
    }
    let settings = settings_of(plan, lab.default_timeout(plan));
    let mut found: Vec<Parts> = Vec::new();
    for size in 1..=settings.len() {
        for set in subsets(&settings, size) {
            let less = without(plan, &set, &Strikes::new());
            let is_smallest = !found.iter().any(|known| known.is_subset(&set));
            let is_valid = || less.validate_with(&lab.locks).is_ok();
            if is_smallest && is_valid() && overwork(&less).is_none() {
                found.push(set);
            }
        }
    }
    found
}

/// The parts with these settings in place of all of them at once.
pub fn with_room(mut parts: Vec<Part>, room: &[Parts]) -> Vec<Part> {
    if !room.is_empty() {
        parts.retain(|part| *part != Part::Work(0));
        parts.extend(room.iter().flatten());
        parts.sort_unstable();
        parts.dedup();
    }
    parts
}
