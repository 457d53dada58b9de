//! Callers that wait for each other: each has a key of its group, and waits for one that the next
//! has.

use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::Op;
use crate::quantity::{list, moment};
use crate::reading::deadlock::{Waiting, circle, is_pending};
use crate::reading::moment::Moment;

/// A circle of pending acquires, and the expiry that ended it.
pub struct Ended<'a> {
    /// The acquires.
    pub circle: Vec<Waiting<'a>>,
    /// Index of the change by which a key of one of them expired.
    pub expiry: usize,
}

/// Callers that wait for each other at the time of a violation.
pub fn mechanism(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let circle = around(witness, violation)?;
    let text = format!("{}: nobody can go on.", told(&circle));
    Some(Mechanism::new(How::Deadlock, text, evidence(&circle)))
}

/// A circle of pending acquires at the time of a violation of liveness.
pub fn around<'a>(witness: &Witness<'a>, violation: &Violation) -> Option<Vec<Waiting<'a>>> {
    let (at, reading) = (Moment::from(violation.to), &witness.reading);
    let kinds = [Kind::Leak, Kind::Stuck, Kind::NeverSettles];
    let ops = witness.history().ops.iter().filter(|_| kinds.contains(&violation.kind));
    let mut pending = ops.filter(|op| is_pending(reading, op, at));
    pending.find_map(|op| circle(reading, op, at))
}

/// A grant of a violation whose acquire had waited in a circle until a key in it expired: by then
/// the leases of its keys were used up in part, or its own key was the one.
pub fn ended(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let Ended { circle, expiry } = broken_up(witness, violation)?;
    let key = &witness.history().keys[expiry];
    let text = format!("{}, until {} expires at {}.", told(&circle), key.key, moment(key.at.at));
    let mut evidence = evidence(&circle);
    evidence.push(Evidence::Key(expiry));
    Some(Mechanism::new(How::Deadlock, text, evidence))
}

/// The circle in which an acquire of a violation waited before it was granted.
pub fn broken_up<'a>(witness: &Witness<'a>, violation: &Violation) -> Option<Ended<'a>> {
    let kinds = [Kind::DoubleGrant, Kind::StaleHolder, Kind::NotLinearizable];
    let ops = violation.ops.iter().filter(|_| kinds.contains(&violation.kind));
    let grants = ops.filter_map(|op| witness.reading.op(*op));
    grants.filter(|op| !op.keys.is_empty()).find_map(|op| broken_circle(witness, op))
}

fn broken_circle<'a>(witness: &Witness<'a>, op: &'a Op) -> Option<Ended<'a>> {
    let keys = witness.history().keys.iter().enumerate();
    let mut expired = keys.filter(|(_, key)| key.change == KeyChange::Expired);
    expired.find_map(|(expiry, key)| {
        let before = Moment { seq: key.at.seq.checked_sub(1)?, at: key.at.at };
        let circle = circle(&witness.reading, op, before)?;
        let is_in_it = circle.iter().any(|own| key.key == *own.wanted);
        is_in_it.then_some(Ended { circle, expiry })
    })
}

/// Who waits for whom.
fn told(circle: &[Waiting]) -> String {
    let next = |place: usize| &circle[(place + 1) % circle.len()];
    let waits = circle.iter().enumerate().map(|(place, own)| {
        let (who, after) = (&own.op.caller, next(place));
        format!(
            "{who} has {} and waits for {}, which {} has",
            own.wanted, after.wanted, after.op.caller
        )
    });
    let waits = waits.collect::<Vec<_>>().join("; ");
    format!("{} wait for each other: {waits}", callers(circle))
}

/// The callers of a circle.
pub fn callers(circle: &[Waiting]) -> String {
    let callers: Vec<String> = circle.iter().map(|own| own.op.caller.clone()).collect();
    list(&callers)
}

fn evidence(circle: &[Waiting]) -> Vec<Evidence> {
    let ops = circle.iter().map(|own| Evidence::Op(own.op.id));
    let keys = circle.iter().map(|own| Evidence::Key(own.set));
    ops.chain(keys).collect()
}
