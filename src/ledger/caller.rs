//! Clients that died while they held the lock, asked for it or gave it back.

use std::collections::BTreeMap;

use crate::check::case::Case;
use crate::check::moment::Moment;
use crate::ledger::part::Part;
use crate::ledger::stretch::stretches;
use crate::ledger::strike;
use crate::ledger::{Breach, above};
use crate::lock::Bounded;

/// One breach with all of these deaths: they are counted together.
pub fn breaches(case: &Case) -> Vec<Breach> {
    let stretches = stretches(case);
    let mut deaths: BTreeMap<Moment, Part> = BTreeMap::new();
    for condition in case.history.conditions.iter().filter(|c| strike::kills(c)) {
        let at = Moment::from(condition.from);
        let mut own = stretches.iter().filter(|s| Some(s.process) == strike::host(condition));
        if own.any(|stretch| stretch.from < at && at <= stretch.to) {
            deaths.insert(at, strike::part(condition));
        }
    }
    let count = u64::try_from(deaths.len()).unwrap_or(u64::MAX);
    above(case, Bounded::ClientCrash, count, deaths.into_values().collect()).into_iter().collect()
}
