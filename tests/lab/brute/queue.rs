//! The queue of waiters, from the definitions: who stands in it, who was passed, which place was
//! left. The histories give no key a time to live, and change none in place.

use std::collections::BTreeSet;

use lockstorm::history::{Key, OpKind, Outcome, Request};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::brute::table::{Point, Table, point, stamp};

const END: Point = (u64::MAX, u64::MAX);

/// A stretch in which a key or a member is on a node.
struct Stay {
    node: String,
    by: Option<u32>,
    from: Point,
    to: Point,
    /// The operation that ended it.
    remover: Option<u32>,
}

/// The stays of the members of the queue, or of the lock's key, in order.
fn stays(table: &Table, of: Option<&str>) -> Vec<Stay> {
    let keys = table.history.keys.iter();
    let own = keys.filter(|key| key.of.as_deref() == of && (of.is_some() || key.key == "lock"));
    let own: Vec<_> = own.collect();
    let sets = |change| change == KeyChange::Set;
    let born = own.iter().enumerate().filter(|(_, key)| sets(key.change));
    let stay = |(index, key): (usize, &&Key)| {
        let mut later = own[index + 1..].iter();
        let next = later.find(|later| later.node == key.node && later.key == key.key);
        let to = next.map_or(END, |next| point(next.at));
        let remover = next.and_then(|next| next.by);
        Stay { node: key.node.to_string(), by: key.by, from: point(key.at), to, remover }
    };
    born.map(stay).collect()
}

/// The stays of the queue's members that an acquire added.
fn places(table: &Table) -> Vec<Stay> {
    let mut places = stays(table, table.terms.queue.as_deref());
    let is_acquire = |by: &Option<u32>| by.is_some_and(|by| table.op(by).kind == OpKind::Acquire);
    places.retain(|place| is_acquire(&place.by));
    places
}

/// Whether an acquire waits at a point: it has not returned, and its process runs.
fn waits(table: &Table, acquire: u32, at: Point) -> bool {
    let op = table.op(acquire);
    let is_over = op.ret.is_some_and(|ret| stamp(ret) <= at);
    !is_over && !halted(table, &op.process, at) && !table.dies(&op.process, stamp(op.call), at)
}

fn halted(table: &Table, process: &str, at: Point) -> bool {
    table.history.fault_intervals.iter().any(|interval| {
        let from = point(interval.from);
        matches!(interval.verb, Verb::Pause | Verb::Suspend)
            && interval.target == Target::Host(process.to_owned())
            && from <= at
            && interval.to.is_none_or(|to| at < point(to))
            && !table.dies(process, from, at)
    })
}

/// Whether the place is there, or another's acquire removed it from a waiter that was just heard of
/// and still wants the lock.
fn stands(table: &Table, place: &Stay, at: Point) -> bool {
    let own = table.op(place.by.expect("an acquire"));
    let remover = place.remover.map(|id| table.op(id));
    let by_another =
        remover.is_some_and(|op| op.kind == OpKind::Acquire && op.caller != own.caller);
    let wants = !matches!(own.outcome, Outcome::Refused { .. } | Outcome::Unknown);
    let heard = || is_just_heard(table, place, place.to) && is_just_heard(table, place, at);
    place.from <= at && (at < place.to || by_another && wants && heard())
}

/// Whether the node did what the waiter asked no longer ago than the fastest of all requests from
/// there took, from its departure to the arrival of its reply.
fn is_just_heard(table: &Table, place: &Stay, at: Point) -> bool {
    let process = &table.op(place.by.expect("an acquire")).process;
    let when = |request: &Request, leg| {
        request.legs.iter().find(|(of, _)| *of == leg).map(|(_, at)| point(*at))
    };
    let there = |request: &&Request| request.from == **process && request.to == *place.node;
    let all: Vec<&Request> = table.history.requests.iter().filter(there).collect();
    let took = all.iter().filter_map(|request| {
        let (sent, read) = (when(request, Leg::Sent)?, when(request, Leg::Delivered)?);
        Some(read.0 - sent.0)
    });
    let Some(fastest) = took.min() else { return false };
    let own = all.iter().filter(|request| Some(request.op) == place.by && !request.declined);
    let mut done = own.filter_map(|request| when(request, Leg::Applied));
    done.any(|done| done <= at && at.0 <= done.0 + fastest)
}

/// Each grant that passed a waiter, with the waiter.
pub fn overtaken(table: &Table) -> BTreeSet<(u32, u32)> {
    let places = places(table);
    let mut found = BTreeSet::new();
    for grant in table.grants() {
        let entries = stays(table, None).into_iter().filter(|entry| entry.by == Some(grant.id));
        let passed = entries.filter_map(|entry| {
            let here = |place: &&Stay| place.node == entry.node;
            let mut own = places
                .iter()
                .filter(here)
                .filter(|place| place.by == Some(grant.id) && place.from <= entry.from);
            let since = own.next_back().map_or(stamp(grant.call), |own| own.from);
            let before = places.iter().filter(here).filter(|place| place.from < since);
            let by = |place: &Stay| place.by.expect("an acquire");
            let mut waiting = before.filter(|place| {
                stands(table, place, entry.from)
                    && table.op(by(place)).caller != grant.caller
                    && waits(table, by(place), entry.from)
            });
            waiting.next().map(by)
        });
        found.extend(passed.take(1).map(|waiter| (waiter, grant.id)));
    }
    found
}

/// Each place that was left and kept an acquire out, by when and by whom it was met first.
pub fn left(table: &Table) -> BTreeSet<(u32, Point, u32)> {
    let (places, lock) = (places(table), stays(table, None));
    let mut found = BTreeSet::new();
    for (index, place) in places.iter().enumerate() {
        let waiter = table.op(place.by.expect("an acquire"));
        let over = match waiter.outcome {
            Outcome::Refused { .. } => waiter.ret.map(stamp).filter(|_| !in_vain(table, place)),
            Outcome::Granted { .. } => released(table, waiter.id),
            _ => None,
        };
        let Some(over) = over else { continue };
        let met = table.history.requests.iter().filter_map(|request| {
            let at = request.legs.iter().find(|(leg, _)| *leg == Leg::Applied)?.1;
            let (op, at): (_, Instant) = (table.op(request.op), at);
            let there = |stay: &Stay| stay.from <= point(at) && point(at) < stay.to;
            let here = |stay: &Stay| stay.node == place.node;
            let is_first = !places[..index].iter().any(|ahead| here(ahead) && there(ahead));
            let is_free = !lock.iter().any(|key| here(key) && there(key));
            let meets = op.kind == OpKind::Acquire
                && op.caller != waiter.caller
                && request.to == *place.node
                && !request.declined
                && !request.other_keys;
            (meets && is_first && is_free && there(place) && over < point(at))
                .then_some((point(at), op.id))
        });
        found.extend(met.min().map(|(at, op)| (waiter.id, at, op)));
    }
    found
}

/// Whether the place was removed at last, and what its acquire asked the node last did nothing there
/// while the place existed.
fn in_vain(table: &Table, place: &Stay) -> bool {
    let mut requests = table.history.requests.iter();
    let is_own = |request: &&Request| Some(request.op) == place.by && request.to == *place.node;
    let Some(last) = requests.rfind(is_own) else { return false };
    let came = last.legs.iter().find(|(leg, _)| *leg == Leg::Applied).map(|(_, at)| point(*at));
    let is_done = came.is_some_and(|came| place.from <= came && came < place.to);
    place.to != END && (last.declined || !is_done)
}

/// When a grant was released for certain.
fn released(table: &Table, grant: u32) -> Option<Point> {
    let mut ops = table.history.ops.iter();
    let done = |outcome: &Outcome| *outcome == Outcome::Released;
    let release = ops.find(|op| op.kind == OpKind::Release { grant } && done(&op.outcome))?;
    release.ret.map(stamp)
}
