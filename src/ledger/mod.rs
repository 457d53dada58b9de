//! The assumption ledger: which assumptions of a lock a run breached, by how much, and through
//! what.
//!
//! [`seen`] reads a history, and of the plan only how long its callers work: a fault that the heal
//! cut short counts with its actual length, a removal that found no key does not count, and a
//! failover counts whether or not a fault intended it. [`planned`] estimates from a plan; it keeps
//! hunts inside the assumptions and decides nothing.
//!
//! - [`part`]: what can be removed from a plan
//! - [`stretch`]: pauses and late accesses, added up for each stretch under the lock
//! - [`caller`]: clients that died, or worked for longer than allowed
//! - [`clock`]: clocks that stepped, stopped or drifted apart
//! - [`node`]: keys and masters that were lost
//! - [`strike`]: what a fault interval did to which host
//! - [`overwork`]: work that outlasts its lease
//! - [`planned`]: the same from the plan alone

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use lockstorm_platform::time::Nanos;

use crate::ledger::part::Part;
use crate::lock::{Assumption, Bounded};
use crate::reading::Reading;

pub mod caller;
pub mod clock;
pub mod node;
pub mod overwork;
pub mod part;
pub mod planned;
pub mod stretch;
pub mod strike;

/// The bounds against which a history is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Every node, replicas included.
    pub nodes: Vec<String>,
    /// Every Sentinel.
    pub sentinels: Vec<String>,
    /// How many of the queried nodes have to grant.
    pub quorum: u32,
    /// How many nodes an acquire queries.
    pub asked: u32,
    /// The maximum time of one message without disturbance, ns.
    pub message: Nanos,
    /// How long a caller works under one grant without extending it, ns.
    pub works: Nanos,
    /// The assumptions of the lock.
    pub assumes: Vec<Assumption>,
}

/// A reading of a history with the bounds against which it is checked.
pub struct Ledger<'a> {
    /// What happened.
    pub reading: &'a Reading<'a>,
    /// The bounds.
    pub site: &'a Site,
}

/// One way in which a run exceeded an assumption.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Breach {
    /// The assumption.
    pub what: Bounded,
    /// The causes, in order. Empty if the history shows none.
    pub parts: Vec<Part>,
    /// The bound of the lock, in the unit of [`Bounded`].
    pub bound: u64,
    /// The actual amount, in the same unit.
    pub actual: u64,
}

/// Every breach that a history shows, in order: one for each assumption and set of causes, with the
/// worst figure.
pub fn seen(reading: &Reading, site: &Site) -> Vec<Breach> {
    let ledger = &Ledger { reading, site };
    let mut found = stretch::breaches(ledger);
    found.extend(caller::breaches(ledger));
    found.extend(clock::breaches(ledger));
    found.extend(node::breaches(ledger));
    worst(found)
}

fn worst(found: Vec<Breach>) -> Vec<Breach> {
    let mut worst: BTreeMap<(Bounded, Vec<Part>), Breach> = BTreeMap::new();
    for mut breach in found {
        breach.parts.sort_unstable();
        breach.parts.dedup();
        let known = worst.entry((breach.what, breach.parts.clone())).or_insert(breach.clone());
        known.actual = match breach.what {
            // The shorter a node was down, the more holders may still exist.
            Bounded::AmnesiacRestart => known.actual.min(breach.actual),
            _ => known.actual.max(breach.actual),
        };
    }
    worst.into_values().collect()
}

/// The bound of an assumption, if the lock makes it.
pub fn bound_of(assumes: &[Assumption], what: Bounded) -> Option<u64> {
    assumes.iter().find(|assumption| assumption.what == what).map(|found| found.bound)
}

/// A breach of an assumption, if the lock makes it and `actual` is above its bound.
fn above(ledger: &Ledger, what: Bounded, actual: u64, parts: Vec<Part>) -> Option<Breach> {
    let bound = bound_of(&ledger.site.assumes, what)?;
    (actual > bound).then_some(Breach { what, parts, bound, actual })
}
