//! Entries in the key of a re-entrant lock of which the release of its caller cannot know: see
//! [`crate::check::leak`].

use crate::check::case::Case;
use crate::check::leak::leftover::Leftover;
use crate::history::{Key, Op, OpId, OpKind};
use crate::reading::moment::Moment;

/// Whether a key that a release reported as removed may only be there because of a lost entry of
/// its caller, and nothing but such an entry has prolonged it since.
pub fn keeps_a_lost_entry(case: &Case, leftover: &Leftover, moment: Moment) -> bool {
    let changes = changes_since(case, leftover, moment);
    !is_prolonged(case, leftover, &changes) && has_lost_entry(case, leftover.owner, &changes)
}

/// The changes that a key went through up to a moment, since it was last absent or another
/// caller's. What others change in the key's own life leaves the entries.
fn changes_since<'a>(case: &Case<'a>, leftover: &Leftover, moment: Moment) -> Vec<&'a Key> {
    let (key, caller) = (leftover.key, case.caller(leftover.owner));
    let is_own = |change: &Key| change.by.is_some_and(|by| case.caller(by) == caller);
    let keys = case.history.keys.iter().enumerate();
    let here = keys.filter(|(_, change)| case.is_of_life(key, change));
    let until = here.take_while(|(_, change)| Moment::from(change.at) <= moment);
    let until = until.collect::<Vec<_>>();
    let first = until.iter().rposition(|(index, change)| {
        let writes = change.change.leaves_key();
        *index < key.born && !(writes && is_own(change))
    });
    let since = first.map_or(0, |before| before + 1);
    until[since..].iter().map(|(_, change)| *change).collect()
}

/// Whether an acquire of the owner's caller changed the key, no release of it did so after that,
/// and either of the two ended without an answer.
fn has_lost_entry(case: &Case, owner: OpId, changes: &[&Key]) -> bool {
    let mut entries: Vec<OpId> = Vec::new();
    let is_own = |by: &&Op| case.caller(by.id) == case.caller(owner);
    for by in changes.iter().filter_map(|change| case.op(change.by?)).filter(is_own) {
        match by.kind {
            OpKind::Acquire => entries.push(by.id),
            OpKind::Release { grant } => entries.retain(|entry| *entry != grant),
            _ => {}
        }
    }
    let is_lost_release = |op: &Op| matches!(op.kind, OpKind::Release { .. }) && op.has_no_answer();
    entries.iter().any(|entry| {
        let is_lost = case.op(*entry).is_some_and(Op::has_no_answer);
        is_lost || case.ops_of(*entry).any(is_lost_release)
    })
}

/// Whether a change after the answer of the release gave the key a later expiry, other than the
/// late effect of an acquire or a release without an answer.
fn is_prolonged(case: &Case, leftover: &Leftover, changes: &[&Key]) -> bool {
    let is_later = |change: &Key| leftover.denied.is_some_and(|at| at < change.at.into());
    let is_late_effect = |change: &Key| {
        let by = change.by.and_then(|by| case.op(by)).filter(|by| by.has_no_answer());
        by.is_some_and(|by| matches!(by.kind, OpKind::Acquire | OpKind::Release { .. }))
    };
    let mut latest = None;
    changes.iter().any(|change| {
        let is_longer = change.until_ms > latest;
        latest = latest.max(change.until_ms);
        is_longer && is_later(change) && !is_late_effect(change)
    })
}
