//! A key made an acquire fail if it existed when one of the acquire's tries was applied, and the
//! reply to that try was not lost. A try begins with the first request that may name the key and
//! that the node did not decline, and again whenever a command of the try is repeated. A try that
//! ended with an error or without a reply, or that met a replica, failed for that reason. One that
//! met the key first, and went on after another acquire had set its own key over it, lost to that
//! acquire: the value let somebody in. Of an acquire that queries
//! several nodes, only the first try counts. So it does not matter whether an acquire that had to
//! wait is refused or granted in the end, unless it is granted by taking over the key. A key that
//! its owner's release set or changed in place may say that the lock is free, or whose it is. It
//! made a try fail only if every request of the try met it, before another acquire made it its own,
//! nobody was let in by it, no other waiter stood first in a queue, and no other tenure had a
//! further key of the acquire's group. Of several tries the last does not count there: it may be
//! the clean-up of an acquire that has come to the end of its patience.

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::case::Case;
use crate::check::leak::hand_over::{has_another_reason, is_let_in};
use crate::check::leak::leftover::Leftover;
use crate::check::leak::requests::{deletes, tried};
use crate::history::{Op, OpKind, Request};
use crate::reading::moment::Moment;
use crate::reading::tries::{KEYLESS, Met, tries};

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
    let nexts: Vec<_> = tries.iter().skip(1).map(|next| tried(next[0])).collect();
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
        let until = nexts.get(place).copied().flatten();
        let is_cut_short = is_lost(case, first) || is_cut_short(case, requests, (first, until));
        // A replica lets nobody in, whatever keys it has.
        let follows = |at| case.follows(leftover.key.node, at);
        let is_copy = first.at(Leg::Applied).is_some_and(follows);
        if is_cut_short || is_copy || attempt.iter().any(|request| request.declined) {
            return None;
        }
        let mut applied = attempt.iter().filter_map(|request| request.at(Leg::Applied));
        let is_over = applied.any(|at| Moment::from(at) >= to);
        // A request that is sent again after the acquire has returned made no acquire fail.
        let moment = Moment::from(first.at(Leg::Applied)?);
        let says_free = || is_over || is_let_in(case, leftover, op, moment);
        let cleans_up = was_last && place > 0;
        let is_other = || cleans_up || has_another_reason(case, op, leftover.key.node, moment);
        let is_outrun = is_over && was_taken_by_another(case, leftover, op);
        let is_met = !(is_outrun || is_marked(moment) && (says_free() || is_other()));
        let meets = is_met && from <= moment && moment < to && moment <= returned;
        meets.then_some(Met { at: moment, was_last })
    };
    tries.into_iter().enumerate().filter_map(meets).collect()
}

/// Whether the caller had no reply to a request, as far as replies are recorded: a node may have
/// sent none, if its connection was reset as it carried the request out.
fn is_lost(case: &Case, request: &Request) -> bool {
    let is_silent = request.at(Leg::Replied).is_some() || request.at(Leg::Applied).is_none();
    let is_recorded = || case.history.requests.iter().any(Request::is_answered);
    !request.is_answered() && (is_silent || is_recorded())
}

/// Whether a later step of the try that a request began, up to the next try, had no reply: what the
/// try would have decided is not known. A deletion or a script may only clean up after a try that
/// has failed. A transaction begins with a command that names no key.
fn is_cut_short(
    case: &Case,
    requests: &[&Request],
    (first, next): (&Request, Option<Instant>),
) -> bool {
    let mut later = requests.iter().filter(|request| {
        let is_before = |next| tried(request).is_some_and(|at| at < next);
        request.to == first.to && tried(first) < tried(request) && next.is_none_or(is_before)
    });
    later.any(|request| {
        let names_key = !request.other_keys && !KEYLESS.contains(&&*request.command);
        let decides = request.command == "EXEC" || !request.is_script() && !deletes(request);
        let is_step = names_key && decides || request.command == "MULTI";
        is_step && is_lost(case, request)
    })
}

/// Whether another acquire than the owner and the one that meets the key set its own over it, or
/// made it its own in place.
fn was_taken_by_another(case: &Case, leftover: &Leftover, op: &Op) -> bool {
    let takes = [KeyChange::Set, KeyChange::Changed];
    let end = leftover.key.ended.filter(|end| takes.contains(&end.change));
    let by = end.and_then(|end| case.op(end.by?)).filter(|by| by.kind == OpKind::Acquire);
    by.is_some_and(|by| by.id != op.id && !case.are_one(by.id, leftover.owner))
}
