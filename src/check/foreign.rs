//! Foreign releases and extends: a command of one caller removed, overwrote or extended the key
//! that another caller's acquire, or an extend of its grant, had created. A release or an extend
//! that changed such a key in place also counts, if the other caller still relied on it and the
//! acquire of that release or extend had not changed it.
//!
//! An acquire may set or delete the key of a grant whose lease or caller has ended. It may do the
//! same to the key of an acquire that was never granted, because no caller relies on it; also to
//! one that its acquire made anew afterwards, before it was granted: what it had was a claim.
//!
//! A command that sets the expiry that the key had changes nothing.
//!
//! If several callers may hold, each member of the lock's key is judged as a key, and every
//! operation may do that to it: a member has no time to live, so locks remove those that have
//! expired by their scores whenever they use the key. If it has no members, nothing is judged:
//! callers can share one key, so the key does not show who may change it.

use std::collections::BTreeMap;

use lockstorm_platform::trace::KeyChange;

use crate::check::case::Case;
use crate::check::verdict::{Kind, Violation};
use crate::history::{Key, OpId, OpKind};
use crate::reading::moment::Moment;

/// One violation for each operation, each acquire that it harmed, and each kind of harm.
pub fn violations(case: &Case) -> Vec<Violation> {
    if !case.has_owners() {
        return Vec::new();
    }
    let mut harms: BTreeMap<(Kind, OpId, OpId), Vec<usize>> = BTreeMap::new();
    for touch in &case.lives.touches {
        let change = &case.history.keys[touch.change];
        let life = &case.lives.lives[touch.met];
        // No caller relies on a member that an acquire without a grant left.
        let victim = case.owner_of(life).filter(|owner| !case.by_member || case.is_granted(*owner));
        let (Some(by), Some(victim)) = (change.by, victim) else { continue };
        let born = &case.history.keys[life.born];
        // The key expires when it did: nobody loses or gains by that.
        if change.change == KeyChange::Extended && change.until_ms == touch.until_ms {
            continue;
        }
        // The command that hands a hash to another also gives it a time to live.
        if change.change != KeyChange::Deleted && born.is_one_command_with(change) {
            continue;
        }
        let Some(kind) = harm(case, change, (touch.met, victim)) else { continue };
        if !same_caller(case, by, victim) && !takes_over(case, change, (touch.met, victim)) {
            let keys = harms.entry((kind, by, victim)).or_default();
            keys.extend([life.born, touch.change]);
        }
    }
    harms.into_iter().map(|(harm, keys)| violation(case, harm, keys)).collect()
}

fn harm(case: &Case, change: &Key, (life, victim): (usize, OpId)) -> Option<Kind> {
    match change.change {
        KeyChange::Set | KeyChange::Deleted => Some(Kind::ForeignRelease),
        KeyChange::Extended => Some(Kind::ForeignExtend),
        KeyChange::Changed if is_given_up(case, (life, victim), change) => None,
        KeyChange::Changed => {
            let (grant, kind) = match case.op(change.by?)?.kind {
                OpKind::Release { grant } => (grant, Kind::ForeignRelease),
                OpKind::Extend { grant, .. } => (grant, Kind::ForeignExtend),
                _ => return None,
            };
            (!has_entered(case, life, grant)).then_some(kind)
        }
        _ => None,
    }
}

/// Whether an acquire of that tenure changed a key: its caller entered by another caller's key as
/// if it were its own.
fn has_entered(case: &Case, life: usize, acquire: OpId) -> bool {
    let mut touches = case.lives.touches.iter().filter(|touch| touch.met == life);
    touches.any(|touch| {
        let by = case.history.keys[touch.change].by.and_then(|by| case.op(by));
        by.is_some_and(|by| {
            by.kind == OpKind::Acquire && !by.is_refused() && case.are_one(by.id, acquire)
        })
    })
}

/// Whether an acquire, or any operation if it is a member, sets or deletes the key of a grant whose
/// lease or caller has ended, or of an acquire that was never granted. A lock whose keys contain
/// their own expiry time is taken over in this way.
fn takes_over(case: &Case, change: &Key, (life, victim): (usize, OpId)) -> bool {
    let acquires =
        change.by.and_then(|by| case.op(by)).is_some_and(|op| op.kind == OpKind::Acquire);
    let replaces = matches!(change.change, KeyChange::Set | KeyChange::Deleted);
    replaces && (acquires || case.by_member) && is_given_up(case, (life, victim), change)
}

/// Whether no caller relies on the key of an acquire when it is changed.
fn is_given_up(case: &Case, (life, victim): (usize, OpId), change: &Key) -> bool {
    let at = Moment::from(change.at);
    if is_made_anew(case, (life, victim), at) {
        return true;
    }
    if case.by_member {
        return case.is_member_given_up(victim, &change.node, at);
    }
    case.is_given_up(victim, at)
}

/// Whether an acquire makes a key again after a moment, before it returns.
fn is_made_anew(case: &Case, (life, acquire): (usize, OpId), at: Moment) -> bool {
    let first = &case.lives.lives[life];
    let ret = case.op(acquire).and_then(|op| op.ret).map_or(Moment::NEVER, Moment::from);
    let mut later = case.lives.lives[life + 1..].iter();
    later.any(|again| {
        let is_same = (again.node, again.name) == (first.node, first.name);
        is_same && again.by == Some(acquire) && at < again.from && again.from < ret
    })
}

fn same_caller(case: &Case, one: OpId, other: OpId) -> bool {
    case.caller(one) == case.caller(other)
}

/// `keys` alternates births and harms, in the order of the harms.
fn violation(case: &Case, harm: (Kind, OpId, OpId), mut keys: Vec<usize>) -> Violation {
    let (kind, by, victim) = harm;
    let at = |index: usize| case.history.keys[index].at;
    // Before `keys` is sorted: its order tells harms from births.
    let (from, to) = (at(keys[1]), at(keys[keys.len() - 1]));
    keys.sort_unstable();
    keys.dedup();
    let mut ops = vec![victim, by];
    ops.sort_unstable();
    Violation { ops, keys, ..Violation::new(kind, from, to) }
}
