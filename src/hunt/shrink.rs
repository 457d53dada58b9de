//! Shrinking takes steps to smaller plans as long as the signature stays the same, until no smaller
//! plan keeps it.
//!
//! The result is 1-minimal: no fault can be removed, no count lowered, no number made rounder, and
//! no parameter that was drawn brought back to the base plan. A fault can also be removed if the
//! same kinds remain in the same class with no other assumption broken, even if the mechanism is
//! then another: the plan without it shows the same in a simpler way. If [`MAX_RUNS`] stops
//! shrinking first, the hunt reports that.

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::signature::Signature;
use crate::explain::experiment::Cut;
use crate::explain::finding::Class;
use crate::explore::budget::Spending;
use crate::explore::class::classify;
use crate::explore::examine;
use crate::explore::trial::{Trial, attempt};
use crate::hunt::smaller::{Variation, smaller, without_fault};
use crate::ledger::part::{Part, strikes};
use crate::plan::Plan;
use crate::run::Lab;

/// The maximum number of plans that are tried.
const MAX_RUNS: usize = 3_000;
/// Plans that are tried in parallel. The first that keeps the signature counts, regardless of the
/// number of cores.
const SIDE_BY_SIDE: usize = 4;

/// The smallest plan that was found.
pub struct Small {
    /// The plan.
    pub plan: Plan,
    /// Its run.
    pub trial: Trial,
    /// The class of its violation.
    pub class: Class,
    /// Its signature: the given one, or that of the simpler plan.
    pub signature: Signature,
    /// How far shrinking came.
    pub shrunk: Shrunk,
}

/// How far shrinking came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Plans that were tried.
    pub runs: u32,
    /// Whether no plan that is one step smaller keeps the signature: see [`smaller`].
    pub is_minimal: bool,
    /// Why shrinking ended before that, unless it was at its limit.
    pub cut: Option<Cut>,
}

impl Small {
    fn of(plan: &Plan, trial: Trial, class: Class, signature: Signature) -> Small {
        Small { plan: plan.clone(), trial, class, signature, shrunk: Shrunk::default() }
    }
}

/// Shrinks a plan, which was run and classified, while its signature stays the same and there is
/// time. Parameters that do not vary stay as they are.
pub fn shrink(
    lab: &Lab,
    (plan, trial, class): (&Plan, Trial, Class),
    signature: &Signature,
    variation: &Variation<'_>,
    spending: &Spending,
) -> Small {
    let mut best = Small::of(plan, trial, class, signature.clone());
    let mut tried = 0;
    // A pass continues where a step was taken; passes repeat until one takes no step.
    loop {
        let (mut place, mut is_last) = (0, true);
        loop {
            let steps = smaller(&best.plan, &strikes(&best.trial.run.history), variation);
            let chunk: Vec<&Plan> = steps.iter().skip(place).take(SIDE_BY_SIDE).collect();
            if chunk.is_empty() {
                break;
            }
            let cut = spending.cut();
            if tried > MAX_RUNS || cut.is_some() {
                let shrunk = Shrunk { runs: number(tried), is_minimal: false, cut };
                return Small { shrunk, ..best };
            }
            tried += chunk.len();
            let kept: Vec<Option<Small>> =
                chunk.par_iter().map(|plan| keeps(lab, plan, &best.signature)).collect();
            let taken = kept.iter().position(Option::is_some);
            place += taken.unwrap_or(chunk.len());
            if let Some(small) = kept.into_iter().flatten().next() {
                (best, is_last) = (small, false);
            }
        }
        if !is_last {
            continue;
        }
        tried += best.plan.faults.len();
        match without_a_fault(lab, &best) {
            Some(simpler) => best = simpler,
            None => {
                let shrunk = Shrunk { runs: number(tried), is_minimal: true, cut: None };
                return Small { shrunk, ..best };
            }
        }
    }
}

fn number(tried: usize) -> u32 {
    u32::try_from(tried).unwrap_or(u32::MAX)
}

/// The plan without one fault, if that simplifies the signature.
fn without_a_fault(lab: &Lab, best: &Small) -> Option<Small> {
    let struck = strikes(&best.trial.run.history);
    let faults = best.plan.faults.iter().map(|fault| Part::Fault(fault.id));
    let mut fewer = faults.flat_map(|part| without_fault(&best.plan, part, &struck));
    fewer.find_map(|plan| tried(lab, &plan, &best.signature, Signature::simplifies))
}

/// The plan, if its signature is the given one except for the place.
fn keeps(lab: &Lab, plan: &Plan, signature: &Signature) -> Option<Small> {
    let small = tried(lab, plan, signature, Signature::keeps)?;
    Some(Small { signature: signature.clone(), ..small })
}

/// The plan with its run, if its signature compares with the wanted one.
fn tried(
    lab: &Lab,
    plan: &Plan,
    wanted: &Signature,
    compares: fn(&Signature, &Signature) -> bool,
) -> Option<Small> {
    plan.validate_with(&lab.locks).ok()?;
    let trial = attempt(lab, plan);
    // Kinds are compared first: the class and mechanism of another violation would cost many runs.
    let Signature { kinds, checks, .. } = Signature::of(&trial.judgement.verdict);
    if kinds != wanted.kinds || checks != wanted.checks {
        return None;
    }
    let class = classify(lab, plan, &trial);
    let signature = examine::signature(lab, plan, &trial, &class);
    let is_same = compares(&signature, wanted);
    is_same.then(|| Small::of(plan, trial, class, signature))
}
