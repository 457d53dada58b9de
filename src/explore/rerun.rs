//! Reruns of plans: each plan runs once, in parallel if several are requested at a time.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::Anchor;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::check::signature::Signature;
use crate::check::verdict::{Kind, Verdict};
use crate::explore::trial::{Trial, attempt};
use crate::ledger::breach::Breach;
use crate::ledger::part::{Parts, Strikes, strikes, without};
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
    /// The faults that struck, by number.
    pub struck: BTreeSet<u32>,
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
            struck: strikes(&trial.run.history).into_keys().collect(),
        }
    }
}

/// The plan in which faults that wait for an event, and did not strike, strike at the times at
/// which they struck in another run, as given by `struck`. `None` if there are none.
pub fn pinned(plan: &Plan, struck: &Strikes, strikes: &BTreeSet<u32>) -> Option<Plan> {
    let mut moved = plan.clone();
    for fault in &mut moved.faults {
        let waits = matches!(fault.anchor, Anchor::After { .. }) && !strikes.contains(&fault.id);
        let at = struck.get(&fault.id).filter(|_| waits);
        fault.anchor = at.map_or(fault.anchor.clone(), |at| Anchor::At(*at));
    }
    (moved != *plan).then_some(moved)
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

    /// The outcome of a plan without these parts: see [`Reruns::pinned_outcomes`].
    pub fn outcome_without(&mut self, plan: &Plan, out: &Parts, struck: &Strikes) -> &RunOutcome {
        let plan = self.plan_without(plan, out, struck);
        self.outcome(&plan)
    }

    /// The plan without these parts, in which a fault whose event no longer occurs strikes at its
    /// time in the plan's own run.
    pub fn plan_without(&mut self, plan: &Plan, out: &Parts, struck: &Strikes) -> Plan {
        let plan = without(plan, out, struck);
        let pinned = pinned(&plan, struck, &self.outcome(&plan).struck);
        pinned.unwrap_or(plan)
    }

    /// The outcomes of several changes of a plan. A fault whose event no longer occurs strikes at
    /// its time in the plan's own run, as given by `struck`: only the change makes the difference.
    pub fn pinned_outcomes(&mut self, plans: &[Plan], struck: &Strikes) -> Vec<RunOutcome> {
        let outcomes = self.outcomes(plans);
        let pin = |(plan, outcome): (&Plan, &RunOutcome)| {
            pinned(plan, struck, &outcome.struck).unwrap_or_else(|| plan.clone())
        };
        let moved: Vec<Plan> = plans.iter().zip(&outcomes).map(pin).collect();
        self.outcomes(&moved)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
    use lockstorm_platform::time::SECOND;

    use super::pinned;
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::base_plan;

    #[test]
    fn a_fault_whose_event_is_gone_strikes_when_it_did() {
        let mut plan = base_plan("token-lua", TopologyKind::Single);
        let event = Pattern::Outcome { who: "c1".to_owned(), what: "acquired".to_owned() };
        let anchor = Anchor::After { event, nth: 1, plus: 0 };
        let target = Target::try_from("c1".to_owned()).expect("a target");
        plan.faults.push(Fault { id: 1, verb: Verb::Pause, target, anchor, length: Some(SECOND) });
        let struck = [(1, 7 * SECOND)].into();
        let moved = pinned(&plan, &struck, &BTreeSet::new()).expect("it did not strike");
        assert_eq!(moved.faults[0].anchor, Anchor::At(7 * SECOND));
        assert_eq!(pinned(&plan, &struck, &[1].into()), None);
        assert_eq!(pinned(&plan, &[].into(), &BTreeSet::new()), None);
    }
}
