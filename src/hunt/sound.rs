//! What a correct lock of the same family does in a plan that violates a lock: a plan that violates
//! it as well shows less about the lock under test.

use std::collections::BTreeSet;

use crate::check::signature::Signature;
use crate::check::verdict::{Kind, Verdict};
use crate::explore::rerun::{RunOutcome, pinned};
use crate::explore::trial::{Trial, attempt};
use crate::ledger::part::strikes;
use crate::lock::catalogue;
use crate::plan::Plan;
use crate::run::Lab;

/// What the correct lock does in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    /// Its name in the catalogue.
    pub lock: &'static str,
    /// What of the violation it shows as well, each kind once.
    pub same: Vec<Kind>,
    /// What else it violates.
    pub other: Vec<Kind>,
    /// Whether its verdict is unknown: its run tests nothing.
    pub is_unknown: bool,
}

impl Sound {
    /// Whether the plan violates it as well, in one of the same kinds.
    pub fn falls(&self) -> bool {
        !self.same.is_empty()
    }
}

/// Runs the plan with the correct lock of the family of its lock, which has no options but the
/// lease, the timeout and the clock of the plan. `None` if that is the same plan, or makes no
/// sense, or if the catalogue has no lock of the family.
pub fn beside(lab: &Lab, plan: &Plan, trial: &Trial) -> Option<Sound> {
    if !is_of_catalogue(lab, plan) {
        return None;
    }
    let lock = catalogue::sound(lab.algorithm(plan));
    let sound = with_sound(lab, plan)?;
    let struck = strikes(&trial.run.history);
    let first = attempt(lab, &sound);
    let reached: BTreeSet<u32> = RunOutcome::of(&first).struck;
    // A fault that waits for an event of the lock under test strikes when it did there.
    let run = match pinned(&sound, &struck, &reached) {
        Some(pinned) => attempt(lab, &pinned),
        None => first,
    };
    let own = Signature::of(&trial.judgement.verdict).kinds;
    let kinds = Signature::of(&run.judgement.verdict).kinds;
    let (same, other) = kinds.into_iter().partition(|kind| own.contains(kind));
    let is_unknown = matches!(run.judgement.verdict, Verdict::Unknown(_));
    Some(Sound { lock: lock.name, same, other, is_unknown })
}

/// Whether there is such a plan with the correct lock.
pub fn compares(lab: &Lab, plan: &Plan) -> bool {
    is_of_catalogue(lab, plan) && with_sound(lab, plan).is_some()
}

/// Whether the plan's lock is for one exclusive holder of one key, as the correct ones of the
/// catalogue that it is compared with: what such a lock does shows nothing about a semaphore, a
/// lock with readers or with a queue, or one that takes several keys.
fn is_of_catalogue(lab: &Lab, plan: &Plan) -> bool {
    let (lock, promise) = (lab.algorithm(plan), lab.promise(plan));
    promise.holders == 1 && promise.queue.is_none() && !lock.shares && !lock.groups
}

fn with_sound(lab: &Lab, plan: &Plan) -> Option<Plan> {
    let sound = catalogue::sound(lab.algorithm(plan));
    let mut lock = plan.lock.in_place(sound.name);
    lock.ttl = sound.ttl(&lock);
    let mut changed = Plan { lock, ..plan.clone() };
    // The run continues after the heal for as long as a lease may last.
    changed.until += changed.longest_ttl().saturating_sub(plan.longest_ttl());
    let is_same = changed.lock == plan.lock;
    (!is_same && changed.validate_with(&lab.locks).is_ok()).then_some(changed)
}
