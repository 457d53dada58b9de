//! Keys that a release set or changed: for another caller, or to say that the lock is free.

use lockstorm_platform::time::{Clock, MILLISECOND};

use crate::check::case::Case;
use crate::check::leak::leftover::Leftover;
use crate::history::{Key, Op, OpKind, Outcome};
use crate::reading::key_life::KeyLife;
use crate::reading::moment::Moment;

/// Whether an acquire that met a key on a node may have failed for another reason: another waiter
/// had joined a queue there before it, or another tenure had a further key of its group.
pub fn has_another_reason(case: &Case, op: &Op, node: &str, at: Moment) -> bool {
    stands_behind(case, op, node, at) || lacks_another_key(case, op, node, at)
}

fn stands_behind(case: &Case, op: &Op, node: &str, at: Moment) -> bool {
    let is_there = |place: &&KeyLife| place.node == node && place.from <= at && at < place.to;
    let first = case.places.iter().find(is_there);
    first.is_some_and(|first| first.by.is_some_and(|by| by != op.id))
}

fn lacks_another_key(case: &Case, op: &Op, node: &str, at: Moment) -> bool {
    let others = op.keys.iter().filter(|key| *key != case.lock_key);
    let mut last = others.filter_map(|name| {
        let changes = case.history.keys.iter().take_while(|key| Moment::from(key.at) <= at);
        let is_it = |key: &&Key| key.node == node && key.key == *name && key.of.is_none();
        changes.filter(is_it).last().filter(|last| last.change.leaves_key())
    });
    let wall_ms = case.clocks.line(node, Clock::Wall, at).map(|line| line.at(at.at) / MILLISECOND);
    last.any(|key| {
        let is_over = key.until_ms.zip(wall_ms).is_some_and(|(until, now)| until < now);
        let owner = key.by.and_then(|by| case.owner(by));
        !is_over && owner.is_some_and(|owner| !case.are_one(owner, op.id))
    })
}

/// Whether another acquire got the lock by a key that a release had set or changed, and had it at
/// that moment or was on its way to it: a lock may be handed on.
pub fn is_let_in(case: &Case, leftover: &Leftover, op: &Op, moment: Moment) -> bool {
    let mut holds = case.holds.iter().filter(|hold| ![leftover.owner, op.id].contains(&hold.grant));
    // An acquire whose outcome is unknown may have made the key its own, too.
    let mut touches = case
        .lives
        .touches
        .iter()
        .filter(|touch| case.lives.lives[touch.met].born == leftover.key.born);
    let takes = touches.any(|touch| {
        let change = &case.history.keys[touch.change];
        let by = change.by.and_then(|by| case.op(by)).filter(|by| by.kind == OpKind::Acquire);
        let is_other = by.is_some_and(|by| ![leftover.owner, op.id].contains(&by.id));
        is_other
            && Moment::from(change.at) <= moment
            && change.until_ms.is_some()
            && by.is_some_and(Op::has_no_answer)
    });
    takes
        || holds.any(|hold| {
            let call = case.op(hold.grant).map_or(Moment::NEVER, |op| op.call.into());
            // Until its release returns, the key is still the holder's.
            let back = case.endings(hold.grant).filter_map(|ending| ending.done).min();
            let over = back.map_or(hold.end, |back| back.max(hold.end));
            let by = leftover.key.ended.and_then(|end| end.by);
            let is_of_key = hold.start < leftover.key.to || by == Some(hold.grant);
            call <= moment && moment < over && is_of_key
        })
}

/// Whether an operation that gave up the lock set this key while an acquire waited that is neither
/// its owner nor the one that meets the key: it may be for that waiter, which learns of it later,
/// or dies. A promised queue shows for whom a key is; then it is the waiter's own.
pub fn may_be_for_a_waiter(case: &Case, leftover: &Leftover, op: &Op) -> bool {
    let key = leftover.key;
    let by = key.by.and_then(|by| case.op(by));
    let waits = |other: &Op| {
        let is_over = other.ret.is_some_and(|ret| Moment::from(ret) <= key.from);
        let mut asked = case.commands(other.id, key.node);
        // An acquire with an unknown outcome may have left its place.
        (!is_over || other.outcome == Outcome::Unknown)
            && asked.any(|at| Moment::from(at) < key.from)
    };
    let mut others = case.acquires().filter(|other| ![leftover.owner, op.id].contains(&other.id));
    by.is_some_and(|by| passes_on(case, key, by)) && others.any(waits)
}

/// Whether an operation that set a key gave up the lock by that: it is a release, or an acquire
/// without a grant that had the key before.
pub fn passes_on(case: &Case, key: &KeyLife, by: &Op) -> bool {
    let had = || {
        let ended = |life: &KeyLife| life.ended.is_some_and(|end| end.key == key.born);
        case.lives.lives.iter().any(|life| life.by == key.by && ended(life))
    };
    match by.kind {
        OpKind::Release { .. } => true,
        OpKind::Acquire => !case.is_granted(by.id) && had(),
        _ => false,
    }
}
