//! Lost early: the key of a covered hold went before its lease had ended, though nobody got in.
//!
//! The lease is what the grant may count on, by its deadline on the holder's clock; the key lives
//! on its nodes, by theirs. A loss counts from the moment at which so many of the grant's keys are
//! gone that another could get its quorum. A breach in the ledger excuses it: then the environment
//! did more than the lock withstands. What the owner ended or shortened is no loss, what another's
//! command ended is foreign, and if another did get in, that is the violation.

use std::collections::BTreeSet;

use lockstorm_sim::trace::KeyChange;

use crate::check::case::Case;
use crate::check::{Kind, Violation};
use crate::history::{OpId, OpKind};
use crate::ledger;
use crate::reading::hold::Hold;
use crate::reading::incarnation::Incarnation;
use crate::reading::moment::Moment;

/// One violation for each hold whose key went early, unless the ledger excuses it.
pub fn violations(case: &Case) -> Vec<Violation> {
    if case.terms.holders != 1 {
        return Vec::new();
    }
    let found: Vec<Violation> =
        case.holds.iter().filter_map(|hold| violation(case, hold)).collect();
    if found.is_empty() || !ledger::seen(case, &case.terms.site).is_empty() {
        Vec::new()
    } else {
        found
    }
}

fn violation(case: &Case, hold: &Hold) -> Option<Violation> {
    let keys: Vec<usize> = (0..case.lives.incarnations.len())
        .filter(|index| owner(case, &case.lives.incarnations[*index]) == Some(hold.grant))
        .collect();
    let (lost, from) = lost_at(case, &keys)?;
    let key = &case.lives.incarnations[lost];
    let until = hold.covered.iter().map(|(_, to)| *to).find(|to| from < *to)?;
    let is_covered = hold.covered.iter().any(|(start, to)| *start <= from && from < *to);
    if !is_covered
        || is_taken(case, key)
        || is_shortened(case, key)
        || another_got_in(case, hold, until)
    {
        return None;
    }
    Some(Violation {
        ops: vec![hold.grant],
        keys: vec![key.ended?.key],
        ..Violation::new(Kind::LostEarly, from.instant(case.history), until.instant(case.history))
    })
}

/// The grant that a key belongs to: of the acquire, or of the extend, that created it.
fn owner(case: &Case, key: &Incarnation) -> Option<OpId> {
    let op = case.op(key.by?)?;
    match op.kind {
        OpKind::Acquire => Some(op.id),
        OpKind::Extend { grant, .. } => Some(grant),
        _ => None,
    }
}

/// The key with whose end another could have got its quorum for the first time, and when.
fn lost_at(case: &Case, keys: &[usize]) -> Option<(usize, Moment)> {
    let spare = case.terms.asked.saturating_sub(case.terms.quorum) as usize;
    let mut ends = keys.to_vec();
    ends.sort_by_key(|index| case.lives.incarnations[*index].to);
    ends.into_iter().find_map(|index| {
        let end = case.lives.incarnations[index].to;
        let alive = keys.iter().map(|index| &case.lives.incarnations[*index]);
        let alive = alive.filter(|key| key.from <= end && end < key.to);
        let alive: BTreeSet<&str> = alive.map(|key| key.node).collect();
        (end != Moment::NEVER && alive.len() <= spare).then_some((index, end))
    })
}

/// Whether an operation ended the key: its owner's own, or another's, which is foreign.
fn is_taken(case: &Case, key: &Incarnation) -> bool {
    key.ended.is_some_and(|end| {
        end.change != KeyChange::Expired && end.by.is_some_and(|by| case.op(by).is_some())
    })
}

/// Whether the owner itself set an earlier end than the key had before.
fn is_shortened(case: &Case, key: &Incarnation) -> bool {
    let changes = case.history.keys[key.born..].iter();
    let life = changes.take_while(|change| Moment::from(change.at) < key.to);
    let own = life.filter(|change| change.node == key.node && change.key == case.terms.lock_key);
    let ends: Vec<u64> = own.filter_map(|change| change.until_ms).collect();
    ends.windows(2).any(|pair| pair[1] < pair[0])
}

/// Whether another held the lock before the lease had ended.
fn another_got_in(case: &Case, hold: &Hold, until: Moment) -> bool {
    let mut others = case.holds.iter().filter(|other| other.owner != hold.owner);
    others.any(|other| other.start.max(hold.start) < other.end.min(until))
}
