//! Overtaken, and places that were left: the queue of a lock that promises to serve its waiters in
//! the order in which they joined it.
//!
//! An acquire overtakes another if it gets the lock on a node while the other stands before it in
//! the queue there and waits: its process is alive and not halted, and it has not returned.
//! A waiter gets the lock when its own acquire sets the key, or when a command of another hands the
//! key to it, or adds the member that its token names. An acquire without a place stands behind all
//! places that were taken before it was called. A waiter whose place was removed stands nowhere: a
//! queue may skip a waiter of which it does not hear. But if the acquire or the release of another
//! caller removed the place of a waiter of which the node had just heard, and did not hand it the
//! key, the waiter stands where it stood.
//!
//! A place is left if its acquire returned as refused, or if its grant was released. It is a leak
//! once it stood at the head, with the lock free, where a request of another caller's acquire met
//! it. It is excused if the last request of the refused acquire did not reach it, or was declined,
//! and somebody removed it in the end: that request may have been meant to remove it. So it is if a
//! late request of the acquire took it behind the release of the grant.

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::Leg;

use crate::check::case::Case;
use crate::check::verdict::{Kind, Violation};
use crate::history::{Op, OpKind, Outcome, Request};
use crate::reading::moment::Moment;
use crate::reading::queue::{QueuePlace, Standing, head, places};
use crate::reading::tries::KEYLESS;

/// One violation for each acquire that overtook another, and for each place that was left.
pub fn violations(case: &Case) -> Vec<Violation> {
    let Some(queue) = &case.terms.queue else { return Vec::new() };
    let places = places(case, queue);
    let grants = case.acquires().filter(|op| case.is_granted(op.id));
    let mut found: Vec<Violation> =
        grants.filter_map(|grant| overtaking(case, &places, grant)).collect();
    found.extend(places.iter().filter_map(|place| left(case, &places, place)));
    found
}

/// The first waiter that a grant overtook.
fn overtaking(case: &Case, places: &[QueuePlace], grant: &Op) -> Option<Violation> {
    let entries = case.lives.lives.iter().filter(|life| case.lets_in(life, grant));
    entries.into_iter().find_map(|entry| {
        let key = &case.history.keys[entry.born];
        let own = places.iter().rfind(|place| {
            place.waiter.id == grant.id && place.node == entry.node && place.from <= entry.from
        });
        let since = own.map_or(grant.call.into(), |own| own.joined);
        let waits = |place: &&QueuePlace| {
            place.node == entry.node
                && place.joined < since
                && case.caller(place.waiter.id) != case.caller(grant.id)
                && place.waiter.ret.is_none_or(|ret| entry.from < Moment::from(ret))
                && place.standing(case, entry.from) == Standing::Waits
                // Last, because it may read all requests.
                && place.stands(case, key)
        };
        let first = places.iter().find(waits)?;
        let removed = first.ended.filter(|_| first.is_gone(case, key));
        let keys = [Some(first.born), removed.map(|end| end.key), Some(entry.born)];
        Some(Violation {
            ops: vec![first.waiter.id, grant.id],
            keys: keys.into_iter().flatten().collect(),
            ..Violation::new(Kind::Overtaken, key.at, key.at)
        })
    })
}

/// The first acquire that a place kept out although nobody waited in it any more.
fn left(case: &Case, places: &[QueuePlace], place: &QueuePlace) -> Option<Violation> {
    let over = match place.waiter.outcome {
        Outcome::Refused { .. } if missed(case, place, place.waiter) => return None,
        Outcome::Refused { .. } => place.over(case)?,
        Outcome::Granted { .. } => {
            let mut releases = case.releases(place.waiter.id);
            let release = releases.find(|op| op.outcome == Outcome::Released)?;
            if joins_late(case, place, release) && missed(case, place, release) {
                return None;
            }
            release.ret?.into()
        }
        _ => return None,
    };
    let requests = case
        .history
        .requests
        .iter()
        .filter(|request| request.to == place.node && !request.declined && !request.other_keys);
    let met = requests.filter_map(|request| {
        let at = request.at(Leg::Applied)?;
        let victim = case.op(request.op)?;
        let counts = (victim.kind == OpKind::Acquire)
            && case.caller(victim.id) != case.caller(place.waiter.id);
        (counts && is_kept_out(case, places, (place, over), at.into())).then_some((at, victim))
    });
    let (at, victim) = met.min_by_key(|(at, _)| *at)?;
    Some(Violation {
        ops: vec![place.waiter.id, victim.id],
        keys: vec![place.born],
        ..Violation::new(Kind::Leak, at, at)
    })
}

/// Whether a request that its acquire had sent before the grant was released took a place.
fn joins_late(case: &Case, place: &QueuePlace, release: &Op) -> bool {
    let mut own = case.requests_of(place.waiter.id).iter().filter(|sent| sent.to == place.node);
    let is_before = |at: Instant| Moment::from(at) <= release.call.into();
    own.any(|request| {
        let joins = request.at(Leg::Applied).is_some_and(|at| at.at == place.from.at);
        joins && request.at(Leg::Sent).is_some_and(is_before)
    })
}

/// Whether the last request of an operation, which may have been meant to give up a place, did not
/// reach it, and the place is gone in the end.
fn missed(case: &Case, place: &QueuePlace, op: &Op) -> bool {
    let sent = case.requests_of(op.id).iter();
    let mut there = sent.filter(|sent| sent.to == place.node && !KEYLESS.contains(&&*sent.command));
    let reaches = |request: &Request| {
        let applied = request.at(Leg::Applied).filter(|_| !request.declined);
        applied.is_some_and(|at| place.is_there(at.into()))
    };
    place.ended.is_some() && there.next_back().is_some_and(|last| !reaches(last))
}

/// Whether a place that was over by then stood at the head of the queue, and the lock was free.
fn is_kept_out(
    case: &Case,
    places: &[QueuePlace],
    (place, over): (&QueuePlace, Moment),
    at: Moment,
) -> bool {
    let is_head = || head(places, place.node, at).is_some_and(|first| first.born == place.born);
    over < at && place.is_there(at) && is_head() && is_free(case, place.node, at)
}

/// Whether no key of the lock exists on a node at a moment.
fn is_free(case: &Case, node: &str, at: Moment) -> bool {
    let mut lives = case.lives.lives.iter().filter(|life| life.node == node);
    !lives.any(|life| life.from <= at && at < case.gone(life))
}
