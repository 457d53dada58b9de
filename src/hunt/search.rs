//! The search for violations: each seed draws a plan, and what the plans violate is grouped.
//!
//! The result does not depend on how many runs are parallel. A search that stops at the first
//! violation reports that of the smallest seed.

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use crate::check::signature::Signature;
use crate::check::untested::Untested;
use crate::check::verdict::Verdict;
use crate::explore::budget::{Budget, Spending};
use crate::explore::class::classify;
use crate::explore::examine;
use crate::explore::trial::{attempt, repeated};
use crate::hunt::group::{Example, GroupKey, Groups, leading};
use crate::hunt::novelty::{Novelty, states};
use crate::hunt::seeded::{Hunt, draw};
use crate::hunt::strategy::Strategy;
use crate::hunt::strategy::portfolio::GROUP;
use crate::hunt::tally::Tally;
use crate::promise::contract::Clause;

/// The number of seeds that run before the hunt checks what they found, and its budget.
pub const BATCH: u64 = 64;

/// When a hunt stops, unless its budget is used up before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At the first violation.
    First,
    /// When the seeds are exhausted.
    End,
}

/// What the plans of a hunt showed, before any of them is shrunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scouted {
    /// How much was tested.
    pub tally: Tally,
    /// What was violated.
    pub groups: Groups,
    /// The states that the plans have shown.
    pub novelty: Novelty,
    /// The first seed that was not tried, if the budget was used up before it.
    pub next: Option<u64>,
}

/// The progress of a hunt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HuntProgress {
    /// This many more seeds are finished.
    Tried {
        /// The number of seeds.
        seeds: u64,
        /// The groups of violations so far.
        groups: usize,
        /// The distinct states so far.
        states: u64,
    },
    /// The plan of one more group is shrunk.
    Shrunk,
}

/// Runs the plans of the seeds, a batch at a time, and groups what they violate. One batch runs
/// whatever the budget is.
pub fn scout(
    hunt: &Hunt,
    until: Until,
    budget: Option<Budget>,
    progress: &dyn Fn(HuntProgress),
) -> Scouted {
    let spending = Spending::of(budget);
    let (mut all, mut portfolio) = (Scouted::default(), hunt.portfolio());
    let (mut next, last) = (*hunt.seeds.start(), *hunt.seeds.end());
    while next <= last {
        let end = last.min(next.saturating_add(BATCH - 1));
        // The whole batch is run before any violation counts, so the smallest seed wins on any
        // number of threads.
        let batch: Vec<(u64, Strategy)> =
            (next..=end).zip(portfolio.batch((end - next + 1) as usize)).collect();
        // One by one: no thread keeps a row of slow plans to itself while the others have none.
        let mut done: Vec<Tried> = batch
            .into_par_iter()
            .with_max_len(1)
            .map(|(seed, strategy)| try_seed(hunt, (seed, strategy), seed == next))
            .collect();
        done.sort_by_key(|tried| tried.seed);
        for tried in done {
            all.tally.add(&tried);
            let (groups, new) = (all.groups.len(), all.novelty.add(&tried.states));
            if let Some((key, example)) = tried.violation {
                all.groups.add(key, example);
                if until == Until::First {
                    return all;
                }
            }
            let found = (all.groups.len() - groups) as u64;
            portfolio.note(tried.strategy, new + GROUP * found);
        }
        portfolio.settle();
        let (groups, states) = (all.groups.len(), all.novelty.states.len());
        progress(HuntProgress::Tried { seeds: end - next + 1, groups, states });
        let Some(after) = end.checked_add(1) else { break };
        next = after;
        if next <= last && spending.is_used_up() {
            all.next = Some(next);
            break;
        }
    }
    all
}

/// What a batch keeps of a run.
struct Tried {
    seed: u64,
    strategy: Strategy,
    states: Vec<u64>,
    violation: Option<(GroupKey, Example)>,
    unknown: bool,
    untested: Vec<Untested>,
    outside: bool,
    faults: bool,
    in_hold: bool,
    grants: u32,
}

fn try_seed(hunt: &Hunt, (seed, strategy): (u64, Strategy), is_repeated: bool) -> Tried {
    let (lab, plan) = (&hunt.lab, draw(hunt, seed, strategy));
    let mut trial = attempt(lab, &plan);
    // A lock with state outside of its run may never violate anything, and its verdicts mean
    // nothing: one plan of each batch is run twice.
    if is_repeated && lab.run(&plan).trace != trial.run.trace {
        trial = repeated(lab, &plan, trial).0;
    }
    let differs =
        trial.run.history.breaches.iter().any(|breach| breach.clause == Clause::Repeatable);
    let outside = hunt.alphabet.within && !trial.breaches.is_empty() && !differs;
    let in_model = differs
        || trial.breaches.is_empty()
        || outside && trial.is_violated() && classify(lab, &plan, &trial).is_in_model();
    let excused = outside && !in_model;
    let unknown = matches!(trial.judgement.verdict, Verdict::Unknown(_));
    let counts = trial.judgement.counts;
    let untested = if unknown { trial.judgement.untested.clone() } else { Vec::new() };
    Tried {
        seed,
        strategy,
        states: states(&trial.run.history),
        unknown,
        untested,
        outside: excused,
        faults: !plan.faults.is_empty(),
        in_hold: counts.struck_in_hold > 0,
        grants: counts.grants,
        violation: (trial.is_violated() && !excused).then(|| {
            let Signature { kinds, checks, .. } = Signature::of(&trial.judgement.verdict);
            let (kinds, mechanism) = (leading(&kinds), examine::how(lab, &plan, trial));
            (GroupKey { in_model, kinds, checks, mechanism }, Example::of(&plan, strategy))
        }),
    }
}

impl Tally {
    fn add(&mut self, tried: &Tried) {
        self.runs += 1;
        if tried.outside {
            self.outside += 1;
            return;
        }
        self.held += u64::from(tried.violation.is_none() && !tried.unknown);
        self.unknown += u64::from(tried.unknown);
        self.with_faults += u64::from(tried.faults);
        self.struck_in_hold += u64::from(tried.in_hold);
        self.grants += u64::from(tried.grants);
        for why in &tried.untested {
            self.untested[*why as usize] += 1;
        }
    }
}
