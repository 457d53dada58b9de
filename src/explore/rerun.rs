//! Plans that are run again to learn something from: each once, side by side where several are
//! asked for at a time.

use std::collections::BTreeMap;

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::check::signature::Signature;
use crate::check::verdict::{Kind, Verdict};
use crate::explore::trial::{Trial, attempt};
use crate::ledger::breach::Breach;
use crate::plan::Plan;
use crate::run::Lab;

/// Runs of plans, each made once.
pub struct Reruns<'a> {
    lab: &'a Lab,
    known: BTreeMap<String, Outcome>,
    /// How many were made.
    pub count: u32,
}

/// What a run came to, as far as whoever runs a plan again needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What is violated.
    pub kinds: Vec<Kind>,
    /// Which assumptions of the lock were broken.
    pub breaches: Vec<Breach>,
    /// Whether nothing can be said.
    pub is_unknown: bool,
}

impl Outcome {
    /// What a trial came to.
    pub fn of(trial: &Trial) -> Outcome {
        let verdict = &trial.judgement.verdict;
        Outcome {
            kinds: Signature::of(verdict).kinds,
            breaches: trial.breaches.clone(),
            is_unknown: matches!(verdict, Verdict::Unknown(_)),
        }
    }
}

impl<'a> Reruns<'a> {
    /// None yet.
    pub fn new(lab: &'a Lab) -> Reruns<'a> {
        Reruns { lab, known: BTreeMap::new(), count: 0 }
    }

    /// Where the plans are run.
    pub fn lab(&self) -> &'a Lab {
        self.lab
    }

    /// Notes what a plan came to that somebody has run already.
    pub fn know(&mut self, plan: &Plan, outcome: Outcome) {
        self.known.entry(plan.digest()).or_insert(outcome);
    }

    /// What a plan comes to.
    pub fn outcome(&mut self, plan: &Plan) -> &Outcome {
        let (lab, count) = (self.lab, &mut self.count);
        self.known.entry(plan.digest()).or_insert_with(|| {
            *count += 1;
            Outcome::of(&attempt(lab, plan))
        })
    }

    /// What several plans come to, in their order.
    pub fn outcomes(&mut self, plans: &[Plan]) -> Vec<Outcome> {
        let mut new: BTreeMap<String, &Plan> = BTreeMap::new();
        let digests: Vec<String> = plans.iter().map(Plan::digest).collect();
        for (digest, plan) in digests.iter().zip(plans) {
            if !self.known.contains_key(digest) {
                new.insert(digest.clone(), plan);
            }
        }
        self.count += u32::try_from(new.len()).unwrap_or(u32::MAX);
        let lab = self.lab;
        let run = |(digest, plan): (String, &Plan)| (digest, Outcome::of(&attempt(lab, plan)));
        self.known.extend(new.into_par_iter().map(run).collect::<Vec<_>>());
        digests.iter().map(|digest| self.known[digest].clone()).collect()
    }
}
