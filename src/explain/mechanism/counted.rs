//! Entries of a key that counts several holders and names none, as a number of permits: who took
//! one and never gave it back.

use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, OpKind, Outcome, PROBE};
use crate::quantity::list;
use crate::reading::moment::Moment;

/// The mechanism if nobody could get a lock whose key counts its holders: the last entry that was
/// not given back is the one that filled it.
pub fn mechanism(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    if violation.kind != Kind::Stuck {
        return None;
    }
    let lost = lost(witness);
    let (last, _, how, _) = *lost.last()?;
    let node = &last.node;
    let whose: Vec<String> =
        lost.iter().map(|(_, op, _, why)| format!("{}'s ({why})", op.caller)).collect();
    let entry = if lost.len() == 1 { "an entry" } else { "entries" };
    let text = format!(
        "The key on {node} does not tell whose its entries are, and still counts {entry} that \
         nobody gives back: {}.",
        list(&whose)
    );
    let evidence = lost.iter().map(|(_, op, ..)| Evidence::Op(op.id)).collect();
    Some(Mechanism::new(how, text, evidence))
}

/// Whether entries are why nobody could get the lock.
pub fn is_full(witness: &Witness<'_>) -> bool {
    !lost(witness).is_empty()
}

/// The entries that were not given back, in the order in which they were made, each with its
/// acquire and the reason.
fn lost<'a>(witness: &Witness<'a>) -> Vec<(&'a Key, &'a Op, How, &'static str)> {
    let reading = &witness.reading;
    if !reading.can_overlap() || reading.shares || reading.by_member {
        return Vec::new();
    }
    let all = &witness.finding.history.keys;
    let own = |key: &&Key| reading.is_of_lock(key);
    // Of the key that is there at the end: what an earlier one counted is gone.
    let born = all.iter().rposition(|key| own(&key) && !key.change.leaves_key());
    let entries = all.iter().skip(born.map_or(0, |born| born + 1)).filter(own);
    let counts = |key: &&Key| matches!(key.change, KeyChange::Set | KeyChange::Changed);
    let mut seen: Vec<OpId> = Vec::new();
    let made = entries.filter(counts).filter_map(|key| {
        let op =
            reading.op(key.by?).filter(|op| op.kind == OpKind::Acquire && op.process != PROBE)?;
        let is_first = !seen.contains(&op.id);
        seen.push(op.id);
        is_first.then_some((key, op))
    });
    made.filter_map(|(key, op)| kept(witness, op).map(|(how, why)| (key, op, how, why))).collect()
}

/// Why an acquire's entry was not given back; `None` if an operation of its grant changed the key.
fn kept(witness: &Witness<'_>, acquire: &Op) -> Option<(How, &'static str)> {
    let reading = &witness.reading;
    let of_grant: Vec<OpId> = reading.ops_of(acquire.id).map(|op| op.id).collect();
    let mut changes = witness.finding.history.keys.iter().filter(|key| reading.is_of_lock(key));
    if changes.any(|key| key.by.is_some_and(|by| of_grant.contains(&by))) {
        return None;
    }
    let began = Moment::from(acquire.call);
    let ended = reading.releases(acquire.id).filter_map(|release| release.ret).next();
    let died = reading.death_after(&acquire.process, began);
    Some(match acquire.outcome {
        Outcome::Refused { .. } => (How::LeftByRefused, "it was refused"),
        Outcome::Unknown => (How::LeftByUnknown, "its acquire got no answer"),
        _ if died.is_some_and(|died| ended.is_none_or(|ended| died.at < ended.into())) => {
            (How::LeftByDead, "it died")
        }
        _ => (How::ReleaseFailed, "its release failed"),
    })
}
