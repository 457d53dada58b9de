//! Callers that wait for each other: the acquire of each has a key of its group, and waits for one
//! that the acquire of the next has. All of these acquires are pending.

use lockstorm_platform::trace::KeyChange;

use crate::history::{Key, Op, OpKind};
use crate::reading::history::Reading;
use crate::reading::moment::Moment;

/// A pending acquire of a group in a circle.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The acquire.
    pub op: &'a Op,
    /// Its key that the acquire before it in the circle waits for.
    pub wanted: &'a str,
    /// Index of the change that set that key.
    pub set: usize,
}

/// Whether an acquire of a group is pending at a moment, and its process lives.
pub fn is_pending(reading: &Reading, op: &Op, at: Moment) -> bool {
    op.kind == OpKind::Acquire
        && !op.keys.is_empty()
        && Moment::from(op.call) <= at
        && op.ret.is_none_or(|ret| at < ret.into())
        && reading.death_after(&op.process, op.call.into()).is_none_or(|death| at < death.at)
}

/// The circle through an acquire at a moment, if each acquire in it waits for a key of the next.
pub fn circle<'a>(reading: &Reading<'a>, first: &'a Op, at: Moment) -> Option<Vec<Waiting<'a>>> {
    let mut circle: Vec<Waiting> = Vec::new();
    let mut op = first;
    loop {
        let found = op.keys.iter().find_map(|key| {
            let (set, by) = owner_of(reading, key, at)?;
            (by.id != op.id).then_some((key, set, by))
        });
        let (wanted, set, by) = found.filter(|(.., by)| is_pending(reading, by, at))?;
        circle.push(Waiting { op: by, wanted, set });
        if by.id == first.id {
            return Some(circle);
        }
        // A circle that does not lead back to its first acquire is found from another one.
        if circle.len() > reading.history.ops.len().min(64) {
            return None;
        }
        op = by;
    }
}

/// The parts of the time between two moments in which an acquire is in a circle, in order.
pub fn spans(reading: &Reading, op: &Op, (from, to): (Moment, Moment)) -> Vec<(Moment, Moment)> {
    if op.keys.is_empty() {
        return Vec::new();
    }
    let keys = reading.history.keys.iter().filter(|key| op.keys.iter().any(|own| key.key == *own));
    let turns = keys.map(|key| Moment::from(key.at)).filter(|at| from < *at && *at < to);
    let mut turns: Vec<Moment> = [from].into_iter().chain(turns).chain([to]).collect();
    turns.dedup();
    let mut spans: Vec<(Moment, Moment)> = Vec::new();
    for part in turns.windows(2).filter(|part| circle(reading, op, part[0]).is_some()) {
        match spans.last_mut().filter(|last| last.1 == part[0]) {
            Some(last) => last.1 = part[1],
            None => spans.push((part[0], part[1])),
        }
    }
    spans
}

/// The acquire that set a key which is there at a moment, and the change.
fn owner_of<'a>(reading: &Reading<'a>, name: &str, at: Moment) -> Option<(usize, &'a Op)> {
    let keys = reading.history.keys.iter().enumerate();
    let own = |(_, key): &(usize, &Key)| key.of.is_none() && key.key == *name;
    let mut own = keys.filter(own).filter(|(_, key)| Moment::from(key.at) <= at);
    let (index, key) = own.next_back().filter(|(_, key)| key.change == KeyChange::Set)?;
    Some((index, reading.op(key.by?)?))
}
