//! What was run again to explain a violation, and what came of it: plain data, filled in by
//! explore.
//!
//! A *cause* is what made the difference when it was changed and nothing else was (actual causality
//! by intervention, after Halpern and Pearl). Draws of chance are addressed, so that a change moves
//! no unrelated draw, and what is left of a plan runs as it did.
//!
//! - A part of the plan is **necessary** if the violation that is told is not there without it.
//! - A set of parts **suffices** if it has all that is necessary, and the violation is there with
//!   these alone, all others taken out; it is a smallest one if nothing can be left out of it. What
//!   is there without a necessary part, once others are out as well, is another violation. Sets of
//!   up to three parts are looked at, and where none is enough one that cannot be made smaller.
//! - A part that is neither necessary nor in a smallest set has made no difference.
//!
//! Two pauses that each outlast the lease show why both words are needed: neither is necessary,
//! since the other does the same, and each suffices.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::check::availability::Availability;
use crate::check::verdict::Kind;
use crate::ledger::part::Part;

/// Everything that was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Experiments {
    /// What made the difference.
    pub causes: Causes,
    /// From which figures on.
    pub thresholds: Vec<Threshold>,
    /// What the plan as it is comes to on fresh seeds, where remedies were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_fresh: Option<Fresh>,
    /// Figures of faults that made the difference, and that have no threshold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steady: Vec<Steady>,
    /// What was tried against it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedied>,
    /// How many plans were run for all of this.
    pub runs: u32,
    /// What was left undone since the budget was used up, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<String>,
}

/// What made the difference to the violation that is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Causes {
    /// Parts without which it is not there.
    pub necessary: Vec<Part>,
    /// The smallest sets of parts that are enough for it, of up to three parts each; where it takes
    /// more, one that none of its parts can be taken out of. One of no parts: nothing is needed.
    pub sufficient: Vec<Vec<Part>>,
    /// Parts that made no difference.
    pub idle: Vec<Part>,
    /// What is violated if one thing is changed.
    pub changes: Vec<Changed>,
}

impl Causes {
    /// Every part that is necessary or in a smallest set, in order.
    pub fn acting(&self) -> Vec<Part> {
        let sets = self.sufficient.iter().flatten().copied();
        let mut acting: Vec<Part> = self.necessary.iter().copied().chain(sets).collect();
        acting.sort_unstable();
        acting.dedup();
        acting
    }
}

/// One change of a plan, and what it came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The change.
    pub change: Change,
    /// What is violated then.
    pub kinds: Vec<Kind>,
    /// Whether the violation that is told is still there.
    pub stays: bool,
    /// Whether nothing can be said of that run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unknown: bool,
}

/// One thing about a plan that is made otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A part is taken out.
    Without(Part),
    /// A fault is half as long, or its figure half as large.
    Halved(u32),
    /// A fault is twice as long, or its figure twice as large.
    Doubled(u32),
    /// A fault strikes so much earlier, ns.
    Earlier(u32, Nanos),
    /// A fault strikes so much later, ns.
    Later(u32, Nanos),
}

/// A figure of a plan, and from where on something is violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// Which figure: `fault:1.for`, `lock.ttl`.
    pub of: String,
    /// Its unit.
    pub unit: Unit,
    /// What it is in the plan.
    pub own: i64,
    /// The figure next to `breaks` with which nothing is violated.
    pub holds: i64,
    /// Whether nothing was tested with that figure: a fault so short meets nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_untested: bool,
    /// The figure with which something is.
    pub breaks: i64,
    /// How far was looked for gaps, a dozen figures on each side: beyond `holds`, beyond `breaks`.
    pub looked: (i64, i64),
    /// The figures looked at beyond `breaks` with which nothing is violated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds_again: Vec<i64>,
    /// The figures looked at beyond `holds` with which something is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaks_again: Vec<i64>,
    /// What is violated with that figure, or how, where that is something else than in the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instead: String,
    /// What the lock withstands by its promise, in the same unit, where that speaks of it: the
    /// most, or of a down-time the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<i64>,
}

/// A figure of a plan that makes no difference as far as was looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steady {
    /// Which figure: `fault:1.for`, `lock.ttl`.
    pub of: String,
    /// Its unit.
    pub unit: Unit,
    /// What it is in the plan.
    pub own: i64,
    /// The figures between which it is as in the plan.
    pub between: (i64, i64),
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    Length,
    /// Nanoseconds forward (negative: back).
    Shift,
    /// Parts in a million.
    Share,
    /// Parts per million fast (negative: slow).
    Rate,
}

/// A remedy, and what the same plan comes to with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedied {
    /// What it is.
    pub name: String,
    /// The digest of the plan with it, where that is a scenario's; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scenario_plan: String,
    /// What is otherwise in the plan, a line each.
    pub diff: Vec<String>,
    /// What is violated with it, all else equal.
    pub kinds: Vec<Kind>,
    /// Whether nothing can be said of that run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unknown: bool,
    /// How callers are served with it, all else equal: what it costs.
    #[serde(default)]
    pub service: Service,
    /// What it comes to on fresh seeds.
    pub on_fresh: Fresh,
}

/// What a plan comes to on the seeds that follow its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fresh {
    /// How many were run.
    pub runs: u32,
    /// On how many nothing is violated.
    pub held: u32,
    /// Of how many nothing can be said.
    pub unknown: u32,
}

/// How callers were served, as far as remedies are compared by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Grants a minute, cut to a whole number.
    pub grants_per_minute: u32,
    /// Half of the waits lasted no longer, ns.
    pub median_wait: Nanos,
    /// 99 in a hundred waits lasted no longer, ns.
    pub percentile_99_wait: Nanos,
    /// Requests to nodes for each grant, in thousandths; `None` without a grant.
    pub requests_per_grant: Option<u64>,
    /// Acquires that were refused, of those that were answered, in thousandths.
    pub refused: u32,
}

impl Service {
    /// Of what was measured.
    pub fn of(measured: &Availability) -> Service {
        Service {
            grants_per_minute: measured.grants_per_minute,
            median_wait: measured.waits.median,
            percentile_99_wait: measured.waits.percentile_99,
            requests_per_grant: measured.requests_per_grant,
            refused: measured.refused,
        }
    }
}
