//! The search for a violation: each seed draws a plan, and plans are run until one is violated.
//!
//! The result does not depend on how many runs are parallel: it is the violation of the smallest
//! seed.

use std::fmt;
use std::ops::RangeInclusive;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::check::signature::Signature;
use crate::check::verdict::Verdict;
use crate::explain::finding::{Class, Finding};
use crate::explore::budget::Budget;
use crate::explore::class::classify;
use crate::explore::examine;
use crate::explore::shrink::shrink;
use crate::explore::strategy::{Alphabet, plans};
use crate::explore::trial::{Trial, attempt, repeated};
use crate::ledger::part::{strikes, without};
use crate::plan::Plan;
use crate::run::Lab;

/// What is searched, and the lab for it.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The lab that runs the plans.
    pub lab: Lab,
    /// The base plan: what all plans have in common. Its faults are replaced.
    pub base: Plan,
    /// What may be drawn.
    pub alphabet: Alphabet,
    /// The seeds, inclusive.
    pub seeds: RangeInclusive<u64>,
}

/// How much a hunt has tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Plans that were run.
    pub runs: u64,
    /// Plans in which nothing was violated.
    pub held: u64,
    /// Plans with an unknown verdict.
    pub unknown: u64,
    /// Plans that were drawn within the assumptions but breached one in their run, without an
    /// in-model violation. Of the other counts only `runs` includes them.
    pub outside: u64,
    /// Plans with at least one fault.
    pub with_faults: u64,
    /// Plans in which a fault struck inside a hold.
    pub struck_in_hold: u64,
    /// Grants in total.
    pub grants: u64,
}

impl Tally {
    /// Whether finding nothing is meaningful: some fault struck inside a hold, and some plan held.
    pub fn has_tested(&self) -> bool {
        self.struck_in_hold > 0 && self.held > 0
    }
}

/// The tally is part of the result: it shows how much a hunt that found nothing has tested.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { runs, unknown, outside, with_faults, struck_in_hold, grants, .. } = self;
        // `runs` includes plans outside; the strikes do not.
        let share = struck_in_hold * 100 / runs.saturating_sub(*outside).max(1);
        let beyond = match outside {
            0 => String::new(),
            _ => format!(
                ", {outside} left out because an assumption was broken that no fault foresaw"
            ),
        };
        write!(
            f,
            "{runs} plans ({with_faults} with faults, {struck_in_hold} = {share} % with a fault \
             that struck inside a hold, {unknown} in which nothing was tested{beyond}, {grants} \
             grants)"
        )
    }
}

/// The result of a hunt.
pub struct HuntReport {
    /// How much was tested.
    pub tally: Tally,
    /// The violation of the smallest seed, if there is one.
    pub found: Option<HuntFound>,
}

/// A violation that a hunt has found.
pub struct HuntFound {
    /// The seed that drew it.
    pub seed: u64,
    /// The plan as it was drawn.
    pub drawn: Plan,
    /// The smallest plan with the same signature that shrinking found.
    pub plan: Plan,
    /// The run of the smallest plan.
    pub trial: Trial,
    /// The class of the violation.
    pub class: Class,
    /// The signature that shrinking kept.
    pub signature: Signature,
    /// Runs that shrinking took.
    pub shrink_runs: u32,
    /// Whether nothing in the plan can be made smaller.
    pub is_minimal: bool,
}

impl HuntFound {
    /// The finding about the smallest plan. Its experiments may take up to `budget`.
    pub fn finding(self, lab: &Lab, budget: Option<Budget>) -> Finding {
        examine::finding(lab, budget, &self.plan, self.trial, self.class)
    }
}

/// The number of seeds that run before the hunt checks whether one of them was violated.
const BATCH: u64 = 64;

/// The progress of a hunt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HuntProgress {
    /// This many more seeds are finished.
    Tried(u64),
    /// One is violated and is being shrunk.
    Shrinking,
}

/// Hunts until a violation is found or the seeds are exhausted. `progress` receives each step.
pub fn hunt(hunt: &Hunt, progress: &dyn Fn(HuntProgress)) -> HuntReport {
    let mut tally = Tally::default();
    let (mut next, last) = (*hunt.seeds.start(), *hunt.seeds.end());
    while next <= last {
        let end = last.min(next.saturating_add(BATCH - 1));
        // The whole batch is run before any violation counts, so the smallest seed wins on any
        // number of threads.
        let mut done: Vec<Scouted> =
            (next..=end).into_par_iter().map(|seed| scout(hunt, seed, seed == next)).collect();
        done.sort_by_key(|scouted| scouted.seed);
        for scouted in &done {
            tally.add(scouted);
            if scouted.violated {
                progress(HuntProgress::Shrinking);
                return HuntReport { tally, found: Some(pursue(hunt, scouted.seed)) };
            }
        }
        progress(HuntProgress::Tried(end - next + 1));
        let Some(after) = end.checked_add(1) else { break };
        next = after;
    }
    HuntReport { tally, found: None }
}

/// What a batch keeps of a run.
struct Scouted {
    seed: u64,
    violated: bool,
    unknown: bool,
    outside: bool,
    faults: bool,
    in_hold: bool,
    grants: u32,
}

fn scout(hunt: &Hunt, seed: u64, is_repeated: bool) -> Scouted {
    let plan = draw(hunt, seed).current();
    let trial = attempt(&hunt.lab, &plan);
    let outside = hunt.alphabet.within && !trial.breaches.is_empty();
    let excused =
        outside && !(trial.is_violated() && classify(&hunt.lab, &plan, &trial).is_in_model());
    // A lock with state outside of its run may never violate anything, and its verdicts mean
    // nothing: one plan of each batch is run twice.
    let differs = is_repeated && hunt.lab.run(&plan).trace != trial.run.trace;
    let judgement = trial.judgement;
    Scouted {
        seed,
        violated: matches!(judgement.verdict, Verdict::Violated(_)) && !excused || differs,
        outside: excused,
        unknown: matches!(judgement.verdict, Verdict::Unknown(_)),
        faults: !plan.faults.is_empty(),
        in_hold: judgement.counts.struck_in_hold > 0,
        grants: judgement.counts.grants,
    }
}

impl Tally {
    fn add(&mut self, scouted: &Scouted) {
        self.runs += 1;
        if scouted.outside {
            self.outside += 1;
            return;
        }
        self.held += u64::from(!scouted.violated && !scouted.unknown);
        self.unknown += u64::from(scouted.unknown);
        self.with_faults += u64::from(scouted.faults);
        self.struck_in_hold += u64::from(scouted.in_hold);
        self.grants += u64::from(scouted.grants);
    }
}

/// The tree of plans that a seed draws: the plan itself, and smaller ones.
pub fn draw(hunt: &Hunt, seed: u64) -> Box<dyn ValueTree<Value = Plan>> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let base = Plan { seed, ..hunt.base.clone() };
    let tree = plans(&base, &hunt.alphabet).new_tree(&mut runner);
    Box::new(tree.expect("the strategies reject nothing"))
}

/// Draws the violated plan of a seed again, classifies and shrinks it.
fn pursue(hunt: &Hunt, seed: u64) -> HuntFound {
    let drawn = draw(hunt, seed).current();
    let (trial, is_repeatable) = repeated(&hunt.lab, &drawn, attempt(&hunt.lab, &drawn));
    // Checked before class and shrinking: reruns of a plan that differ each time prove nothing.
    if !is_repeatable {
        return unrepeatable(hunt, seed, drawn, trial);
    }
    let class = classify(&hunt.lab, &drawn, &trial);
    let (start, trial, class) = inside(&hunt.lab, &drawn, trial, class);
    let signature = examine::signature(&hunt.lab, &start, &trial, &class);
    let varies = |parameter| hunt.alphabet.varies.contains(&parameter);
    let small = shrink(&hunt.lab, (&start, trial, class), &signature, &varies);
    HuntFound {
        seed,
        drawn,
        plan: small.plan,
        trial: small.trial,
        class: small.class,
        signature: small.signature,
        shrink_runs: small.runs,
        is_minimal: small.is_minimal,
    }
}

/// The part of a violated plan that shows a bug while it keeps every assumption, if there is one:
/// out-of-model violations may hide the bug. Otherwise the plan itself.
fn inside(lab: &Lab, plan: &Plan, trial: Trial, class: Class) -> (Plan, Trial, Class) {
    if !class.is_in_model() || class.without.is_empty() {
        return (plan.clone(), trial, class);
    }
    let out = class.without.iter().copied().collect();
    let bare = without(plan, &out, &strikes(&trial.run.history));
    if bare.validate_with(&lab.locks).is_err() {
        return (plan.clone(), trial, class);
    }
    let own = attempt(lab, &bare);
    if !own.is_violated() {
        return (plan.clone(), trial, class);
    }
    let of_bare = classify(lab, &bare, &own);
    match of_bare.is_in_model() {
        true => (bare, own, of_bare),
        false => (plan.clone(), trial, class),
    }
}

/// The result for a plan whose runs differ each time: it permits no trial.
fn unrepeatable(hunt: &Hunt, seed: u64, drawn: Plan, trial: Trial) -> HuntFound {
    let class =
        Class { in_model: Signature::of(&trial.judgement.verdict).kinds, ..Class::default() };
    let signature = examine::signature(&hunt.lab, &drawn, &trial, &class);
    HuntFound {
        seed,
        plan: drawn.clone(),
        drawn,
        trial,
        class,
        signature,
        shrink_runs: 0,
        is_minimal: false,
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn the_share_of_strikes_is_of_the_plans_that_count() {
        let tally = Tally { runs: 10, outside: 6, struck_in_hold: 3, ..Tally::default() };
        assert!(tally.to_string().contains("3 = 75 % with a fault"), "{tally}");
    }
}
