//! The review of a lock as it is configured: what a reader decides by whether to use it.
//!
//! It joins what other parts of a hunt find out: a run without faults, a hunt within what the lock
//! assumes, a hunt for anything, the row of the matrix, and the explanation of every finding. All
//! of it shares one time limit, in which each step has the time up to its end.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::explain::finding::Finding;
use crate::explore::budget::{Budget, Spending};
use crate::explore::examine;
use crate::hunt::catch;
use crate::hunt::distinct::{Distinct, distinct};
use crate::hunt::left_out::left_out;
use crate::hunt::matrix::{self, Cell};
use crate::hunt::parameter::Parameter;
use crate::hunt::quarry::Quarry;
use crate::hunt::search::{HuntProgress, Scouted, Until, scout};
use crate::hunt::seeded::Hunt;
use crate::lock::algorithm::Algorithm;
use crate::plan::Plan;
use crate::quantity::count;
use crate::refusal::Refusal;
use crate::run::Lab;

/// Which share of its time a review has used up after each step, in per cent: the hunt within the
/// assumptions, that for anything, the row of the matrix, shrinking, explanations.
const ENDS: [u32; 5] = [18, 36, 50, 68, 100];

/// The step that hunts within the assumptions.
const WITHIN: &str = "hunting within the assumptions";

/// The row has one seed for so many of a hunt, and at most so many.
const HUNTED_FOR_EACH: u64 = 8;
const MAX_OF_ROW: u64 = 64;

/// The request for a review: its two hunts.
pub struct Inquiry {
    /// The hunt with any faults.
    pub beyond: Hunt,
    /// The hunt within the assumptions of the lock, or why no plan like this is within them.
    pub within: Result<Hunt, Refusal>,
}

/// What the plans of one of its hunts showed.
#[derive(Clone, Debug)]
pub struct Searched {
    /// The seeds that there were to try.
    pub seeds: RangeInclusive<u64>,
    /// What the plans showed.
    pub scouted: Scouted,
}

/// A way to break the lock.
pub struct Weakness {
    /// The distinct finding, with its experiments if there was time for them.
    pub found: Distinct,
    /// Whether there was.
    pub is_explained: bool,
}

/// The result of a review.
pub struct Review {
    /// What its files are named after: the lock and the topology.
    pub name: String,
    /// The lock.
    pub lock: Algorithm,
    /// The run of the base plan, without faults.
    pub quiet: Finding,
    /// What plans within the assumptions of the lock showed, or why there are none.
    pub within: Result<Searched, Refusal>,
    /// What plans with any faults showed.
    pub beyond: Searched,
    /// The ways to break it, the bugs first.
    pub weaknesses: Vec<Weakness>,
    /// Its row of the matrix, a cell for each family of faults.
    pub row: Vec<Cell>,
    /// The number of plans of each cell.
    pub plans: u64,
    /// The faults that no plan within its assumptions has.
    pub left_out: Vec<&'static str>,
    /// The faults that the other plans are drawn from.
    pub drawn: BTreeSet<String>,
    /// The parameters that are the same in all plans.
    pub fixed: Vec<Parameter>,
    /// Whether the user stopped it before its end.
    pub is_stopped: bool,
}

/// What a review says of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It is violated within what it assumes.
    Broken,
    /// It held within that.
    Held,
    /// Nothing was tested within that, or too little.
    Unknown,
}

impl Review {
    /// What it says of the lock. What breaks only the assumptions of a lock is no fault of it.
    pub fn judged(&self) -> Judged {
        let has_bug = self.weaknesses.iter().any(|one| one.found.is_bug());
        let of_row = self.row.iter().any(|cell| cell.in_model > 0);
        let tested = self.within.as_ref().is_ok_and(|it| it.scouted.tally.has_tested());
        judged(has_bug || of_row, tested && !self.is_stopped)
    }

    /// The two hunts, as far as there are plans for them, each with the words for its plans.
    pub fn hunts(&self) -> impl Iterator<Item = (&'static str, &Searched)> {
        let within = self.within.iter().map(|searched| ("within what it assumes", searched));
        within.chain([("with any faults", &self.beyond)])
    }
}

fn judged(is_broken: bool, is_tested: bool) -> Judged {
    match (is_broken, is_tested) {
        (true, _) => Judged::Broken,
        (false, true) => Judged::Held,
        (false, false) => Judged::Unknown,
    }
}

/// The time limits of the steps, of which each begins where the one before it ended in fact.
struct Steps {
    total: Budget,
    began: Duration,
}

impl Steps {
    fn of(total: Budget) -> Steps {
        Steps { total, began: (total.clock)() }
    }

    /// What is left for a step.
    fn until(&self, percent: u32) -> Budget {
        let end = self.began.saturating_add(self.total.length / 100 * percent);
        Budget { length: end.saturating_sub((self.total.clock)()), ..self.total }
    }

    fn spending(&self, percent: u32) -> Spending {
        Spending::of(Some(self.until(percent)))
    }

    fn begin(&self, what: &str) {
        (self.total.report)(what);
    }
}

/// What the files of a review with this base plan are named after.
pub fn name(base: &Plan) -> String {
    catch::name(base).replacen("hunt-", "review-", 1)
}

impl Inquiry {
    /// The review of the lock of a quarry, with its seeds for each hunt.
    ///
    /// # Errors
    /// If no hunt like this makes sense. If none does within the assumptions alone, the review
    /// says so.
    pub fn of(lab: &Lab, quarry: &Quarry) -> Result<Inquiry, Refusal> {
        let hunt = |within| {
            let mut quarry = quarry.clone();
            quarry.within_assumptions = within;
            quarry.hunt(lab.clone())
        };
        Ok(Inquiry { beyond: hunt(false)?, within: hunt(true) })
    }

    /// The result, as far as the time suffices for it.
    pub fn review(&self, limit: Budget) -> Review {
        let Inquiry { beyond, within } = self;
        let (lab, steps) = (&beyond.lab, Steps::of(limit));
        let [end_within, end_beyond, end_row, end_shrinking, end] = ENDS;
        let quiet = examine::classified(lab, &beyond.base);
        let searched = |hunt: &Hunt, what: &str, end: u32| {
            let progress = |far: HuntProgress| steps.begin(&step(what, far));
            let scouted = scout(hunt, Until::End, Some(steps.until(end)), &progress);
            Searched { seeds: hunt.seeds.clone(), scouted }
        };
        let of_within = within.as_ref().map(|hunt| searched(hunt, WITHIN, end_within));
        let of_beyond = searched(beyond, "hunting with any faults", end_beyond);
        steps.begin("trying each family of faults");
        let (row, plans) = matrix::row(lab, &beyond.base, self.of_row(), &steps.spending(end_row));
        let spending = steps.spending(end_shrinking);
        let shrunk = |hunt: &Hunt, searched: &Searched| {
            distinct(hunt, &searched.scouted.groups, &spending, &|| steps.begin("shrinking"))
        };
        let bugs = within.iter().zip(&of_within).flat_map(|(hunt, found)| shrunk(hunt, found));
        let mut all: Vec<Distinct> = bugs.collect();
        all.extend(shrunk(beyond, &of_beyond));
        let weaknesses = explained(lab, once(all), &catch::name(&beyond.base), |nth, count| {
            let left = steps.until(end);
            Budget { length: left.length / (count - nth).max(1), ..left }
        });
        let is_fixed = |parameter: &Parameter| !beyond.alphabet.varies.contains(parameter);
        Review {
            name: name(&beyond.base),
            lock: beyond.alphabet.lock,
            quiet,
            within: of_within.map_err(Clone::clone),
            beyond: of_beyond,
            weaknesses,
            row,
            plans,
            left_out: within.as_ref().map(left_out).unwrap_or_default(),
            drawn: beyond.alphabet.verbs.clone(),
            fixed: Parameter::ALL.into_iter().filter(is_fixed).collect(),
            is_stopped: (limit.is_stopped)(),
        }
    }

    /// The seeds of each cell of the row: fewer than those of the hunts.
    fn of_row(&self) -> RangeInclusive<u64> {
        let first = *self.beyond.seeds.start();
        let some = (self.beyond.plans() / HUNTED_FOR_EACH).clamp(1, MAX_OF_ROW);
        first..=first.saturating_add(some - 1)
    }
}

fn step(what: &str, far: HuntProgress) -> String {
    match far {
        HuntProgress::Tried { groups, states, .. } => {
            let (groups, states) = (count(groups as u64, "group"), count(states, "state"));
            format!("{what}: {groups}, {states}")
        }
        HuntProgress::Shrunk => "shrinking".to_owned(),
    }
}

/// Each finding once, the bugs first: both hunts may have found the same, and the first of them
/// knows it by plans within the assumptions.
fn once(all: Vec<Distinct>) -> Vec<Distinct> {
    let mut known = BTreeSet::new();
    let is_new = |one: &Distinct| one.identity().is_none_or(|identity| known.insert(identity));
    let (mut bugs, others): (Vec<Distinct>, Vec<Distinct>) =
        all.into_iter().filter(is_new).partition(Distinct::is_bug);
    bugs.extend(others);
    bugs
}

/// The findings with their experiments, one after the other: `budget` is what is left for one of
/// them. The causes of one that has begun are searched in any case.
fn explained(
    lab: &Lab,
    all: Vec<Distinct>,
    name: &str,
    budget: impl Fn(u32, u32) -> Budget,
) -> Vec<Weakness> {
    let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let explain = |(nth, mut found): (u32, Distinct)| {
        found.finding.scenario = format!("{name}-{}", found.finding.plan_hash);
        let budget = budget(nth, count);
        let is_explained = !budget.length.is_zero();
        if is_explained {
            found.finding = examine::explained(lab, Some(budget), &[], found.finding);
        }
        Weakness { found, is_explained }
    };
    (0..).zip(all).map(explain).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Judged, Steps, judged, once};
    use crate::check::signature::Signature;
    use crate::check::verdict::Kind;
    use crate::explain::finding::Class;
    use crate::explain::fixture;
    use crate::explore::budget::Budget;
    use crate::hunt::distinct::Distinct;
    use crate::hunt::shrink::Shrunk;
    use crate::hunt::strategy::Strategy;

    /// A finding in so many plans, as a bug or not.
    fn found(count: u64, is_bug: bool) -> Distinct {
        let mut finding = fixture::gc_pause::finding();
        finding.signature = Some(Signature::of(&finding.judgement.verdict));
        let in_model = if is_bug { vec![Kind::Corruption] } else { Vec::new() };
        finding.class = Some(Class { in_model, ..Class::default() });
        let (strategy, shrunk) = (Strategy::Random, Shrunk::default());
        Distinct { count, finding, strategy, sound: None, shrunk, uncompared: None }
    }

    #[test]
    fn what_both_hunts_found_is_told_once_and_bugs_come_first() {
        let all = vec![found(1, false), found(2, true), found(3, false), found(4, true)];
        let kept: Vec<u64> = once(all).iter().map(|one| one.count).collect();
        assert_eq!(kept, [2, 1]);
    }

    #[test]
    fn a_bug_counts_whatever_was_not_tested_and_only_what_was_tested_held() {
        for (is_broken, is_tested, said) in [
            (true, true, Judged::Broken),
            (true, false, Judged::Broken),
            (false, true, Judged::Held),
            (false, false, Judged::Unknown),
        ] {
            assert_eq!(judged(is_broken, is_tested), said);
        }
    }

    #[test]
    fn a_step_that_takes_longer_leaves_less_for_the_next_and_no_step_goes_beyond_the_end() {
        let at = |clock: fn() -> Duration| {
            let length = Duration::from_secs(40);
            let total = Budget { length, clock, report: |_| {}, is_stopped: || false };
            Steps { total, began: Duration::from_secs(10) }
        };
        let early = at(|| Duration::from_secs(15));
        assert_eq!(early.until(50).length, Duration::from_secs(15));
        assert_eq!(early.until(100).length, Duration::from_secs(35));
        let late = at(|| Duration::from_secs(31));
        assert_eq!(late.until(50).length, Duration::ZERO);
        assert_eq!(late.until(100).length, Duration::from_secs(19));
    }
}
