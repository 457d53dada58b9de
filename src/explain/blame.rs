//! Which faults breached an assumption in the run itself.
//!
//! Some breaches name their faults: see [`crate::ledger::seen`]. For a failover, or for what
//! lasts beyond the heal, only trials show which faults are responsible, and these may blame one
//! that breached nothing here: without the other faults it would have.

use lockstorm_platform::fault::Target;

use crate::explain::finding::BrokenAssumption;
use crate::explain::witness::Witness;
use crate::history::{FaultInterval, Sighting};
use crate::promise::Bounded;
use crate::reading::leaders;
use crate::reading::moment::Moment;

/// The faults of a broken assumption that broke it in the run; all of them if the run kept it.
pub fn causes<'a>(witness: &Witness<'a>, broken: &BrokenAssumption) -> Vec<&'a FaultInterval> {
    let intervals = &witness.finding.history.fault_intervals;
    let interval = |fault: &u32| intervals.iter().find(|interval| interval.fault == *fault);
    let all: Vec<&FaultInterval> = broken.faults.iter().filter_map(interval).collect();
    let own = witness.finding.breaches.iter().filter(|breach| breach.what == broken.what);
    let own: Vec<_> = own.collect();
    let seen: Vec<u32> =
        own.iter().flat_map(|breach| &breach.parts).filter_map(|part| part.fault()).collect();
    match (own.is_empty(), seen.is_empty()) {
        (true, _) => all,
        (false, false) => all.into_iter().filter(|fault| seen.contains(&fault.fault)).collect(),
        (false, true) if broken.what == Bounded::Failover => of_failovers(witness, &all),
        (false, true) => uncovered(witness, &all),
    }
}

/// The other assumptions that these faults broke in the run as well: the trial that removed the
/// faults removed those breaches too.
pub fn also_broken(witness: &Witness<'_>, broken: &BrokenAssumption) -> Vec<(Bounded, u64)> {
    let finding = witness.finding;
    if finding.breaches.iter().all(|breach| breach.what != broken.what) {
        return Vec::new();
    }
    let causes: Vec<u32> = causes(witness, broken).iter().map(|cause| cause.fault).collect();
    let class = finding.class.iter().flat_map(|class| &class.broken);
    let others = finding.breaches.iter().filter(|breach| breach.what != broken.what);
    let is_by_them = |other: &BrokenAssumption| {
        self::causes(witness, other).iter().any(|fault| causes.contains(&fault.fault))
    };
    let mut also: Vec<(Bounded, u64)> = others
        .filter(|breach| match breach.parts.is_empty() {
            true => class.clone().filter(|other| other.what == breach.what).any(is_by_them),
            false => is_by_them(&BrokenAssumption::from(*breach)),
        })
        .map(|breach| (breach.what, breach.bound))
        .collect();
    also.sort_unstable();
    also.dedup();
    also
}

/// Of these faults those that led to a failover of the run. Those that struck the replaced master
/// count, or a link of it; if none did, all that began before the last failover.
fn of_failovers<'a>(witness: &Witness<'a>, faults: &[&'a FaultInterval]) -> Vec<&'a FaultInterval> {
    let promoted = leaders::promoted(&witness.reading);
    let mut led: Vec<&FaultInterval> =
        promoted.iter().flat_map(|promotion| led_to(witness, promotion, faults)).collect();
    led.sort_by_key(|fault| fault.fault);
    led.dedup_by_key(|fault| fault.fault);
    if !led.is_empty() {
        return led;
    }
    let last = promoted.last().map_or(0, |promotion| promotion.at.at);
    faults.iter().copied().filter(|fault| fault.from.at <= last).collect()
}

/// The faults that kept the replaced master away until a promotion.
fn led_to<'a>(
    witness: &Witness<'a>,
    promotion: &Sighting,
    faults: &[&'a FaultInterval],
) -> Vec<&'a FaultInterval> {
    let Some(replaced) = leaders::replaced(witness.history(), promotion) else {
        return Vec::new();
    };
    let (since, until) = (Moment::from(replaced.at), Moment::from(promotion.at));
    let lasts = |fault: &FaultInterval| witness.reading.lasts(fault);
    let meets = |fault: &&&FaultInterval| {
        let (from, over) = lasts(fault);
        fault.touches(&replaced.by) && from <= until && since <= over
    };
    let mut struck: Vec<&FaultInterval> = faults.iter().filter(meets).copied().collect();
    struck = uncovered(witness, &struck);
    struck.sort_by_key(|fault| lasts(fault));
    // One outage: each fault begins before the one that follows it is over.
    let mut outage: Vec<&FaultInterval> = struck.pop().into_iter().collect();
    while let Some(fault) = struck.pop() {
        if outage.last().is_some_and(|next| lasts(fault).1 < lasts(next).0) {
            break;
        }
        outage.push(fault);
    }
    outage
}

/// The faults without those that struck a host that another of them kept from running meanwhile.
fn uncovered<'a>(witness: &Witness<'a>, faults: &[&'a FaultInterval]) -> Vec<&'a FaultInterval> {
    let covers = |outer: &FaultInterval, inner: &FaultInterval| {
        let stops = outer.verb.takes_down() || outer.verb.halts() && inner.verb.halts();
        let is_one = matches!(inner.target, Target::Host(_)) && outer.target == inner.target;
        let ((from, over), (begins, ends)) =
            (witness.reading.lasts(outer), witness.reading.lasts(inner));
        stops && is_one && from < begins && ends <= over
    };
    let stands = |inner: &&&FaultInterval| !faults.iter().any(|outer| covers(outer, inner));
    faults.iter().filter(stands).copied().collect()
}
