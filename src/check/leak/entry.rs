//! Entries in a key of which the release of its caller cannot know, as those of a re-entrant
//! caller, or of one whose acquire had no answer: see [`crate::check::leak`].

use lockstorm_platform::trace::Leg;

use crate::check::case::Case;
use crate::check::leak::leftover::Leftover;
use crate::check::leak::requests::concerns;
use crate::history::{Key, Op, OpId, OpKind, Outcome, Request};
use crate::reading::moment::Moment;

/// Whether a key that a release reported as removed may only be there because of a lost entry of
/// its caller, and nothing but such an entry has prolonged it since.
pub fn keeps_a_lost_entry(case: &Case, leftover: &Leftover, moment: Moment) -> bool {
    let changes = changes_since(case, leftover, moment);
    let mut lost = lost_entries(case, leftover, &changes).into_iter();
    lost.any(|lost| !is_prolonged(case, leftover, &changes, lost))
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

/// When acquires of the owner's caller changed the key, if no release of them did so or met the
/// entry after that, and the acquire or a release of it ended without an answer.
fn lost_entries(case: &Case, leftover: &Leftover, changes: &[&Key]) -> Vec<Moment> {
    let owner = leftover.owner;
    let mut entries: Vec<(OpId, Moment)> = Vec::new();
    for change in changes {
        let by = change.by.and_then(|by| case.op(by));
        let own = by.filter(|by| case.caller(by.id) == case.caller(owner));
        match own.map(|by| (by.id, &by.kind)) {
            Some((id, OpKind::Acquire)) => entries.push((id, change.at.into())),
            Some((_, OpKind::Release { grant })) => entries.retain(|(entry, _)| entry != grant),
            _ => {}
        }
    }
    let is_lost_release = |op: &Op| matches!(op.kind, OpKind::Release { .. }) && op.has_no_answer();
    entries.retain(|(entry, at)| {
        let is_lost = case.op(*entry).is_some_and(Op::has_no_answer);
        let is_met = || case.ops_of(*entry).any(|op| denies(case, op, (leftover.key.node, *at)));
        (is_lost || case.ops_of(*entry).any(is_lost_release)) && !is_met()
    });
    entries.into_iter().map(|(_, at)| at).collect()
}

/// Whether an operation is a release that reached a node after an entry was made there, and
/// returned as if there were none: its caller could have known of the entry.
fn denies(case: &Case, op: &Op, (node, made): (&str, Moment)) -> bool {
    let is_denial = matches!(op.kind, OpKind::Release { .. }) && op.outcome == Outcome::NotMine;
    let meets = |request: &&Request| {
        let applied = request.at(Leg::Applied).map(Moment::from);
        let is_here = request.to == node && !request.declined && concerns(request);
        is_here && applied.is_some_and(|applied| made < applied)
    };
    is_denial && case.requests_of(op.id).iter().any(meets)
}

/// Whether a change after the answer of the release gave the key a later expiry, or one of a later
/// tenure than that in which the entry was lost; other than the late effect of an acquire or a
/// release without an answer.
fn is_prolonged(case: &Case, leftover: &Leftover, changes: &[&Key], lost: Moment) -> bool {
    let is_denied = |change: &Key| leftover.denied.is_some_and(|at| at < change.at.into());
    let by = |change: &Key| change.by.and_then(|by| case.op(by));
    let is_late_effect =
        |by: &Op| by.has_no_answer() && matches!(by.kind, OpKind::Acquire | OpKind::Release { .. });
    let mut latest = None;
    changes.iter().any(|change| {
        let is_longer = change.until_ms > latest;
        latest = latest.max(change.until_ms);
        let is_effective = by(change).is_none_or(|by| !is_late_effect(by));
        let is_later = || {
            let acquire = by(change).and_then(Op::grant).and_then(|grant| case.op(grant));
            acquire.is_some_and(|acquire| is_of_a_later_tenure(case, acquire, lost))
        };
        is_longer && is_effective && (is_denied(change) || is_later())
    })
}

/// Whether the caller of an acquire had released another tenure before, after an entry was lost.
fn is_of_a_later_tenure(case: &Case, acquire: &Op, lost: Moment) -> bool {
    case.history.ops.iter().any(|op| match op.kind {
        OpKind::Release { grant } => {
            op.outcome == Outcome::Released
                && op.caller == acquire.caller
                && lost < op.call.into()
                && op.ret.is_some_and(|ret| ret.instant() <= acquire.call.instant())
                && !case.are_one(grant, acquire.id)
        }
        _ => false,
    })
}
