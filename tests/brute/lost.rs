//! Keys that went early, change by change, from the words of the table.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::history::{Key, OpKind};
use lockstorm_sim::trace::KeyChange;

use crate::table::{Point, Table, point, stamp};

/// Each new end of a life, with the tenure that set it.
type Ends = Vec<(u64, Option<u32>)>;

/// A life of the key on a node.
struct Life {
    /// The tenure whose key it is.
    began: Option<u32>,
    ends: Ends,
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
        let Some((began, ends)) = step(table, &mut lives, key) else { continue };
        let left = lives.values().filter(|life| life.began == Some(began)).count();
        let asked = table.tenure(began).into_iter().filter(|op| stamp(op.call) <= point(key.at));
        // It is the first while it is covered, for some grant that had been asked for.
        if left > spare || !table.keeps(began, point(key.at)) {
            continue;
        }
        if asked.filter(|op| decided.insert(op.id)).count() == 0 {
            continue;
        }
        let by_command = key.change != KeyChange::Expired
            && key.by.is_some_and(|by| {
                let op = table.op(by);
                let acquire = match op.kind {
                    OpKind::Extend { grant, .. }
                    | OpKind::Release { grant }
                    | OpKind::Lost { grant } => grant,
                    _ => by,
                };
                op.caller != table.op(began).caller || table.began(acquire) == began
            });
        if !by_command && !is_shortened(began, &ends) {
            found.extend(loser(table, began, point(key.at)).map(|grant| (grant, index)));
        }
    }
    found.sort_unstable();
    found
}

/// Whether the latest end that differs from the one before was nearer, and set by the tenure.
fn is_shortened(began: u32, ends: &[(u64, Option<u32>)]) -> bool {
    let mut changes = ends.windows(2).filter(|pair| pair[0].0 != pair[1].0);
    changes.next_back().is_some_and(|pair| pair[1].0 < pair[0].0 && pair[1].1 == Some(began))
}

/// Takes one change; the tenure whose key it ended, and the ends that this had.
fn step<'a>(
    table: &Table,
    lives: &mut BTreeMap<&'a str, Life>,
    key: &'a Key,
) -> Option<(u32, Ends)> {
    let owner = key.by.and_then(|by| match table.op(by).kind {
        OpKind::Acquire => Some(table.began(by)),
        OpKind::Extend { grant, .. } => Some(table.began(grant)),
        _ => None,
    });
    let end = key.until_ms.map(|until| (until, owner));
    let alive = lives.get_mut(key.node.as_str());
    if let (KeyChange::Extended | KeyChange::Changed, Some(life)) = (key.change, alive) {
        life.ends.extend(end);
        return None;
    }
    let ended = lives.remove(key.node.as_str());
    if matches!(key.change, KeyChange::Set | KeyChange::Changed | KeyChange::Extended) {
        let began = owner.filter(|_| key.change != KeyChange::Extended);
        lives.insert(&key.node, Life { began, ends: end.into_iter().collect() });
    }
    ended.and_then(|life| Some((life.began?, life.ends)))
}

/// The first grant that covered its tenure at a point, if nobody else held until nothing covered
/// that any more.
fn loser(table: &Table, began: u32, at: Point) -> Option<u32> {
    let grants = table.tenure(began);
    let covering = grants.iter().find(|op| table.holds(op, at) && table.covers(op, at))?;
    let mut later = table.points.iter().copied().filter(|point| *point > at);
    let until = later.find(|point| !table.keeps(began, *point))?;
    let mut points = table.points.iter().filter(|point| at <= **point && **point < until);
    let others = table.grants().into_iter().filter(|other| other.caller != covering.caller);
    let others = others.collect::<Vec<_>>();
    let met = points.any(|point| others.iter().any(|other| table.holds(other, *point)));
    (!met).then_some(covering.id)
}
