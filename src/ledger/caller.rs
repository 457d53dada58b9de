//! Clients that died while they held the lock, asked for it or gave it back.

use std::collections::BTreeMap;

use crate::ledger::part::Part;
use crate::ledger::stretch::stretches;
use crate::ledger::strike;
use crate::ledger::{Breach, Ledger, above};
use crate::lock::Bounded;
use crate::reading::moment::Moment;

/// One breach with all of these deaths: they are counted together.
pub fn breaches(ledger: &Ledger) -> Vec<Breach> {
    let stretches = stretches(ledger);
    let mut deaths: BTreeMap<Moment, Part> = BTreeMap::new();
    for condition in ledger.reading.history.conditions.iter().filter(|c| c.verb.kills()) {
        let at = Moment::from(condition.from);
        let mut own = stretches.iter().filter(|s| condition.strikes(s.process));
        if own.any(|stretch| stretch.from < at && at <= stretch.to) {
            deaths.insert(at, strike::part(condition));
        }
    }
    let count = u64::try_from(deaths.len()).unwrap_or(u64::MAX);
    above(ledger, Bounded::ClientCrash, count, deaths.into_values().collect()).into_iter().collect()
}
