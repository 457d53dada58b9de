//! The nearest miss, point by point, from the definition of the check.

use std::collections::BTreeSet;

use lockstorm::history::{Access, AccessKind, FaultInterval, Op, OpKind};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, MILLISECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::brute::damage::{births, end_of, marked_at, passes, stays, tenure_of};
use crate::brute::table::{Point, Table, point, stamp};

/// The minimum time from a tenure's last write to the next point at which enough of the queried
/// nodes run without any of its keys for another caller to reach its quorum; back to the first such
/// point, if it is so at the write. With one queried node, only the nodes that had a key count, and
/// of them the one that came up last.
pub fn nearest_miss(table: &Table) -> Option<i64> {
    if table.may_meet() {
        return None;
    }
    let queried = table.history.requests.iter();
    let queried = queried.filter(|request| table.op(request.op).object == table.terms.lock_key);
    let mut queried = queried.map(|request| request.to.as_str()).collect::<BTreeSet<_>>();
    let is_one = table.terms.site.queried <= 1;
    if queried.is_empty() {
        queried.extend(table.history.keys.iter().map(|key| key.node.as_str()));
    }
    if is_one {
        let is_there = [KeyChange::Set, KeyChange::Extended, KeyChange::Changed];
        let there = table.history.keys.iter().filter(|key| is_there.contains(&key.change));
        queried.clear();
        queried.extend(
            there.filter(|key| key.key == table.terms.lock_key).map(|key| key.node.as_str()),
        );
    }
    let wrote = table.tenures().into_iter().filter_map(|began| Some((began, wrote(table, began)?)));
    let wrote = wrote.collect::<Vec<_>>();
    let mine =
        |began: u32| births(table).filter(move |born| tenure_of(table, *born) == Some(began));
    if wrote.iter().all(|(began, _)| mine(*began).next().is_none()) {
        return None;
    }
    let misses = wrote.into_iter().filter_map(|(began, last)| {
        let mut lives =
            mine(began).flat_map(|born| followed(table, began, born)).collect::<Vec<_>>();
        lives.extend(older(table, began).into_iter().map(|born| (born, over(table, born))));
        let is_free = |node: &str, at: Point| {
            let has = |(born, gone): &(usize, Point)| {
                let key = &table.history.keys[*born];
                key.node == node && point(key.at) <= at && at < *gone && !is_over(table, *born, at)
            };
            !is_down(table, node, at) && !is_halted(table, node, at) && !lives.iter().any(has)
        };
        let is_open = |at: Point| {
            let free = |node: &&&str| is_free(node, at);
            if is_one {
                let up = queried.iter().filter(|node| !is_down(table, node, at));
                return up
                    .max_by_key(|node| (up_since(table, node, at), **node))
                    .is_some_and(|node| is_free(node, at) && table.terms.site.quorum <= 1);
            }
            queried.iter().filter(free).count() >= table.terms.site.quorum as usize
        };
        let start = stamp(table.op(began).ret.expect("granted"));
        let half = MILLISECOND / 2;
        let mut points = (0..600).map(|step| (step * half, 0)).collect::<Vec<_>>();
        points.extend(table.points.iter().copied());
        let halts = table.history.fault_intervals.iter().filter(|interval| interval.verb.halts());
        points.extend(outages(table).chain(halts).flat_map(|outage| {
            [Some(point(outage.from)), outage.to.map(point)].into_iter().flatten()
        }));
        points.extend(lives.iter().map(|(_, gone)| *gone).filter(|gone| gone.0 < u64::MAX));
        points.sort_unstable();
        points.retain(|at| *at >= start);
        let (before, after): (Vec<Point>, Vec<Point>) =
            points.into_iter().partition(|at| *at <= last);
        // A node that is free for no time at all lets nobody in.
        let all: Vec<Point> = before.iter().chain(&after).copied().collect();
        let lets_in = |at: Point| {
            let later = all.partition_point(|other| *other < at);
            let mut then = all[later..].iter().take_while(|other| other.0 == at.0);
            then.all(|other| is_open(*other))
        };
        let since = before.iter().rev().take_while(|at| lets_in(**at)).last();
        let open = since.or_else(|| after.iter().find(|at| lets_in(**at)));
        Some(open?.0 as i64 - last.0 as i64)
    });
    misses.min()
}

/// The keys that are not a tenure's own and were there before it, or were set by what was over then.
fn older(table: &Table, began: u32) -> Vec<usize> {
    let granted = stamp(table.op(began).ret.expect("granted"));
    let older = births(table).filter(|born| {
        let key = &table.history.keys[*born];
        let is_others = tenure_of(table, *born).is_some_and(|owner| owner != began);
        let is_restored = |by: u32| {
            let mut own = table.history.requests.iter();
            let over = table.op(by).ret.is_some_and(|ret| stamp(ret) < granted);
            over && !own.any(|request| {
                let mut applied = request.legs.iter().filter(|(leg, _)| *leg == Leg::Applied);
                let then = applied.any(|(_, at)| at.at == key.at.at);
                request.op == by && request.to == key.node && then
            })
        };
        let is_before = point(key.at) < granted || key.by.is_some_and(is_restored);
        key.change == KeyChange::Set && is_others && is_before
    });
    older.collect()
}

/// Since when a running node has been up.
fn up_since(table: &Table, node: &str, at: Point) -> Point {
    let own = outages(table).filter(|outage| outage.target == Target::Host(node.to_owned()));
    own.filter_map(|outage| outage.to.map(point)).filter(|to| *to <= at).max().unwrap_or((0, 0))
}

/// When a tenure last changed the resource, before it was given back.
fn wrote(table: &Table, began: u32) -> Option<Point> {
    let grants = table.tenure(began);
    let gives_back = |op: &&Op| match op.kind {
        OpKind::Release { grant } => {
            table.began(grant) == began && !table.has(began, stamp(op.call))
        }
        _ => false,
    };
    let given_back = table.history.ops.iter().filter(gives_back).map(|op| stamp(op.call)).min();
    let own = |access: &&Access| grants.iter().any(|op| access.grant == Some(op.id));
    let accesses = table.history.accesses.iter().filter(own);
    let writes = accesses.filter(|access| access.accepted && access.kind != AccessKind::Read);
    let mut guarded = writes.map(|access| point(access.at));
    guarded.rfind(|at| given_back.is_none_or(|back| *at < back))
}

/// A tenure's key and what its own caller's next acquires, or older releases, made of it.
fn followed(table: &Table, began: u32, born: usize) -> Vec<(usize, Point)> {
    let mut found = vec![(born, gone(table, began, born))];
    let keys = &table.history.keys;
    let next = end_of(table, born).filter(|end| {
        let there = [KeyChange::Set, KeyChange::Changed].contains(&keys[*end].change);
        let by = keys[*end].by.map(|by| table.op(by));
        there
            && by.is_some_and(|op| op.caller == table.op(began).caller && goes_on(table, op, began))
    });
    if let Some(next) = next.filter(|next| births(table).any(|born| born == *next)) {
        found.extend(followed(table, tenure_of(table, next).unwrap_or(began), next));
    }
    found
}

/// Whether an operation leaves a key of its caller in place: an acquire, or a release of another
/// grant, or of what was not granted.
fn goes_on(table: &Table, op: &Op, began: u32) -> bool {
    match op.kind {
        OpKind::Acquire => true,
        OpKind::Release { grant } => {
            let is_own = table.began(grant) == began && !table.tenure(began).is_empty();
            !is_own || table.has(began, stamp(op.call))
        }
        _ => false,
    }
}

/// Whether a node's clock shows at a point that a key's expiry is over.
fn is_over(table: &Table, born: usize, at: Point) -> bool {
    let keys = &table.history.keys;
    let end = end_of(table, born).unwrap_or(keys.len());
    let is_same =
        |index: &usize| keys[*index].node == keys[born].node && keys[*index].key == keys[born].key;
    let is_set = |index: &usize| is_same(index) && point(keys[*index].at) <= at;
    let set = (born..end).rfind(is_set).unwrap_or(born);
    let reading = table.reading(&keys[born].node, Clock::Wall, at) / i128::from(MILLISECOND);
    keys[set].until_ms.is_some_and(|until| reading > i128::from(until))
}

/// When a tenure's key is over: at its expiry, or when something other than its owner ended it.
fn gone(table: &Table, began: u32, born: usize) -> Point {
    let keys = &table.history.keys;
    let node = &keys[born].node;
    let next = |index: &usize| keys[*index].node == *node && keys[*index].key == keys[born].key;
    let (mut until, mut set, mut ended) = (keys[born].until_ms, born, (u64::MAX, 0));
    let mut end = (u64::MAX, 0);
    for index in (born + 1..keys.len()).filter(next) {
        let by = keys[index].by.map(|by| table.op(by));
        let whose = by.map(|op| match op.kind {
            OpKind::Extend { grant, .. } | OpKind::Release { grant } => table.began(grant),
            OpKind::Acquire => table.began(op.id),
            _ => op.id,
        });
        // A flush deletes by nobody's operation, some grants end inside a longer hold, and the
        // release of an acquire that was not granted ends none.
        let is_last = |op: &Op| {
            let grants = table.tenure(began);
            let lasts = grants.iter().any(|grant| table.holds(grant, stamp(op.call)));
            matches!(op.kind, OpKind::Release { .. }) && !grants.is_empty() && !lasts
        };
        let foreign = whose != Some(began) || !by.is_some_and(is_last);
        let is_there = stays(table, born, index);
        match keys[index].change {
            _ if is_there => (until, set) = (keys[index].until_ms, index),
            KeyChange::Evicted | KeyChange::LostAtRestart | KeyChange::LostAtFailover => {
                ended = point(keys[index].at);
            }
            KeyChange::Set | KeyChange::Deleted if foreign => ended = point(keys[index].at),
            KeyChange::Changed if marked_at(table, born, began).is_none() => {
                ended = point(keys[index].at)
            }
            _ => {}
        }
        if !is_there {
            end = point(keys[index].at);
            break;
        }
    }
    let passes = until.and_then(|until| passes(table, node, (point(keys[set].at), end), until));
    passes.unwrap_or((u64::MAX, 0)).min(ended)
}

/// When a key was really over.
fn over(table: &Table, born: usize) -> Point {
    let keys = &table.history.keys;
    let is_same =
        |index: &usize| keys[*index].node == keys[born].node && keys[*index].key == keys[born].key;
    let later: Vec<usize> = (born + 1..keys.len()).filter(is_same).collect();
    let end = later.iter().position(|index| !stays(table, born, *index));
    let ended = end.map_or((u64::MAX, 0), |place| point(keys[later[place]].at));
    let set = later[..end.unwrap_or(later.len())].last().copied().unwrap_or(born);
    let until = keys[set].until_ms;
    let passes = until
        .and_then(|until| passes(table, &keys[born].node, (point(keys[set].at), ended), until));
    passes.unwrap_or((u64::MAX, 0)).min(ended)
}

fn outages<'a>(table: &Table<'a>) -> impl Iterator<Item = &'a FaultInterval> {
    table
        .history
        .fault_intervals
        .iter()
        .filter(|interval| matches!(interval.verb, Verb::Crash | Verb::PowerLoss | Verb::Restart))
}

/// A halted node resumes at the end of the fault, or is started again after a death.
fn is_halted(table: &Table, node: &str, at: Point) -> bool {
    let here = |interval: &&FaultInterval| interval.target == Target::Host(node.to_owned());
    let halts = table.history.fault_intervals.iter().filter(|c| c.verb.halts()).filter(here);
    let mut lasting =
        halts.filter(|halt| point(halt.from) <= at && halt.to.is_none_or(|to| at < point(to)));
    lasting.any(|halt| {
        let mut deaths = outages(table).filter(here);
        !deaths.any(|death| point(halt.from) < point(death.from) && point(death.from) <= at)
    })
}

fn is_down(table: &Table, node: &str, at: Point) -> bool {
    let mut own = outages(table).filter(|outage| outage.target == Target::Host(node.to_owned()));
    own.any(|outage| point(outage.from) <= at && outage.to.is_none_or(|to| at < point(to)))
}
