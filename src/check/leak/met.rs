//! A key made an acquire fail if it existed when one of the acquire's tries was applied, and the
//! reply to that try was not lost. A try begins with the first request that may name the key and
//! that the node did not decline, and again whenever a command of the try is repeated. A try that
//! ended with an error, or that met a replica, failed for that reason. Of an acquire that queries
//! several nodes, only the first try counts. So it does not matter whether an acquire that had to
//! wait is refused or granted in the end, unless it is granted by taking over the key. A key that
//! its owner's release set or changed in place may say that the lock is free, or whose it is. It
//! made a try fail only if every request of the try met it, before another acquire made it its own,
//! nobody was let in by it, no other waiter stood first in a queue, and no other tenure had a
//! further key of the acquire's group. Of several tries the last does not count there: it may be
//! the clean-up of an acquire that has come to the end of its patience.

use lockstorm_platform::trace::Leg;

use crate::check::case::Case;
use crate::check::leak::hand_over::{has_another_reason, is_let_in};
use crate::check::leak::leftover::Leftover;
use crate::history::{Op, Request};
use crate::reading::moment::Moment;
use crate::reading::tries::{Met, tries};

/// When the tries of an acquire met the leftover and failed. If no requests are recorded, any
/// moment of a refused acquire counts.
pub fn met(case: &Case, leftover: &Leftover, requests: &[&Request], op: &Op) -> Vec<Met> {
    let (from, to) = (leftover.from, leftover.key.to);
    let is_marked = |at: Moment| leftover.marked.is_some_and(|marked| marked <= at);
    let returned = op.ret.map_or(Moment::NEVER, Moment::from);
    // First, because there may be many of both.
    if returned < from || to <= op.call.into() {
        return Vec::new();
    }
    if case.history.requests.is_empty() {
        let moment = from.max(op.call.into());
        let is_alone = || !has_another_reason(case, op, leftover.key.node, moment);
        let is_met = !is_marked(moment) || from <= op.call.into() && returned < to && is_alone();
        let meets = op.is_refused() && is_met && moment < to && moment <= returned;
        return meets.then_some(Met { at: moment, was_last: true }).into_iter().collect();
    }
    // Taking a key over is no failure, unless a release had reported the key as removed.
    let is_wrong = leftover.denied.is_some() && leftover.marked.is_none();
    if leftover.key.ended.is_some_and(|end| end.by == Some(op.id)) && !is_wrong {
        return Vec::new();
    }
    let mut tries = tries(requests, leftover.key.node);
    if !case.terms.queries_one_node() {
        tries.truncate(1);
    }
    let count = tries.len();
    let meets = |(place, attempt): (usize, Vec<&Request>)| {
        let was_last = place + 1 == count;
        // The last try of an acquire that was not refused may have been granted.
        if was_last && !op.is_refused() {
            return None;
        }
        let first = attempt.first()?;
        let is_lost = first.at(Leg::Replied).is_some() && !first.is_answered();
        // A replica lets nobody in, whatever keys it has.
        let follows = |at| case.follows(leftover.key.node, at);
        let is_copy = first.at(Leg::Applied).is_some_and(follows);
        if is_lost || is_copy || attempt.iter().any(|request| request.declined) {
            return None;
        }
        let mut applied = attempt.iter().filter_map(|request| request.at(Leg::Applied));
        let is_over = applied.any(|at| Moment::from(at) >= to);
        // A request that is sent again after the acquire has returned made no acquire fail.
        let moment = Moment::from(first.at(Leg::Applied)?);
        let says_free = || is_over || is_let_in(case, leftover, op, moment);
        let cleans_up = was_last && place > 0;
        let is_other = || cleans_up || has_another_reason(case, op, leftover.key.node, moment);
        let is_met = !(is_marked(moment) && (says_free() || is_other()));
        let meets = is_met && from <= moment && moment < to && moment <= returned;
        meets.then_some(Met { at: moment, was_last })
    };
    tries.into_iter().enumerate().filter_map(meets).collect()
}
