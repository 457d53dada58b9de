//! Keys that went early, change by change, from the words of the table.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::history::{Key, OpKind, Outcome};
use lockstorm_sim::trace::KeyChange;

use crate::table::{Point, Table, point, stamp};

/// A life of the key on a node.
struct Life {
    grant: Option<u32>,
    ends: Vec<u64>,
}

/// Grants whose key went early, with the change that took the decisive one.
pub fn lost_early(table: &Table) -> Vec<(u32, usize)> {
    if table.terms.holders != 1 {
        return Vec::new();
    }
    let spare = table.terms.asked.saturating_sub(table.terms.quorum) as usize;
    let mut lives: BTreeMap<&str, Life> = BTreeMap::new();
    let (mut decided, mut found) = (BTreeSet::new(), Vec::new());
    for (index, key) in table.history.keys.iter().enumerate() {
        if key.key != table.terms.lock_key {
            continue;
        }
        let Some((grant, ends)) = step(table, &mut lives, key) else { continue };
        let left = lives.values().filter(|life| life.grant == Some(grant)).count();
        if left > spare || !decided.insert(grant) {
            continue;
        }
        let by_command = key.change != KeyChange::Expired && key.by.is_some();
        let shortened = ends.windows(2).any(|pair| pair[1] < pair[0]);
        if !by_command && !shortened && is_loss(table, grant, point(key.at)) {
            found.push((grant, index));
        }
    }
    found.sort_unstable();
    found
}

/// Takes one change; the grant whose key it ended, and the ends that this had.
fn step<'a>(
    table: &Table,
    lives: &mut BTreeMap<&'a str, Life>,
    key: &'a Key,
) -> Option<(u32, Vec<u64>)> {
    let alive = lives.get_mut(key.node.as_str());
    if let (KeyChange::Extended | KeyChange::Changed, Some(life)) = (key.change, alive) {
        life.ends.extend(key.until_ms);
        return None;
    }
    let ended = lives.remove(key.node.as_str());
    if matches!(key.change, KeyChange::Set | KeyChange::Changed | KeyChange::Extended) {
        let owner = key.by.filter(|_| key.change != KeyChange::Extended);
        let grant = owner.and_then(|by| match table.op(by).kind {
            OpKind::Acquire => Some(by),
            OpKind::Extend { grant, .. } => Some(grant),
            _ => None,
        });
        lives.insert(&key.node, Life { grant, ends: key.until_ms.into_iter().collect() });
    }
    ended.and_then(|life| Some((life.grant?, life.ends)))
}

/// Whether the grant was held and covered at a point, and nobody else held until its cover ended.
fn is_loss(table: &Table, grant: u32, at: Point) -> bool {
    let op = table.op(grant);
    if !matches!(op.outcome, Outcome::Granted { .. }) {
        return false;
    }
    let counts = |at: Point| table.holds(op, at) && table.covers(op, at);
    let Some(until) = table.points.iter().copied().find(|p| *p > at && !counts(*p)) else {
        return false;
    };
    let start = stamp(op.ret.expect("granted"));
    let mut points = table.points.iter().filter(|p| start <= **p && **p < until);
    let others = table.grants().into_iter().filter(|other| other.caller != op.caller);
    let others = others.collect::<Vec<_>>();
    counts(at) && !points.any(|p| others.iter().any(|other| table.holds(other, *p)))
}
