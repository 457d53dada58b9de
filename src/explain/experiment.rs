//! The reruns that explain a violation, and their results: plain data, filled in by explore.
//!
//! A *cause* is what made the difference when it was changed and nothing else was (actual causality
//! by intervention, after Halpern and Pearl). Draws of chance are addressed, so a change moves no
//! unrelated draw, and the rest of the plan runs as it did.
//!
//! - A part of the plan is **necessary** if the headline violation does not occur without it.
//! - A set of parts **suffices** if it contains all necessary parts, and the violation occurs with
//!   these alone, all others removed; it is minimal if no part of it can be removed. A violation
//!   that occurs without a necessary part, once others are removed as well, is another violation.
//!   All sets of up to three parts besides the necessary ones are tried. Larger ones are searched:
//!   parts are removed so that no known set is left, and if the violation still occurs, the rest is
//!   made smaller. If the limits of that search end it, the report says that there may be others.
//! - A fault that is necessary or in such a set does it **alone** if the violation occurs with it
//!   as the only fault. If a second fault undoes the effect of the first and a third one undoes the
//!   second, the third is necessary, and the first still does it alone.
//! - A part that is neither necessary nor in a minimal set made no difference.
//! - A run in which nobody is granted the lock tests nothing: a part whose removal leads to such a
//!   run is none of these.
//!
//! Two pauses that each outlast the lease show why both words are needed: neither is necessary,
//! since the other does the same, and each suffices.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::check::availability::{Availability, Unavailable};
use crate::check::signature::Signature;
use crate::check::verdict::Kind;
use crate::default::is_default;
use crate::ledger::part::Part;
use crate::plan::Plan;

/// The results of all experiments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Experiments {
    /// What made the difference.
    pub causes: Causes,
    /// Which of the violations is the headline: the first of its kind that comes about as without
    /// the parts that make no difference.
    #[serde(skip_serializing_if = "is_default")]
    pub headline: usize,
    /// How the violation comes about without those parts, if none comes about in that way here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_idle: Option<String>,
    /// Faults that make a difference, but not to the headline violation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_effects: Vec<OtherEffect>,
    /// The thresholds.
    pub thresholds: Vec<Threshold>,
    /// The results of the unchanged plan on fresh seeds, if remedies were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_fresh: Option<Fresh>,
    /// Figures of faults that made the difference but have no threshold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steady: Vec<Steady>,
    /// The remedies that were tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedied>,
    /// The number of plans that were run for all of this.
    pub runs: u32,
    /// What was skipped because the budget was used up or the user stopped the hunt, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<String>,
    /// Whether the user stopped the hunt before the budget was used up.
    #[serde(skip_serializing_if = "is_default")]
    pub is_stopped: bool,
}

/// Why a piece of work was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The budget was used up.
    Budget,
    /// The user stopped it.
    Stopped,
}

impl Cut {
    /// The reason, in words.
    pub fn words(self) -> &'static str {
        match self {
            Cut::Budget => "the budget was used up",
            Cut::Stopped => "the hunt was stopped",
        }
    }
}

/// What made the difference to the headline violation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Causes {
    /// Parts without which it does not occur, whatever else is removed.
    pub necessary: Vec<Part>,
    /// The minimal sets of parts that suffice. One empty set: nothing is needed.
    pub sufficient: Vec<Vec<Part>>,
    /// Parts without which alone it does not occur, although it does without them and others: what
    /// is left of the plan hides it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needed_here: Vec<Part>,
    /// Whether there may be other such sets, because the search for larger ones was not complete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_be_more: bool,
    /// Parts that made no difference.
    pub idle: Vec<Part>,
    /// Parts without which nobody is granted the lock: nothing is learned from their removal, and
    /// they stay in place in all other trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untested: Vec<Part>,
    /// What is violated after each single change.
    pub changes: Vec<Changed>,
}

impl Causes {
    /// Every part that is necessary or in a minimal set, in order.
    pub fn acting(&self) -> Vec<Part> {
        let sets = self.sufficient.iter().flatten().copied();
        let mut acting: Vec<Part> = self.necessary.iter().copied().chain(sets).collect();
        acting.sort_unstable();
        acting.dedup();
        acting
    }
}

/// What a fault does besides the headline violation, to which it makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherEffect {
    /// The fault, by number.
    pub fault: u32,
    /// The signature of the violation without it.
    pub without: Signature,
    /// The faults, by number, that strike in the plan's own run but never without this fault: their
    /// anchor does not occur then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<u32>,
}

/// One change of a plan, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The change.
    pub change: PlanChange,
    /// What is violated after the change.
    pub kinds: Vec<Kind>,
    /// Whether the headline violation still occurs.
    pub stays: bool,
    /// The later heal that the change needs. With that heal as the only change, the headline
    /// violation still occurs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later: Option<LaterHeal>,
    /// Whether that run tested nothing, because nobody was granted the lock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_untested: bool,
    /// Whether the verdict on that run is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unknown: bool,
}

/// One change of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanChange {
    /// A part is removed.
    Without(Part),
    /// A fault is half as long, or its figure half as large.
    Halved(u32),
    /// A fault is twice as long, or its figure twice as large.
    Doubled(u32),
    /// A fault strikes this much earlier, ns.
    Earlier(u32, Nanos),
    /// A fault strikes this much later, ns.
    Later(u32, Nanos),
}

/// A heal that is later than the plan's, which would cut a longer fault short, and the end of the
/// run that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaterHeal {
    /// When all faults end, ns.
    pub heal_at: Nanos,
    /// When the run ends, ns.
    pub until: Nanos,
}

impl LaterHeal {
    /// The heal and the end of `with`, if its heal differs from that of `plan`.
    pub fn of(plan: &Plan, with: &Plan) -> Option<LaterHeal> {
        let is_later = with.heal_at != plan.heal_at;
        is_later.then_some(LaterHeal { heal_at: with.heal_at, until: with.until })
    }
}

/// A figure of a plan, and the value at which the verdict changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The figure: `fault:1.for`, `lock.ttl`.
    pub of: String,
    /// Its unit.
    pub unit: Unit,
    /// Its value in the plan; for a fault that the heal cuts short, its actual length.
    pub own: i64,
    /// The value next to `breaks` with which nothing is violated.
    pub holds: i64,
    /// Whether nothing was tested with that value: such a short fault strikes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_untested: bool,
    /// With that value: for how long another could have been granted the lock when a holder
    /// made its last write, ns. Nothing is violated, since no caller was granted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_open: Option<Nanos>,
    /// The value with which something is violated.
    pub breaks: i64,
    /// The range searched for gaps, a dozen values on each side: beyond `holds`, beyond `breaks`.
    pub looked: (i64, i64),
    /// The tried values beyond `breaks` with which nothing is violated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds_again: Vec<i64>,
    /// The tried values beyond `holds` with which something is violated, and the last such value
    /// towards the end of the range, which a search finds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaks_again: Vec<i64>,
    /// What is violated with `breaks`, or by which mechanism, if that differs from the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instead: String,
    /// The bound that the lock's promise gives, in the same unit, if it has one: the maximum, or
    /// for a down time the minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<i64>,
    /// The later heal with which all of these values were run, if the plan's own heal would cut so
    /// long a fault short. With it, the plan's own value has the same result as in the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later: Option<LaterHeal>,
}

/// A figure of a plan that makes no difference within the searched range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steady {
    /// The figure: `fault:1.for`, `lock.ttl`.
    pub of: String,
    /// Its unit.
    pub unit: Unit,
    /// Its value in the plan.
    pub own: i64,
    /// The range in which the result is as in the plan.
    pub between: (i64, i64),
    /// Whether something is violated in this range, or nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_violated: bool,
    /// The value beyond which each run had a heal that was later by as much as the fault was
    /// longer, if there were such runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<i64>,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    Length,
    /// Nanoseconds forward (negative: back).
    Shift,
    /// Parts per million.
    Share,
    /// Parts per million fast (negative: slow).
    Rate,
}

/// A remedy, and the results of the same plan with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedied {
    /// Its name.
    pub name: String,
    /// The digest of the plan with it, if that is a scenario's plan; otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scenario_plan: String,
    /// The differences to the plan, one line each.
    pub diff: Vec<String>,
    /// What is violated with it, all else equal.
    pub kinds: Vec<Kind>,
    /// Whether the verdict of that run is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unknown: bool,
    /// How callers are served with it, all else equal: its cost.
    #[serde(default)]
    pub service: ServiceLevel,
    /// The results on fresh seeds.
    pub on_fresh: Fresh,
}

/// The results of a plan on the seeds that follow its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fresh {
    /// The number of runs.
    pub runs: u32,
    /// The runs in which nothing is violated.
    pub held: u32,
    /// The runs with an unknown verdict.
    pub unknown: u32,
}

impl Fresh {
    /// The runs with a verdict.
    fn decided(self) -> u64 {
        self.runs.saturating_sub(self.unknown).into()
    }

    /// Whether a remedy cures a plan with these results. With the remedy, every run with a verdict
    /// must hold. There must also be enough of these runs to expect three violations at the rate
    /// without the remedy: a remedy without effect would then show none in only 1 of 20 cases.
    pub fn is_cured_by(self, with: Fresh) -> bool {
        let violated = self.decided().saturating_sub(self.held.into());
        let holds = with.decided() > 0 && u64::from(with.held) == with.decided();
        holds && violated * with.decided() >= 3 * self.decided()
    }

    /// Whether a smaller share of the runs with a verdict holds with a remedy than without it.
    pub fn is_harmed_by(self, with: Fresh) -> bool {
        u64::from(with.held) * self.decided() < u64::from(self.held) * with.decided()
    }
}

/// How callers were served, as far as remedies are compared by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceLevel {
    /// Grants per minute, rounded down.
    pub grants_per_minute: u32,
    /// The median wait, ns.
    pub median_wait: Nanos,
    /// The 99th percentile of the waits, ns.
    pub percentile_99_wait: Nanos,
    /// Requests to nodes per grant, in thousandths; `None` without a grant.
    pub requests_per_grant: Option<u64>,
    /// Refused acquires among those that returned, in thousandths.
    pub refused: u32,
    /// The longest stretch in which the lock was unavailable, ns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub longest_unavailable: Nanos,
}

impl ServiceLevel {
    /// The part of the measurements that is compared.
    pub fn of(measured: &Availability) -> ServiceLevel {
        ServiceLevel {
            grants_per_minute: measured.grants_per_minute,
            median_wait: measured.waits.median,
            percentile_99_wait: measured.waits.percentile_99,
            requests_per_grant: measured.requests_per_grant,
            refused: measured.refused,
            longest_unavailable: measured.unavailable.as_ref().map_or(0, Unavailable::length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fresh;

    #[test]
    fn a_remedy_cures_what_often_fails_without_it_and_never_with_it() {
        let fresh = |held, unknown| Fresh { runs: 50, held, unknown };
        assert!(fresh(31, 0).is_cured_by(fresh(50, 0)));
        assert!(fresh(0, 40).is_cured_by(fresh(10, 40)));
        // Two violations more or less are chance.
        assert!(!fresh(24, 24).is_cured_by(fresh(26, 24)));
        assert!(!fresh(50, 0).is_cured_by(fresh(50, 0)));
        assert!(!fresh(0, 0).is_cured_by(fresh(49, 0)));
        assert!(!fresh(0, 0).is_cured_by(fresh(0, 50)));
    }
}
