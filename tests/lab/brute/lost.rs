//! Keys that were lost early, change by change, from the definitions of the table.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::history::{Op, OpKind, Outcome};
use lockstorm_platform::trace::KeyChange;

use crate::brute::damage::{handed_on, passes, stays};
use crate::brute::table::{Point, Table, point, stamp};

/// Each expiry of a life, with the operation that set it.
type Ends = Vec<(Option<u64>, Option<u32>)>;

/// A life of the key on a node.
struct Life {
    /// The tenure that owns the key.
    began: Option<u32>,
    born: usize,
    /// The change that set its last expiry.
    changed: usize,
    ends: Ends,
    /// The change that ended it.
    ended: Option<usize>,
}

/// Grants whose key was lost early, with the change that ended the decisive one.
pub fn lost_early(table: &Table) -> Vec<(u32, usize)> {
    if table.may_meet() {
        return Vec::new();
    }
    let lives = lives(table);
    let gone: Vec<Point> = lives.iter().map(|life| gone(table, life)).collect();
    let mut found = BTreeSet::new();
    for grant in table.grants() {
        let began = table.began(grant.id);
        let Some((at, index)) = decisive(table, &lives, &gone, grant) else { continue };
        let life = &lives[index];
        let Some(ended) = life.ended else { continue };
        let key = &table.history.keys[ended];
        let ender = key.by.filter(|_| key.change != KeyChange::Expired).map(|by| table.op(by));
        let by_command = ender.is_some_and(|op| {
            let acquire = match op.kind {
                OpKind::Extend { grant, .. }
                | OpKind::Release { grant }
                | OpKind::Lost { grant } => grant,
                _ => op.id,
            };
            let gives_back = matches!(op.kind, OpKind::Release { .. });
            let is_own = table.began(acquire) == began && !gives_back && !promised(table, op, at);
            op.caller != table.op(began).caller || is_own
        });
        if !by_command && !is_shortened(table, began, &life.ends, at) {
            found.extend(loser(table, began, at).map(|grant| (grant, ended)));
        }
    }
    found.into_iter().collect()
}

/// When too few of a tenure's keys were left for the first time since a grant was called, while it
/// was covered, and whose end that was. Before the grant returns, only the keys left then count.
fn decisive(table: &Table, lives: &[Life], gone: &[Point], grant: &Op) -> Option<(Point, usize)> {
    let quorum = table.terms.site.quorum as usize;
    let spare = table.terms.site.queried.saturating_sub(table.terms.site.quorum) as usize;
    let began = table.began(grant.id);
    let returned = stamp(grant.ret?);
    // A late key of an earlier acquire of the caller keeps others out as well.
    let caller = &table.op(began).caller;
    let is_callers = |life: &Life| {
        let born = &table.history.keys[life.born];
        let left = born.by.filter(|_| born.change == KeyChange::Changed);
        life.began.or(left).is_some_and(|of| table.op(of).caller == *caller)
    };
    let own = (0..lives.len()).filter(|life| is_callers(&lives[*life]));
    let mut own: Vec<usize> = own.filter(|life| gone[*life] >= stamp(grant.call)).collect();
    own.sort_by_key(|life| gone[*life]);
    let mut moments: Vec<(Point, Point, usize)> = Vec::new();
    for life in own {
        let end = gone[life];
        if table.keeps(began, end) {
            moments.push((end, end, life));
        } else if end < returned {
            moments.retain(|(at, before, _)| *at != returned || *before >= returned);
            moments.push((returned, end, life));
        }
    }
    moments.sort_unstable();
    let few = |at: Point| {
        let left = (0..lives.len()).filter(|other| {
            let born = point(table.history.keys[lives[*other].born].at);
            is_callers(&lives[*other]) && born.0 <= at.0 && at < gone[*other]
        });
        let nodes = left.map(|life| &table.history.keys[lives[life].born].node);
        let nodes = nodes.collect::<BTreeSet<_>>().len();
        // Below a majority, a whole quorum of its own never kept another caller from one.
        nodes <= spare && nodes < quorum
    };
    let mut moments = moments.into_iter().map(|(at, _, life)| (at, life));
    moments.find(|(at, _)| few(*at) && table.keeps(began, *at))
}

/// When a key no longer exists: its node's clock is past its expiry, or it was ended earlier.
fn gone(table: &Table, life: &Life) -> Point {
    let key = &table.history.keys[life.changed];
    let until = life.ends.last().and_then(|(until, _)| *until);
    let ended = life.ended.map(|index| point(table.history.keys[index].at));
    let never = (u64::MAX, u64::MAX);
    let ended = ended.unwrap_or(never);
    let stretch = (point(key.at), ended);
    let passes = until.and_then(|until| passes(table, &key.node, stretch, until));
    ended.min(passes.unwrap_or(never))
}

/// Whether the latest change of the expiry shortened it, by an operation of the tenure that
/// promised no more.
fn is_shortened(table: &Table, began: u32, ends: &Ends, at: Point) -> bool {
    let known: Vec<(u64, Option<u32>)> =
        ends.iter().filter_map(|(until, by)| Some(((*until)?, *by))).collect();
    let mut changes = known.windows(2).filter(|pair| pair[0].0 != pair[1].0);
    let Some([(before, _), (last, Some(by))]) = changes.next_back() else { return false };
    let op = table.op(*by);
    last < before && table.owner(op) == Some(began) && !promised(table, op, at)
}

/// Whether an operation returned a lease that was still running at a point.
fn promised(table: &Table, op: &Op, at: Point) -> bool {
    let (Outcome::Granted { deadline, .. } | Outcome::Kept { deadline }) = op.outcome else {
        return false;
    };
    deadline.is_none_or(|(clock, until)| table.reading(&op.process, clock, at) < i128::from(until))
}

/// Every life of the lock's key, in the order of their births.
fn lives(table: &Table) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    let mut alive: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, key) in table.history.keys.iter().enumerate() {
        if key.key != table.terms.lock_key {
            continue;
        }
        let there = alive.get(key.node.as_str()).copied();
        let end = (key.until_ms, key.by);
        if let Some(life) = there.filter(|life| stays(table, lives[*life].born, index)) {
            lives[life].ends.push(end);
            lives[life].changed = index;
            continue;
        }
        if let Some(life) = alive.remove(key.node.as_str()) {
            lives[life].ended = Some(index);
        }
        if matches!(key.change, KeyChange::Set | KeyChange::Changed | KeyChange::Extended) {
            let by = key.by.filter(|_| key.change != KeyChange::Extended);
            let by = handed_on(table, key).or(by);
            let began = by.and_then(|by| table.owner(table.op(by)));
            alive.insert(&key.node, lives.len());
            lives.push(Life { began, born: index, changed: index, ends: vec![end], ended: None });
        }
    }
    lives
}

/// The first grant that covered its tenure at a point, if no other caller held until nothing
/// covered the tenure any more.
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
