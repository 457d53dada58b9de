//! Which settings leave nothing of a lease for work. Timeouts, messages and work break one
//! assumption together, and it may hold after a change of only some of them.

use crate::ledger::overwork::{Overwork, overworked};
use crate::ledger::part::{Part, Parts, Strikes, settings_of, subsets, without};
use crate::plan::Plan;
use crate::run::Lab;

/// The minimal sets of settings whose removal leaves time of the lease for the work of the plan, or
/// for as much of it as the set keeps; in order of size. Empty if the plan already has time.
pub fn leeway(lab: &Lab, plan: &Plan) -> Vec<Parts> {
    let overwork = |plan: &Plan| overworked(plan, &lab.promise(plan));
    let leaves_none = |overwork: Overwork| overwork.bound == 0;
    if !overwork(plan).is_some_and(leaves_none) {
        return Vec::new();
    }
    let settings = settings(lab, plan);
    let mut found: Vec<Parts> = Vec::new();
    for size in 1..=settings.len() {
        for mut set in subsets(&settings, size) {
            let less = without(plan, &set, &Strikes::new());
            if found.iter().any(|known| known.is_subset(&set))
                || less.validate_with(&lab.locks).is_err()
            {
                continue;
            }
            match overwork(&less) {
                Some(Overwork { bound: 0, .. }) => continue,
                // There is time, but not for all of the work.
                Some(overwork) => set.insert(Part::Work(overwork.bound)),
                None => false,
            };
            found.push(set);
        }
    }
    found
}

/// The timeout and the messages; a timeout for slow messages, and one for fast ones.
pub fn settings(lab: &Lab, plan: &Plan) -> Vec<Part> {
    let fast = without(plan, &[Part::Latency].into(), &Strikes::new());
    let both = [plan, &fast].map(|plan| settings_of(plan, lab.default_timeout(plan)));
    both.into_iter().flatten().collect::<Parts>().into_iter().collect()
}

/// The parts, with these sets of settings in place of the work as a whole.
pub fn with_leeway(mut parts: Vec<Part>, leeway: &[Parts]) -> Vec<Part> {
    if !leeway.is_empty() {
        parts.retain(|part| *part != Part::Work(0));
        parts.extend(leeway.iter().flatten());
        parts.sort_unstable();
        parts.dedup();
    }
    parts
}
