//! Every breach that a history shows: all parts of the ledger, and the worst of each.

use std::collections::BTreeMap;

use crate::ledger::breach::{Breach, Ledger};
use crate::ledger::part::Part;
use crate::ledger::site::Site;
use crate::ledger::{caller, clock, node, stretch};
use crate::promise::Bounded;
use crate::reading::history::Reading;

/// Every breach that a history shows, in order: one for each assumption and set of causes, with
/// the worst figure.
pub fn seen(reading: &Reading, site: &Site) -> Vec<Breach> {
    let ledger = &Ledger { reading, site };
    let mut found = stretch::breaches(ledger);
    found.extend(caller::breaches(ledger));
    found.extend(clock::breaches(ledger));
    found.extend(node::breaches(ledger));
    worst(found)
}

/// One breach for each assumption and set of causes, with the worst figure.
pub fn worst(found: Vec<Breach>) -> Vec<Breach> {
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
