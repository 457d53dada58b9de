//! What of a plan can be taken out, to see what the run is like without it.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_sim::fault::{Anchor, Fault, Pattern};
use lockstorm_sim::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::ledger::overwork::{fit, overworked};
use crate::lock::Promise;
use crate::plan::Plan;

/// A fault as a whole, or something that the run begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The fault with this number.
    Fault(u32),
    /// Clocks that run at a wrong rate from the start.
    Clocks,
    /// Links that lose messages from the start.
    Loss,
    /// Work that outlasts its lease; without it nobody works for longer than these ns.
    Work(Nanos),
}

impl Part {
    /// The number of the fault, if it is one.
    pub fn fault(self) -> Option<u32> {
        match self {
            Part::Fault(id) => Some(id),
            Part::Clocks | Part::Loss | Part::Work(_) => None,
        }
    }
}

/// Every part of a plan whose lock promises this, in order.
pub fn parts_of(plan: &Plan, promise: &Promise) -> Vec<Part> {
    let mut parts: Vec<Part> = plan.faults.iter().map(|fault| Part::Fault(fault.id)).collect();
    if plan.clocks.values().any(|clock| clock.rate_ppm != 0) {
        parts.push(Part::Clocks);
    }
    if plan.links.loss_per_million > 0 {
        parts.push(Part::Loss);
    }
    parts.extend(overworked(plan, promise).map(|overwork| Part::Work(overwork.bound)));
    parts.sort_unstable();
    parts
}

/// When each fault struck, true ns, by its number.
pub type Strikes = BTreeMap<u32, Nanos>;

/// When each fault of a run struck first.
pub fn strikes(history: &History) -> Strikes {
    let mut strikes = Strikes::new();
    for condition in &history.conditions {
        strikes.entry(condition.fault).or_insert(condition.from.at);
    }
    strikes
}

/// The plan without these parts. The other faults keep their numbers and their draws; one that
/// waits for a fault which is out strikes when it did in the plan's own run, as `struck` has it.
pub fn without(plan: &Plan, out: &BTreeSet<Part>, struck: &Strikes) -> Plan {
    let mut plan = plan.clone();
    plan.faults.retain(|fault| !out.contains(&Part::Fault(fault.id)));
    for fault in &mut plan.faults {
        let at = struck.get(&fault.id).filter(|_| waits_for(fault, out));
        fault.anchor = at.map_or(fault.anchor.clone(), |at| Anchor::At(*at));
    }
    if out.contains(&Part::Clocks) {
        for clock in plan.clocks.values_mut() {
            clock.rate_ppm = 0;
        }
    }
    if out.contains(&Part::Loss) {
        plan.links.loss_per_million = 0;
    }
    for part in out {
        if let Part::Work(bound) = part {
            fit(&mut plan, *bound);
        }
    }
    plan
}

/// Whether a fault waits for one of these.
fn waits_for(fault: &Fault, out: &BTreeSet<Part>) -> bool {
    let Anchor::After { event: Pattern::Fault { id, .. }, .. } = fault.anchor else { return false };
    out.contains(&Part::Fault(id))
}
