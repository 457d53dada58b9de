//! The nearest miss, point by point, from the words of the check.

use std::collections::BTreeSet;

use lockstorm::history::{Access, AccessKind, Condition, OpKind};
use lockstorm_sim::fault::{Target, Verb};
use lockstorm_sim::time::MILLISECOND;
use lockstorm_sim::trace::KeyChange;

use crate::damage::{births, passes, tenure_of};
use crate::table::{Point, Table, point, stamp};

/// The least time from a tenure's last write to the first point from its grant on at which so many
/// of the nodes that are asked run and have none of its keys that another gets its quorum. Where one node is asked, any that had a key.
pub fn nearest_miss(table: &Table) -> Option<i64> {
    let asked = table.history.requests.iter();
    let asked = asked.filter(|request| table.op(request.op).object == table.terms.lock_key);
    let mut asked = asked.map(|request| request.to.as_str()).collect::<BTreeSet<_>>();
    if asked.is_empty() || table.terms.site.asked <= 1 {
        asked.clear();
        asked.extend(table.history.keys.iter().map(|key| key.node.as_str()));
    }
    let wrote = table.tenures().into_iter().filter_map(|began| Some((began, wrote(table, began)?)));
    let wrote = wrote.collect::<Vec<_>>();
    let mine =
        |began: u32| births(table).filter(move |born| tenure_of(table, *born) == Some(began));
    if wrote.iter().all(|(began, _)| mine(*began).next().is_none()) {
        return None;
    }
    let misses = wrote.into_iter().filter_map(|(began, last)| {
        let lives = mine(began).map(|born| (born, gone(table, began, born))).collect::<Vec<_>>();
        let is_free = |node: &str, at: Point| {
            let has = |(born, gone): &(usize, Point)| {
                let key = &table.history.keys[*born];
                key.node == node && point(key.at) <= at && at < *gone
            };
            !is_down(table, node, at) && !lives.iter().any(has)
        };
        let start = stamp(table.op(began).ret.expect("granted"));
        let half = MILLISECOND / 2;
        let mut points = (0..600).map(|step| (step * half, 0)).collect::<Vec<_>>();
        points.extend(table.points.iter().copied());
        points.extend(outages(table).filter_map(|outage| outage.to.map(point)));
        points.sort_unstable();
        let free = points.into_iter().filter(|at| *at >= start).find(|at| {
            let free = asked.iter().filter(|node| is_free(node, *at)).count();
            free >= table.terms.site.quorum as usize
        });
        Some(free?.0 as i64 - last as i64)
    });
    misses.min()
}

/// When a tenure last changed the resource.
fn wrote(table: &Table, began: u32) -> Option<u64> {
    let grants = table.tenure(began);
    let own = |access: &&Access| grants.iter().any(|op| access.grant == Some(op.id));
    let accesses = table.history.accesses.iter().filter(own);
    let mut writes = accesses.filter(|access| access.accepted && access.kind != AccessKind::Read);
    Some(writes.next_back()?.at.at)
}

/// When a tenure's key is over: when its time is, or when something else than its owner ended it.
fn gone(table: &Table, began: u32, born: usize) -> Point {
    let keys = &table.history.keys;
    let node = &keys[born].node;
    let next = |index: &usize| keys[*index].node == *node && keys[*index].key == keys[born].key;
    let (mut until, mut set, mut ended) = (keys[born].until_ms, born, (u64::MAX, 0));
    for index in (born + 1..keys.len()).filter(next) {
        let by = keys[index].by.map(|by| table.op(by));
        let whose = by.map(|op| match op.kind {
            OpKind::Extend { grant, .. } | OpKind::Release { grant } => table.began(grant),
            _ => table.began(op.id),
        });
        let foreign = whose.is_some_and(|whose| whose != began);
        let is_there = [KeyChange::Extended, KeyChange::Changed].contains(&keys[index].change);
        match keys[index].change {
            _ if is_there => (until, set) = (keys[index].until_ms, index),
            KeyChange::Evicted | KeyChange::LostAtRestart | KeyChange::LostAtFailover => {
                ended = point(keys[index].at);
            }
            KeyChange::Set | KeyChange::Deleted if foreign => ended = point(keys[index].at),
            _ => {}
        }
        if !is_there {
            break;
        }
    }
    let passes = until.and_then(|until| passes(table, node, point(keys[set].at), until));
    passes.unwrap_or((u64::MAX, 0)).min(ended)
}

fn outages<'a>(table: &Table<'a>) -> impl Iterator<Item = &'a Condition> {
    table
        .history
        .conditions
        .iter()
        .filter(|condition| matches!(condition.verb, Verb::Crash | Verb::PowerLoss | Verb::Restart))
}

fn is_down(table: &Table, node: &str, at: Point) -> bool {
    let mut own = outages(table).filter(|outage| outage.target == Target::Host(node.to_owned()));
    own.any(|outage| point(outage.from) <= at && outage.to.is_none_or(|to| at < point(to)))
}
