//! A violation that a hunt has found, drawn again, classified and shrunk.

use crate::check::signature::Signature;
use crate::explain::finding::{Class, Finding};
use crate::explore::budget::{Budget, Spending};
use crate::explore::class::classify;
use crate::explore::examine;
use crate::explore::trial::{Trial, attempt, repeated};
use crate::hunt::group::Example;
use crate::hunt::search::{Scouted, Until, scout};
use crate::hunt::seeded::{Hunt, draw};
use crate::hunt::shrink::{Shrunk, Small, shrink};
use crate::hunt::smaller::Variation;
use crate::hunt::strategy::Strategy;
use crate::hunt::tally::Tally;
use crate::ledger::part::{strikes, without};
use crate::plan::Plan;
use crate::run::Lab;

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
    /// How far shrinking came.
    pub shrunk: Shrunk,
}

impl HuntFound {
    /// The finding about the smallest plan. Its experiments may take up to `budget`.
    pub fn finding(self, lab: &Lab, budget: Option<Budget>) -> Finding {
        let (strategy, is_shrunk) = (self.strategy.to_string(), self.is_shrunk());
        let finding = examine::finding(lab, budget, &self.plan, self.trial, self.class);
        Finding { strategy, is_shrunk, ..finding }
    }

    /// Whether the plan is not as it was drawn: shrinking tried to make it smaller, or it lacks
    /// what the bug does not need.
    fn is_shrunk(&self) -> bool {
        self.shrunk.runs > 0 || self.plan != self.drawn
    }

    /// The finding about the smallest plan, without experiments.
    pub fn unexplained(self, lab: &Lab) -> Finding {
        let (strategy, is_shrunk) = (self.strategy.to_string(), self.is_shrunk());
        let finding = examine::unexplained_trial(lab, &self.plan, self.trial, self.class);
        Finding { strategy, is_shrunk, ..finding }
    }
}

/// Hunts until a violation is found, the seeds are exhausted or the budget is used up. Shrinking
/// may take the same time again.
pub fn hunt(hunt: &Hunt, budget: Option<Budget>) -> HuntReport {
    let Scouted { tally, groups, .. } = scout(hunt, Until::First, budget, &|_| {});
    let spending = Spending::of(budget);
    let found = groups.examples().next().map(|example| pursue(hunt, example, &spending));
    HuntReport { tally, found }
}

/// Draws a violated plan again, classifies it, and shrinks it while there is time.
pub fn pursue(hunt: &Hunt, example: Example, spending: &Spending) -> HuntFound {
    let Example { seed, strategy, .. } = example;
    let drawn = draw(hunt, seed, strategy);
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
    let Small { plan, trial, class, signature, shrunk } = small;
    HuntFound { seed, strategy, drawn, plan, trial, class, signature, shrunk }
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
    let (Example { seed, strategy, .. }, shrunk) = (example, Shrunk::default());
    HuntFound { seed, strategy, plan: drawn.clone(), drawn, trial, class, signature, shrunk }
}
