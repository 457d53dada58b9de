//! Keys without an owner for which the lock is not to blame: see [`crate::check::leak`].

use lockstorm_platform::time::{Clock, Instant, Nanos};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::case::Case;
use crate::check::leak::entry::keeps_a_lost_entry;
use crate::check::leak::hand_over::may_be_for_a_waiter;
use crate::check::leak::leftover::Leftover;
use crate::history::{Key, Op, OpId, OpKind, Request};
use crate::reading::key_life::KeyLife;
use crate::reading::moment::Moment;

/// Whether the lock is not to blame when an acquire meets a key without an owner.
pub fn is_excused(case: &Case, leftover: &Leftover, op: &Op, moment: Moment) -> bool {
    if is_held_in_another_tenure(case, leftover, op, moment)
        || has_ttl(leftover, moment) && may_be_for_a_waiter(case, leftover, op)
    {
        return true;
    }
    let owner = case.caller(leftover.owner);
    let holds = case.holds.iter().filter(|hold| hold.owner == owner);
    let mut holds = holds.filter(|hold| hold.start <= moment && moment < hold.end);
    let is_denied = leftover.denied.is_some_and(|denied| denied <= moment);
    if is_denied && !keeps_a_lost_entry(case, leftover, moment) {
        return holds.any(|hold| shares(case, leftover.key, hold.grant));
    }
    let is_bounded = has_ttl(leftover, moment)
        || is_bounded_member(case, leftover, moment)
        || is_taken_over(case, leftover.key, leftover.owner)
        || was_freed_without_an_answer(case, leftover.key, leftover.owner)
        || was_not_requested_after_its_lease(case, leftover);
    if !is_bounded {
        return holds.next().is_some();
    }
    let Some(op) = case.op(leftover.owner) else { return false };
    let death = case.death_after(&op.process, op.call.into());
    is_denied || leftover.freed || death.is_some_and(|death| death.at <= moment)
}

/// Whether an acquire changed the key: the grants of a re-entrant owner share one key.
fn shares(case: &Case, key: &KeyLife, acquire: OpId) -> bool {
    let mut touches =
        case.lives.touches.iter().filter(|touch| case.lives.lives[touch.met].born == key.born);
    touches.any(|touch| case.history.keys[touch.change].by == Some(acquire))
}

/// Whether another acquire, of any caller, deleted this key, or replaced or took it over and was
/// not refused: one that finds it over may delete it, and take the lock by its next try. If an
/// operation of the owner replaced the key, its new key is judged instead, including its end by a
/// late release of the owner.
fn is_taken_over(case: &Case, key: &KeyLife, owner: OpId) -> bool {
    let takes = |change| matches!(change, KeyChange::Set | KeyChange::Changed | KeyChange::Deleted);
    let Some(end) = key.ended.filter(|end| takes(end.change)) else { return false };
    let Some(by) = end.by.and_then(|by| case.op(by)) else { return false };
    if case.owner(by.id) == Some(owner) {
        let next = case.lives.lives.iter().find(|next| next.born == end.key);
        return next.is_some_and(|next| {
            is_taken_over(case, next, owner) || was_freed_without_an_answer(case, next, owner)
        });
    }
    by.kind == OpKind::Acquire && (end.change == KeyChange::Deleted || !by.is_refused())
}

/// Whether the key had an expiry at that moment.
fn has_ttl(leftover: &Leftover, moment: Moment) -> bool {
    let last = leftover.last_change(|at| at <= moment);
    last.is_some_and(|change| change.until_ms.is_some())
}

/// Whether the value of a member may have bounded it, as the score of a sorted set does: a lease
/// had not passed since its last change, or an acquire removed it in the end.
fn is_bounded_member(case: &Case, leftover: &Leftover, moment: Moment) -> bool {
    let last = leftover.last_change(|at| at <= moment).map_or(0, |last| last.at.at);
    let is_swept = || {
        let end = leftover.key.ended.filter(|end| end.change == KeyChange::Deleted);
        let by = end.and_then(|end| case.op(end.by?));
        by.is_some_and(|by| by.kind == OpKind::Acquire)
    };
    case.by_member && (moment.at < last.saturating_add(case.terms.longest_ttl) || is_swept())
}

/// Whether a caller other than the one that meets the key holds the lock within its lease, in
/// another tenure than the key's, and this key was set over the holder's: the holder's key would
/// have kept the others out as well.
fn is_held_in_another_tenure(case: &Case, leftover: &Leftover, op: &Op, moment: Moment) -> bool {
    let mut others = case.holds.iter().filter(|hold| {
        hold.owner != case.caller(op.id) && !case.are_one(hold.grant, leftover.owner)
    });
    others.any(|hold| {
        let is_held = hold.start <= moment && moment < hold.end;
        let is_covered = hold.covered.iter().any(|(from, to)| *from <= moment && moment < *to);
        is_held && is_covered && stands_on_a_key_of(case, leftover.key, hold.grant)
    })
}

/// Whether a key was set over a key of a grant's tenure, directly or over others in between.
fn stands_on_a_key_of(case: &Case, key: &KeyLife, grant: OpId) -> bool {
    let ends_at = |born: usize| {
        let mut lives = case.lives.lives.iter();
        lives.find(|life| life.ended.is_some_and(|end| end.key == born))
    };
    let mut below = ends_at(key.born);
    while let Some(life) = below {
        let owner = life.by.and_then(|by| case.owner(by));
        if owner.is_some_and(|owner| case.are_one(owner, grant)) {
            return true;
        }
        below = ends_at(life.born);
    }
    false
}

/// Whether a key of a lock with a lease was removed by a fault, or stays though its owner released
/// it, and no acquire requested it after a lease had passed since its last change: nobody can know
/// whether its value bounded it.
fn was_not_requested_after_its_lease(case: &Case, leftover: &Leftover) -> bool {
    let (key, Some(ttl)) = (leftover.key, case.terms.ttl) else { return false };
    let until = match key.ended {
        Some(_) => removed_at(case, key),
        None => Some(Nanos::MAX).filter(|_| is_released(case, leftover.owner)),
    };
    let last = leftover.last_change(|at| at < key.to);
    let (Some(until), Some(last)) = (until, last) else { return false };
    let due = last.at.at.saturating_add(ttl);
    let acquire = |id: OpId| case.op(id).filter(|op| op.kind == OpKind::Acquire);
    let requests = |request: &Request| {
        let came = request.at(Leg::Applied).filter(|at| request.to == key.node && at.at < until);
        // A lock may read a clock before it sends its request.
        let sent = came.and(request.at(Leg::Sent)).filter(|sent| due <= sent.at);
        let by = sent.and_then(|sent| Some((acquire(request.op)?, sent)));
        by.is_some_and(|by| is_over(case, last, by, ttl))
    };
    // If no requests are recorded, it is not known when an acquire sent its own.
    let calls = |op: &Op| {
        let returned = op.ret.map_or(Nanos::MAX, |ret| ret.at);
        acquire(op.id).is_some() && due <= returned && due.max(op.call.at) < until
    };
    match case.history.requests.is_empty() {
        true => !case.history.ops.iter().any(calls),
        false => !case.history.requests.iter().any(requests),
    }
}

/// Whether a value that counts a lease from a change on is over when an acquire asks, by the clocks
/// that a lock may compare: those of the two callers, or that of the node.
fn is_over(case: &Case, last: &Key, (op, at): (&Op, Instant), ttl: Nanos) -> bool {
    let wall = |host: &str, at: Instant| {
        let line = case.clocks.line(host, Clock::Wall, at.into());
        line.map(|line| line.at(at.at))
    };
    let passed = |from: Option<Nanos>, to: Option<Nanos>| {
        from.zip(to).is_none_or(|(from, to)| from.saturating_add(ttl) <= to)
    };
    let owner = last.by.and_then(|by| case.op(by));
    let by_callers =
        owner.is_none_or(|owner| passed(wall(&owner.process, last.at), wall(&op.process, at)));
    by_callers && passed(wall(&last.node, last.at), wall(&last.node, at))
}

/// When a fault removed a key: of one that a node lost as it died, when its start shows that, since
/// a dead node carries out no request.
fn removed_at(case: &Case, key: &KeyLife) -> Option<Nanos> {
    let end = key.ended?;
    let removes = [KeyChange::LostAtRestart, KeyChange::LostAtFailover, KeyChange::Evicted];
    let is_removed = removes.contains(&end.change)
        || case.removers(&case.history.keys[end.key]).next().is_some();
    is_removed.then_some(key.to.at)
}

/// Whether a caller released an acquire, or the tenure to which it belongs.
fn is_released(case: &Case, owner: OpId) -> bool {
    let mut own = case.ops_of(owner).chain(case.releases(owner));
    own.any(|op| matches!(op.kind, OpKind::Release { .. }))
}

/// Whether a release of its owner with an unknown outcome deleted a key, or wrote over it that the
/// lock is free.
fn was_freed_without_an_answer(case: &Case, key: &KeyLife, owner: OpId) -> bool {
    let frees = |change| matches!(change, KeyChange::Deleted | KeyChange::Set | KeyChange::Changed);
    let by = key.ended.filter(|end| frees(end.change));
    let by = by.and_then(|end| case.op(end.by?));
    by.is_some_and(|by| match by.kind {
        OpKind::Release { grant } => by.has_no_answer() && case.are_one(grant, owner),
        _ => false,
    })
}
