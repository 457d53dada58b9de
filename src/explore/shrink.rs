//! The same violation from a smaller plan: proptest proposes, the signature disposes.

use proptest::strategy::ValueTree;

use crate::check::signature::Signature;
use crate::explain::finding::Class;
use crate::explore::class::classify_in;
use crate::explore::rerun::Reruns;
use crate::explore::trial::{Trial, attempt};
use crate::plan::Plan;
use crate::run::Lab;

/// Plans that are tried at the most.
const MOST_RUNS: u32 = 300;

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
}

/// Walks down the tree as long as the signature stays what it is.
///
/// # Panics
/// If the tree's own plan has another signature.
pub fn shrink(lab: &Lab, tree: &mut dyn ValueTree<Value = Plan>, signature: &Signature) -> Small {
    let mut reruns = Reruns::new(lab);
    let mut best = keeps(lab, &mut reruns, &tree.current(), signature)
        .expect("the drawn plan has its signature");
    let mut last = best.plan.clone();
    let mut runs = 0;
    let mut more = tree.simplify();
    while more && runs < MOST_RUNS {
        let plan = tree.current();
        // Many steps change nothing that is left of the plan: those need no run.
        let kept = if plan == last {
            true
        } else {
            runs += 1;
            keeps(lab, &mut reruns, &plan, signature).map(|small| best = small).is_some()
        };
        if kept {
            last = plan;
        }
        more = if kept { tree.simplify() } else { tree.complicate() };
    }
    Small { runs, ..best }
}

fn keeps(lab: &Lab, reruns: &mut Reruns, plan: &Plan, signature: &Signature) -> Option<Small> {
    plan.validate_with(&lab.locks).ok()?;
    let trial = attempt(lab, plan);
    if Signature::of(&trial.judgement.verdict).kinds != signature.kinds {
        return None;
    }
    let class = classify_in(reruns, plan, &trial);
    let same = trial.signature(&class) == *signature;
    same.then(|| Small { plan: plan.clone(), trial, class, runs: 0 })
}
