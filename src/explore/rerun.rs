//! Reruns of plans to learn something: each plan once, in parallel if several are requested at a
//! time.

use std::collections::BTreeMap;

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::check::signature::Signature;
use crate::check::verdict::{Kind, Verdict};
use crate::explore::trial::{Trial, attempt};
use crate::ledger::breach::Breach;
use crate::plan::Plan;
use crate::run::Lab;

/// Cached runs of plans.
pub struct Reruns<'a> {
    lab: &'a Lab,
    known: BTreeMap<String, RunOutcome>,
    /// The number of runs made.
    pub count: u32,
}

/// The result of a run, as far as reruns need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// What is violated.
    pub kinds: Vec<Kind>,
    /// The breached assumptions of the lock.
    pub breaches: Vec<Breach>,
    /// Whether the verdict is unknown.
    pub is_unknown: bool,
    /// The number of grants.
    pub grants: u32,
}

impl RunOutcome {
    /// The outcome of a trial.
    pub fn of(trial: &Trial) -> RunOutcome {
        let verdict = &trial.judgement.verdict;
        RunOutcome {
            kinds: Signature::of(verdict).kinds,
            breaches: trial.breaches.clone(),
            is_unknown: matches!(verdict, Verdict::Unknown(_)),
            grants: trial.judgement.counts.grants,
        }
    }
}

impl<'a> Reruns<'a> {
    /// An empty cache.
    pub fn new(lab: &'a Lab) -> Reruns<'a> {
        Reruns { lab, known: BTreeMap::new(), count: 0 }
    }

    /// The lab that runs the plans.
    pub fn lab(&self) -> &'a Lab {
        self.lab
    }

    /// Records the outcome of a plan that was already run.
    pub fn know(&mut self, plan: &Plan, outcome: RunOutcome) {
        self.known.entry(plan.digest()).or_insert(outcome);
    }

    /// The outcome of a plan.
    pub fn outcome(&mut self, plan: &Plan) -> &RunOutcome {
        let (lab, count) = (self.lab, &mut self.count);
        self.known.entry(plan.digest()).or_insert_with(|| {
            *count += 1;
            RunOutcome::of(&attempt(lab, plan))
        })
    }

    /// The outcomes of several plans, in their order.
    pub fn outcomes(&mut self, plans: &[Plan]) -> Vec<RunOutcome> {
        let mut new: BTreeMap<String, &Plan> = BTreeMap::new();
        let digests: Vec<String> = plans.iter().map(Plan::digest).collect();
        for (digest, plan) in digests.iter().zip(plans) {
            if !self.known.contains_key(digest) {
                new.insert(digest.clone(), plan);
            }
        }
        self.count += u32::try_from(new.len()).unwrap_or(u32::MAX);
        let lab = self.lab;
        let run = |(digest, plan): (String, &Plan)| (digest, RunOutcome::of(&attempt(lab, plan)));
        self.known.extend(new.into_par_iter().map(run).collect::<Vec<_>>());
        digests.iter().map(|digest| self.known[digest].clone()).collect()
    }
}
