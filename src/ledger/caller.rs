//! Clients that died while they held, acquired or released the lock, clients whose work outlasts
//! their lease, and callers that do not heed the lock's answers.

use std::collections::BTreeMap;

use crate::ledger::breach::Breach;
use crate::ledger::breach::Ledger;
use crate::ledger::breach::above;
use crate::ledger::overwork::outlasts;
use crate::ledger::part::Part;
use crate::ledger::site::bound_of;
use crate::ledger::stretch::stretches;
use crate::ledger::strike;
use crate::promise::Bounded;
use crate::reading::moment::Moment;

/// The breaches of assumptions about callers.
pub fn breaches(ledger: &Ledger) -> Vec<Breach> {
    deaths(ledger).into_iter().chain(overwork(ledger)).chain(misuse(ledger)).collect()
}

/// Work that no fault lengthens: the plan itself sets it.
fn overwork(ledger: &Ledger) -> Option<Breach> {
    let bound = bound_of(&ledger.site.assumes, Bounded::Work)?;
    let (what, parts, actual) = (Bounded::Work, vec![Part::Work(bound)], ledger.site.works);
    outlasts(actual, bound).then_some(Breach { what, parts, bound, actual })
}

/// What callers did that no grant of theirs covers, and whom they turned away wrongly, where the
/// plan makes them: no fault does.
fn misuse(ledger: &Ledger) -> Option<Breach> {
    if !ledger.site.misuses {
        return None;
    }
    let (reading, bound) = (ledger.reading, 0);
    let accesses = reading.history.accesses.iter();
    let worked = accesses.filter(|access| {
        reading.is_sent_outside_a_hold(access) || reading.turns_away_wrongly(access)
    });
    let released = reading.history.ops.iter().filter(|op| reading.releases_refused(op));
    let actual = u64::try_from(worked.count() + released.count()).unwrap_or(u64::MAX);
    let (what, parts) = (Bounded::Misuse, vec![Part::Misuse]);
    (actual > bound).then_some(Breach { what, parts, bound, actual })
}

/// One breach for all such deaths, because the bound counts them together.
fn deaths(ledger: &Ledger) -> Option<Breach> {
    let stretches = stretches(ledger);
    let mut deaths: BTreeMap<Moment, Part> = BTreeMap::new();
    for interval in ledger.reading.history.fault_intervals.iter().filter(|c| c.verb.kills()) {
        let at = Moment::from(interval.from);
        let mut own = stretches.iter().filter(|s| interval.strikes(s.process));
        if own.any(|stretch| stretch.from < at && at <= stretch.to) {
            deaths.insert(at, strike::part(interval));
        }
    }
    let count = u64::try_from(deaths.len()).unwrap_or(u64::MAX);
    above(ledger, Bounded::ClientCrash, count, deaths.into_values().collect())
}
