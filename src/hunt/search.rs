//! The search for violations: each seed draws a plan, and what the plans violate is grouped.
//!
//! The result does not depend on how many runs are parallel. A search that stops at the first
//! violation reports that of the smallest seed.

use std::cmp::Reverse;
use std::fmt;
use std::ops::RangeInclusive;

use proptest::strategy::{Strategy as _, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::{Deserialize, Serialize};

use crate::check::signature::Signature;
use crate::check::untested::Untested;
use crate::check::verdict::Verdict;
use crate::explain::experiment::Cut;
use crate::explain::finding::{Class, Finding};
use crate::explore::budget::{Budget, Spending};
use crate::explore::class::classify;
use crate::explore::examine;
use crate::explore::trial::{Trial, attempt, repeated};
use crate::hunt::drawing::{Alphabet, fitting, sampled, struck};
use crate::hunt::group::{Example, GroupKey, Groups, leading};
use crate::hunt::habits::callers;
use crate::hunt::novelty::{Novelty, states};
use crate::hunt::parameter::Parameter;
use crate::hunt::shrink::shrink;
use crate::hunt::smaller::Variation;
use crate::hunt::strategy::lineage::Lineages;
use crate::hunt::strategy::portfolio::{GROUP, Portfolio};
use crate::hunt::strategy::{Strategies, Strategy, bounds, lineage, priorities, swarm};
use crate::ledger::part::{strikes, without};
use crate::plan::Plan;
use crate::promise::contract::Clause;
use crate::quantity::count;
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
    /// How plans are drawn.
    pub strategies: Strategies,
    /// Runs without faults that are known.
    pub lineages: Lineages,
}

impl Hunt {
    /// A hunt by all strategies.
    pub fn new(lab: Lab, base: Plan, alphabet: Alphabet, seeds: RangeInclusive<u64>) -> Hunt {
        let (strategies, lineages) = (Strategies::default(), Lineages::default());
        Hunt { lab, base, alphabet, seeds, strategies, lineages }
    }

    /// The number of its plans.
    pub fn plans(&self) -> u64 {
        (self.seeds.end() - self.seeds.start()).saturating_add(1)
    }

    /// The strategies that draw, before any plan has run.
    pub fn portfolio(&self) -> Portfolio {
        let can = |strategy: &Strategy| {
            *strategy != Strategy::Priorities
                || !priorities::slowing(&self.base, &self.alphabet).is_empty()
        };
        match self.strategies {
            Strategies::Only(strategy) => Portfolio::of(&[strategy]),
            Strategies::Portfolio => {
                Portfolio::of(&Strategy::ALL.into_iter().filter(can).collect::<Vec<_>>())
            }
        }
    }
}

/// How much a hunt has tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// For each reason of [`Untested::ALL`], the plans with an unknown verdict for that.
    #[serde(default)]
    pub untested: [u64; Untested::ALL.len()],
}

impl Tally {
    /// Whether finding nothing is meaningful: some fault struck inside a hold, and some plan held.
    pub fn has_tested(&self) -> bool {
        self.struck_in_hold > 0 && self.held > 0
    }

    /// Why plans have an unknown verdict, the most frequent reason first: `in 299 of them ...`.
    pub fn reasons(&self) -> Vec<String> {
        let known = Untested::ALL.into_iter().zip(self.untested);
        let mut found: Vec<(Untested, u64)> = known.filter(|(_, plans)| *plans > 0).collect();
        found.sort_by_key(|(_, plans)| Reverse(*plans));
        found.iter().map(|(why, plans)| format!("in {plans} of them {}", why.of_plans())).collect()
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
            "{} ({with_faults} with faults, {struck_in_hold} = {share} % with a fault \
             that struck inside a hold, {unknown} in which nothing was tested{beyond}, {grants} \
             grants)",
            count(*runs, "plan")
        )
    }
}

/// The result of a hunt for the first violation.
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
    /// How it was drawn.
    pub strategy: Strategy,
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
    /// Whether no plan that is one step smaller keeps the signature: see
    /// [`smaller`](crate::hunt::smaller::smaller).
    pub is_minimal: bool,
    /// Why shrinking ended before that, unless it was at its limit.
    pub cut: Option<Cut>,
}

impl HuntFound {
    /// The finding about the smallest plan. Its experiments may take up to `budget`.
    pub fn finding(self, lab: &Lab, budget: Option<Budget>) -> Finding {
        let strategy = self.strategy.to_string();
        let finding = examine::finding(lab, budget, &self.plan, self.trial, self.class);
        Finding { strategy, ..finding }
    }

    /// The finding about the smallest plan, without experiments.
    pub fn unexplained(self, lab: &Lab) -> Finding {
        let strategy = self.strategy.to_string();
        let finding = examine::unexplained_trial(lab, &self.plan, self.trial, self.class);
        Finding { strategy, ..finding }
    }
}

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

/// Hunts until a violation is found, the seeds are exhausted or the budget is used up. Shrinking
/// may take the same time again.
pub fn hunt(hunt: &Hunt, budget: Option<Budget>) -> HuntReport {
    let Scouted { tally, groups, .. } = scout(hunt, Until::First, budget, &|_| {});
    let spending = Spending::of(budget);
    let found = groups.examples().next().map(|example| pursue(hunt, example, &spending));
    HuntReport { tally, found }
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
        let mut done: Vec<Tried> = batch
            .into_par_iter()
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
    let (lab, plan) = (&hunt.lab, draw(hunt, seed, strategy).current());
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
    /// Adds what another part of the hunt has tested.
    pub fn merge(&mut self, other: &Tally) {
        let Tally { runs, held, unknown, outside, with_faults, struck_in_hold, grants, untested } =
            other;
        self.runs += runs;
        self.held += held;
        self.unknown += unknown;
        self.outside += outside;
        self.with_faults += with_faults;
        self.struck_in_hold += struck_in_hold;
        self.grants += grants;
        self.untested.iter_mut().zip(untested).for_each(|(own, other)| *own += other);
    }

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

/// The tree of plans that a seed draws by a strategy: the plan itself, and smaller ones.
pub fn draw(hunt: &Hunt, seed: u64, strategy: Strategy) -> Box<dyn ValueTree<Value = Plan>> {
    let mut runner = runner(seed, 0);
    let base = Plan { seed, ..hunt.base.clone() };
    let (base, alphabet) = &with_callers(base, &hunt.alphabet);
    let plans = match strategy {
        Strategy::Random => struck(base, alphabet, &mut runner),
        Strategy::Swarm => {
            // What swarm leaves out varies again here: it may change to fit the assumptions.
            let base = fitting(base, alphabet).unwrap_or_else(|| base.clone());
            let half = swarm::half(&base, alphabet, &mut runner);
            struck(&base, &half, &mut runner)
        }
        Strategy::Priorities => priorities::plans(base, alphabet, &mut runner),
        Strategy::Bounds => bounds::plans(base, alphabet, &mut runner),
        Strategy::Lineage => {
            lineage::plans(base, alphabet, (&hunt.lab, &hunt.lineages), &mut runner)
        }
    };
    let tree = plans.new_tree(&mut runner);
    Box::new(tree.expect("the strategies reject nothing"))
}

/// The runner for one stream of draws of a seed.
fn runner(seed: u64, stream: u8) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8] = stream;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(Config::default(), rng)
}

/// The base plan with the number of callers that its seed draws, and the alphabet without it. It is
/// drawn before all else, from another stream, so that no other draw depends on it.
fn with_callers(mut base: Plan, alphabet: &Alphabet) -> (Plan, Alphabet) {
    let drawn = callers(&base, &alphabet.varies);
    base.workload.callers = sampled(&drawn, &mut runner(base.seed, 1));
    let mut alphabet = alphabet.clone();
    alphabet.varies.remove(&Parameter::Callers);
    (base, alphabet)
}

/// Draws a violated plan again, classifies it, and shrinks it while there is time.
pub fn pursue(hunt: &Hunt, example: Example, spending: &Spending) -> HuntFound {
    let Example { seed, strategy, .. } = example;
    let drawn = draw(hunt, seed, strategy).current();
    let (trial, is_repeatable) = repeated(&hunt.lab, &drawn, attempt(&hunt.lab, &drawn));
    // Checked before class and shrinking: reruns of a plan that differ each time prove nothing.
    if !is_repeatable {
        return unrepeatable(hunt, example, drawn, trial);
    }
    let class = classify(&hunt.lab, &drawn, &trial);
    let (start, trial, class) = inside(&hunt.lab, &drawn, trial, class);
    let signature = examine::signature(&hunt.lab, &start, &trial, &class);
    let variation = Variation { base: &hunt.base, varies: &hunt.alphabet.varies };
    let small = shrink(&hunt.lab, (&start, trial, class), &signature, &variation, spending);
    HuntFound {
        seed,
        strategy,
        drawn,
        plan: small.plan,
        trial: small.trial,
        class: small.class,
        signature: small.signature,
        shrink_runs: small.runs,
        is_minimal: small.is_minimal,
        cut: small.cut,
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
fn unrepeatable(hunt: &Hunt, example: Example, drawn: Plan, trial: Trial) -> HuntFound {
    let class =
        Class { in_model: Signature::of(&trial.judgement.verdict).kinds, ..Class::default() };
    let signature = examine::signature(&hunt.lab, &drawn, &trial, &class);
    HuntFound {
        seed: example.seed,
        strategy: example.strategy,
        plan: drawn.clone(),
        drawn,
        trial,
        class,
        signature,
        shrink_runs: 0,
        is_minimal: false,
        cut: None,
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
