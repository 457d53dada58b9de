//! Runs all checks over one history and takes the worst result.

use serde::{Deserialize, Serialize};

use crate::check::availability::{Availability, Unavailable};
use crate::check::case::Case;
use crate::check::counts::{self, Counts};
use crate::check::nearest_miss::NearestMiss;
use crate::check::own::{Check, OwnChecks};
use crate::check::terms::Terms;
use crate::check::untested::{self, Untested};
use crate::check::verdict::{Verdict, Violation};
use crate::check::{
    availability, contract, corruption, fence, foreign, late_loss, leak, linear, liveness,
    lost_early,
};
use crate::check::{nearest_miss, overlap, overtaking, renewal};
use crate::history::History;
use crate::reading::moment::Moment;

/// The results of all checks over one history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// How much was tested.
    pub counts: Counts,
    /// What was not, if the verdict is unknown for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untested: Vec<Untested>,
    /// The nearest miss, ns, if a hold wrote to the resource and a lease can end. Negative if
    /// another could have been granted the lock before the write.
    pub nearest_miss: Option<i64>,
    /// The nearest miss with its evidence.
    #[serde(default)]
    pub nearest: Option<NearestMiss>,
    /// How well callers were served.
    #[serde(default)]
    pub availability: Availability,
}

/// The built-in checks of callers: one judgement for all keys of a lock.
const OF_CALLERS: [&dyn Check; 2] = [&contract::violations, &late_loss::violations];

/// The built-in checks of a key: each key of a group is judged as a lock of its own.
const OF_KEY: [&dyn Check; 9] = [
    &overlap::violations,
    &corruption::violations,
    &foreign::violations,
    &leak::violations,
    &renewal::violations,
    &lost_early::violations,
    &fence::violations,
    &overtaking::violations,
    &linear::judge,
];

/// Judges a history by its terms. The worst result wins: violated, then unknown, then holds.
pub fn judge(history: &History, terms: &Terms) -> Judgement {
    judge_case(&Case::new(history, terms), &OwnChecks::default())
}

/// As [`judge`], for a case that is already prepared, and with checks of one's own in addition.
pub fn judge_case(case: &Case, own: &OwnChecks) -> Judgement {
    // Each key of a group is judged as a lock of its own; what concerns callers is judged once.
    let terms = case.terms.each_key();
    let histories: Vec<History> =
        terms.iter().map(|terms| case.history.of_key(&terms.lock_key)).collect();
    let keyed = histories.iter().zip(&terms).map(|(history, terms)| Case::new(history, terms));
    let keyed: Vec<Case> = keyed.collect();
    let keyed: Vec<&Case> = if keyed.is_empty() { vec![case] } else { keyed.iter().collect() };
    let counts = counts::count(case);
    let liveness = liveness::judge(case);
    let (mut untested, mut unknown): (Vec<Untested>, Vec<String>) =
        untested::found(case, &counts).into_iter().unzip();
    untested.dedup();
    let mut violations = Vec::new();
    let of_callers = OF_CALLERS.iter().map(|check| check.findings(case));
    for found in of_callers.chain(own.findings(case)) {
        violations.extend(found.violations);
        unknown.extend(found.unknown);
    }
    unknown.extend(liveness.unknown);
    let stuck = liveness.violations.into_iter();
    violations.extend(stuck.map(|stuck| {
        let key = stuck.key.clone().or_else(|| left_key(&keyed, &stuck));
        Violation { key, ..stuck }
    }));
    for one in &keyed {
        let key = || (keyed.len() > 1).then(|| one.terms.lock_key.clone());
        for found in OF_KEY.iter().map(|check| check.findings(one)) {
            let found_here = found.violations.into_iter();
            violations.extend(found_here.map(|violation| Violation { key: key(), ..violation }));
            unknown.extend(found.unknown);
        }
    }
    let verdict = worst(violations, &unknown);
    let nearest = keyed.iter().filter_map(|one| nearest_miss::nearest(one));
    let nearest = nearest.min_by_key(|nearest| nearest.by);
    let nearest_miss = nearest.as_ref().map(|nearest| nearest.by);
    let served = keyed.iter().map(|one| Availability {
        key: (keyed.len() > 1).then(|| one.terms.lock_key.clone()),
        ..availability::measure(one)
    });
    let out = |served: &Availability| served.unavailable.as_ref().map(Unavailable::length);
    let availability = served.max_by_key(out).unwrap_or_default();
    Judgement { verdict, counts, untested, nearest_miss, nearest, availability }
}

/// The key of a group that was there when a violation of liveness ended, or its first key; none if
/// the lock takes no groups.
fn left_key(keyed: &[&Case], stuck: &Violation) -> Option<String> {
    let at = Moment::from(stuck.to);
    let is_there =
        |case: &&&Case| case.lives.lives.iter().any(|life| life.from <= at && at < case.gone(life));
    let found = keyed.iter().find(is_there).or(keyed.first());
    found.filter(|_| keyed.len() > 1).map(|case| case.terms.lock_key.clone())
}

fn worst(mut violations: Vec<Violation>, unknown: &[String]) -> Verdict {
    if !violations.is_empty() {
        violations.sort_by_key(|violation| (violation.kind, violation.from));
        return Verdict::Violated(violations);
    }
    if !unknown.is_empty() {
        return Verdict::Unknown(unknown.join("; "));
    }
    Verdict::Holds
}
