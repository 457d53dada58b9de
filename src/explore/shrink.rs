//! The same violation from a smaller plan: steps to smaller plans are taken as long as the
//! signature stays, until none is left that keeps it.
//!
//! What comes out is 1-minimal: no fault can be taken out, no count lowered and no number made
//! rounder. Where [`MOST_RUNS`] ended it first, the hunt says so.

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::signature::Signature;
use crate::explain::finding::Class;
use crate::explore::class::classify;
use crate::explore::examine;
use crate::explore::habits::Parameter;
use crate::explore::smaller::smaller;
use crate::explore::trial::{Trial, attempt};
use crate::ledger::part::strikes;
use crate::plan::Plan;
use crate::run::Lab;

/// Plans that are tried at the most.
const MOST_RUNS: usize = 3_000;
/// Plans that are tried side by side. The first that keeps the signature counts, however many
/// cores there are.
const SIDE_BY_SIDE: usize = 4;

/// The smallest plan that was found.
pub struct Small {
    /// The plan.
    pub plan: Plan,
    /// Its run.
    pub trial: Trial,
    /// Whose fault its violation is.
    pub class: Class,
    /// Plans that were tried.
    pub runs: u32,
    /// Whether no smaller plan is left that keeps the signature.
    pub is_minimal: bool,
}

/// Makes a plan, which was run and classified, smaller as long as the signature stays what it is.
/// What does not vary stays.
pub fn shrink(
    lab: &Lab,
    (plan, trial, class): (&Plan, Trial, Class),
    signature: &Signature,
    varies: &dyn Fn(Parameter) -> bool,
) -> Small {
    let mut best = Small { plan: plan.clone(), trial, class, runs: 0, is_minimal: false };
    let mut tried = 0;
    // Each pass goes on where a step was taken, and the last one takes none.
    loop {
        let (mut place, mut is_last) = (0, true);
        loop {
            let steps = smaller(&best.plan, &strikes(&best.trial.run.history), varies);
            let chunk: Vec<&Plan> = steps.iter().skip(place).take(SIDE_BY_SIDE).collect();
            if chunk.is_empty() {
                break;
            }
            if tried > MOST_RUNS {
                return Small { runs: number(tried), ..best };
            }
            tried += chunk.len();
            let kept: Vec<Option<Small>> =
                chunk.par_iter().map(|plan| keeps(lab, plan, signature)).collect();
            let taken = kept.iter().position(Option::is_some);
            place += taken.unwrap_or(chunk.len());
            if let Some(small) = kept.into_iter().flatten().next() {
                (best, is_last) = (small, false);
            }
        }
        if is_last {
            return Small { runs: number(tried), is_minimal: true, ..best };
        }
    }
}

fn number(tried: usize) -> u32 {
    u32::try_from(tried).unwrap_or(u32::MAX)
}

fn keeps(lab: &Lab, plan: &Plan, signature: &Signature) -> Option<Small> {
    plan.validate_with(&lab.locks).ok()?;
    let trial = attempt(lab, plan);
    if Signature::of(&trial.judgement.verdict).kinds != signature.kinds {
        return None;
    }
    let class = classify(lab, plan, &trial);
    let is_same = examine::signature(lab, plan, &trial, &class).keeps(signature);
    is_same.then(|| Small { plan: plan.clone(), trial, class, runs: 0, is_minimal: false })
}
