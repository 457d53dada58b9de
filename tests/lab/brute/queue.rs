//! The queue of waiters, from the definitions: who stands in it, who was passed, which place was
//! left. The histories give no key a time to live, and change none in place.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::history::{Key, Op, OpKind, Outcome, Request};
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
    /// The operation whose command began it.
    setter: Option<u32>,
    /// The operation that ended it.
    remover: Option<u32>,
}

impl Stay {
    /// Whether a command of an operation ended it at a time.
    fn is_ended_by(&self, by: Option<u32>, at: Point) -> bool {
        self.remover == by && self.to.0 == at.0 && self.to != END
    }
}

/// The stays of the members of the queue, or of the lock's key, in order. A key that was handed on
/// is the waiter's.
fn stays(table: &Table, of: Option<&str>) -> Vec<Stay> {
    let mut stays = stays_as_set(table, |key| match of {
        Some(of) => key.of.as_deref() == Some(of),
        None => key.of.is_none() && key.key == "lock",
    });
    for stay in stays.iter_mut().filter(|_| of.is_none()) {
        let mut keys = table.history.keys.iter();
        let set = keys.find(|key| is_of_lock(key) && point(key.at) == stay.from);
        stay.by = set.and_then(|set| handed_to(table, set)).or(stay.by);
    }
    stays
}

/// The waiter for which a change set the key, or changed it where it is.
pub fn handed_to(table: &Table, key: &Key) -> Option<u32> {
    let found = table.handed_on.get_or_init(|| handed_on(table));
    found.get(&point(key.at)).copied().filter(|_| is_of_lock(key))
}

/// Every change that handed the key on, with the waiter. What a release had set on another node
/// before is the same's.
fn handed_on(table: &Table) -> BTreeMap<Point, u32> {
    let places = stays_as_set(table, |key| key.of.as_deref().is_some_and(|of| of != "lock"));
    let (has_queue, mut found) = (!places.is_empty(), BTreeMap::new());
    // Whose the key is on each node; without a queue, only if it was handed on.
    let mut has: BTreeMap<&str, u32> = BTreeMap::new();
    let mut released: BTreeMap<u32, u32> = BTreeMap::new();
    let mut known: Vec<(u32, Option<u64>, Option<u32>)> = Vec::new();
    let mut setters: BTreeMap<&str, (u32, Option<u32>)> = BTreeMap::new();
    for key in table.history.keys.iter().filter(|key| is_of_lock(key)) {
        let owner = has.remove(key.node.as_str());
        let counts = key.change == KeyChange::Set || key.change == KeyChange::Changed && has_queue;
        let by = key.by.filter(|_| counts);
        let to = by.and_then(|by| {
            let here = commands(table, table.op(by), &key.node).iter().any(|at| at.0 == key.at.at);
            let sets = |found: &&(u32, Option<u64>, Option<u32>)| found.0 == by;
            let own: Vec<_> = known.iter().filter(sets).collect();
            let same = own.iter().rfind(|set| set.1 == key.until_ms).or(own.last());
            match same {
                // The same on another node: a copy.
                Some(set) if !here => set.2,
                _ => {
                    let before = released.get(&by).copied();
                    taker(table, key, owner == Some(by)).or(before)
                }
            }
        });
        // Whatever changes the key on a node where an operation has set it gives it an expiry.
        let setter = by.map(|by| (by, to)).or(setters.get(key.node.as_str()).copied());
        known.extend(setter.map(|(by, to)| (by, key.until_ms, to)));
        setters.extend(setter.map(|setter| (key.node.as_str(), setter)));
        if let (Some(by), Some(to)) = (by, to) {
            found.insert(point(key.at), to);
            if matches!(table.op(by).kind, OpKind::Release { .. }) {
                released.entry(by).or_insert(to);
            }
        }
        let next = match key.change {
            KeyChange::Set if has_queue => to.or(key.by),
            KeyChange::Set => to,
            KeyChange::Changed | KeyChange::Extended => to.or(owner),
            _ => None,
        };
        has.extend(next.map(|next| (key.node.as_str(), next)));
    }
    found
}

/// Whether another operation than this has the first place in the queue of a node at a point.
pub fn is_behind(table: &Table, id: u32, node: &str, at: Point) -> bool {
    let places = stays_as_set(table, |key| key.of.as_deref().is_some_and(|of| of != "lock"));
    let mut there = places.iter().filter(|place| place.from <= at && at < place.to);
    let first = there.find(|place| place.node == node);
    first.is_some_and(|first| first.by.is_some_and(|by| by != id))
}

fn is_of_lock(key: &Key) -> bool {
    key.of.is_none() && key.key == "lock"
}

/// The waiter that the command which set a key took out of the queue: the first that changed the key
/// next, or got the lock and set no key, otherwise the last in the queue. Without a queue it is any
/// that was called before, and was let in by the key.
fn taker(table: &Table, key: &Key, had_key: bool) -> Option<u32> {
    let setter = table.op(key.by?);
    let places = stays_as_set(table, |key| key.of.as_deref().is_some_and(|of| of != "lock"));
    let (own, is_release) = match setter.kind {
        OpKind::Release { grant } => (grant, true),
        OpKind::Acquire => (setter.id, false),
        _ => return None,
    };
    let out = places
        .iter()
        .filter(|place| place.node == *key.node && place.is_ended_by(key.by, point(key.at)));
    let out: Vec<&Stay> = out.collect();
    let waiters = if places.is_empty() {
        let ops = table.history.ops.iter().filter(|op| op.object == "lock");
        let waiting = ops.filter(|op| {
            let is_over = op.ret.is_some_and(|ret| stamp(ret) <= point(key.at));
            let may_wait = !is_over || op.outcome == Outcome::Unknown;
            may_wait && stamp(op.call) < point(key.at)
        });
        waiting.collect::<Vec<_>>()
    } else {
        out.iter().filter_map(|place| Some(table.op(place.by?))).collect()
    };
    let is_waiter = |op: &&&Op| op.kind == OpKind::Acquire && op.id != own;
    let mut waiters: Vec<&Op> = waiters.iter().filter(is_waiter).copied().collect();
    // Who stays at the head may be meant, if nobody that waits was taken out.
    let stays = |place: &&Stay| {
        let is_there = place.from <= point(key.at) && point(key.at) < place.to;
        place.node == *key.node && is_there && !place.is_ended_by(key.by, point(key.at))
    };
    let head = places.iter().find(stays).and_then(|place| Some(table.op(place.by?)));
    let is_over = |op: &&Op| op.ret.is_some_and(|ret| stamp(ret) <= point(key.at));
    let goes = waiters.last().copied();
    let here = commands(table, setter, &key.node).iter().any(|at| at.0 == key.at.at);
    let keeps = places.iter().any(|place| {
        let is_there = place.from.0 <= key.at.at && point(key.at) < place.to;
        let stays = !place.is_ended_by(key.by, point(key.at));
        place.by == key.by && place.node == *key.node && is_there && stays
    });
    let is_acquire = setter.kind == OpKind::Acquire;
    let quits = is_acquire && !is_granted(setter) && !places.is_empty() && !keeps;
    let is_sure = !quits || had_key || matches!(setter.outcome, Outcome::Refused { .. });
    if here && is_sure && waiters.iter().all(is_over) && !places.is_empty() {
        waiters.splice(0..0, head.iter().filter(is_waiter).copied());
    }
    let next = waiters.iter().find(|op| changes_next(table, key, op));
    let passes_on = !is_granted(setter) && had_key || quits;
    let asks_again = || commands(table, setter, &key.node).iter().any(|at| at.0 > key.at.at);
    let is_own = || is_granted(setter) || changes_next(table, key, setter);
    if !is_release && !passes_on && !(keeps && (next.is_some() || asks_again() || !is_own())) {
        return None;
    }
    let let_in = waiters.iter().filter(|op| is_let_in(table, key, op, places.is_empty()));
    let first = let_in.min_by_key(|op| op.ret.map(stamp));
    let may_be_last = !places.is_empty() && key.change == KeyChange::Set && is_sure;
    let last = goes.filter(|_| may_be_last);
    next.or(first).copied().or(last).map(|op| op.id)
}

fn is_granted(op: &Op) -> bool {
    matches!(op.outcome, Outcome::Granted { .. })
}

/// When a node did what an operation asked.
fn commands(table: &Table, op: &Op, node: &str) -> Vec<Point> {
    let own = table
        .history
        .requests
        .iter()
        .filter(|request| request.op == op.id && request.to == *node && !request.declined);
    let applied = own.filter_map(|request| {
        request.legs.iter().find(|(leg, _)| *leg == Leg::Applied).map(|(_, at)| point(*at))
    });
    applied.collect()
}

/// Whether two changes of a node's key are those of one command.
fn of_one_command(one: &Key, other: &Key) -> bool {
    one.by == other.by && one.at.at == other.at.at
}

/// The next change of the key on the same node by another command, of those that count.
fn next_change<'a>(table: &'a Table, key: &Key, counts: fn(&Key) -> bool) -> Option<&'a Key> {
    let mut keys = table.history.keys.iter();
    keys.find(|other| {
        let is_later = other.node == key.node && other.at > key.at && !of_one_command(key, other);
        is_of_lock(other) && is_later && counts(other)
    })
}

/// Whether the acquire prolongs the key next, or deletes it and leaves; or its release or extend
/// changes it next.
fn changes_next(table: &Table, key: &Key, waiter: &Op) -> bool {
    let Some(next) = next_change(table, key, |_| true) else { return false };
    let Some(by) = next.by.map(|by| table.op(by)) else { return false };
    match by.kind {
        OpKind::Acquire => {
            let places =
                stays_as_set(table, |key| key.of.as_deref().is_some_and(|of| of != "lock"));
            // Without a queue, an acquire that never got an answer may have set it for itself, if
            // nobody else was let in by it.
            let knows = matches!(by.outcome, Outcome::Refused { .. });
            let for_another = || knows || !places.is_empty() || taker(table, next, true).is_some();
            let replaces = next.change == KeyChange::Set && key.until_ms.is_some();
            let ends = next.change == KeyChange::Deleted || replaces && for_another();
            let leaves = ends && !is_granted(by);
            by.id == waiter.id && (next.change == KeyChange::Extended || leaves)
        }
        OpKind::Release { grant } | OpKind::Extend { grant, .. } => grant == waiter.id,
        _ => false,
    }
}

/// Whether an acquire got the lock after the key was set, and set none itself; without a queue, also
/// whether the last that it asked the node met the key.
fn is_let_in(table: &Table, key: &Key, waiter: &Op, is_alone: bool) -> bool {
    let Some(ret) = waiter.ret.map(stamp).filter(|ret| *ret > point(key.at)) else { return false };
    let sets = table.history.keys.iter().any(|other| {
        let sets = matches!(other.change, KeyChange::Set | KeyChange::Changed);
        let between = key.at < other.at && point(other.at) < ret;
        sets && is_of_lock(other)
            && other.node == key.node
            && other.by == Some(waiter.id)
            && between
    });
    let end = next_change(table, key, |other| other.change != KeyChange::Extended);
    let asked = commands(table, waiter, &key.node);
    let last = asked.iter().rfind(|at| **at < ret);
    let meets = last
        .is_some_and(|last| point(key.at) < *last && end.is_none_or(|end| *last < point(end.at)));
    is_granted(waiter) && !sets && (!is_alone || meets)
}

fn stays_as_set(table: &Table, is_own: impl Fn(&Key) -> bool) -> Vec<Stay> {
    let own = table.history.keys.iter().filter(|key| is_own(key));
    let own: Vec<_> = own.collect();
    let sets = |change| change == KeyChange::Set;
    let born = own.iter().enumerate().filter(|(_, key)| sets(key.change));
    let stay = |(index, key): (usize, &&Key)| {
        let mut later = own[index + 1..].iter();
        let next = later
            .find(|later| later.node == key.node && later.of == key.of && later.key == key.key);
        let to = next.map_or(END, |next| point(next.at));
        let remover = next.and_then(|next| next.by);
        let (node, setter) = (key.node.to_string(), key.by);
        Stay { node, by: key.by, from: point(key.at), to, setter, remover }
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

/// Whether the place is there when another gets in, or another's acquire or release removed it from
/// a waiter that was just heard of and still wants the lock, and did not set the key for it.
fn stands(table: &Table, lock: &[Stay], place: &Stay, entry: &Stay) -> bool {
    let (own, at) = (table.op(place.by.expect("an acquire")), entry.from);
    let remover = place.remover.map(|id| table.op(id));
    let removes = |op: &Op| matches!(op.kind, OpKind::Acquire | OpKind::Release { .. });
    let by_another = remover.is_some_and(|op| removes(op) && op.caller != own.caller);
    let wants = !matches!(own.outcome, Outcome::Refused { .. } | Outcome::Unknown);
    let heard = || is_just_heard(table, place, place.to) && is_just_heard(table, place, at);
    let has_turn = || {
        lock.iter().any(|key| {
            let same = key.setter == place.remover && key.from.0 == place.to.0;
            same && key.by == place.by && key.node == place.node
        })
    };
    let is_gone = place.to <= at || place.is_ended_by(entry.setter, at);
    place.from <= at && (!is_gone || by_another && wants && heard() && !has_turn())
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

/// Since when a place has its position: one that its node has again since a start has that of the
/// place which the same acquire had there before.
fn joined(table: &Table, places: &[Stay], place: &Stay) -> Point {
    let mut outages = table.history.fault_intervals.iter().filter(|c| c.verb.kills());
    let is_start =
        outages.any(|c| c.strikes(&place.node) && c.to.is_some_and(|to| to.at == place.from.0));
    let earlier =
        |other: &&Stay| other.by == place.by && other.node == place.node && other.from < place.from;
    let before = places.iter().filter(earlier).max_by_key(|other| other.from);
    match before.filter(|_| is_start) {
        Some(before) => joined(table, places, before),
        None => place.from,
    }
}

/// Each grant that passed a waiter, with the waiter.
pub fn overtaken(table: &Table) -> BTreeSet<(u32, u32)> {
    let (places, lock) = (places(table), stays(table, None));
    let mut found = BTreeSet::new();
    for grant in table.grants() {
        let entries = lock.iter().filter(|entry| entry.by == Some(grant.id));
        let passed = entries.filter_map(|entry| {
            let here = |place: &&Stay| place.node == entry.node;
            let mut own = places
                .iter()
                .filter(here)
                .filter(|place| place.by == Some(grant.id) && place.from <= entry.from);
            let joined = |place: &Stay| joined(table, &places, place);
            let since = own.next_back().map_or(stamp(grant.call), joined);
            let before = places.iter().filter(here).filter(|place| joined(place) < since);
            let by = |place: &Stay| place.by.expect("an acquire");
            let mut waiting = before.filter(|place| {
                stands(table, &lock, place, entry)
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
    let order: Vec<Point> = places.iter().map(|place| joined(table, &places, place)).collect();
    let mut found = BTreeSet::new();
    for (index, place) in places.iter().enumerate() {
        let waiter = table.op(place.by.expect("an acquire"));
        let over = match waiter.outcome {
            Outcome::Refused { .. } => {
                waiter.ret.map(stamp).filter(|_| !in_vain(table, place, waiter.id))
            }
            Outcome::Granted { .. } => released(table, waiter.id)
                .filter(|release| !joins_again(table, place, release))
                .and_then(|release| release.ret.map(stamp)),
            _ => None,
        };
        let Some(over) = over else { continue };
        let met = table.history.requests.iter().filter_map(|request| {
            let at = request.legs.iter().find(|(leg, _)| *leg == Leg::Applied)?.1;
            let (op, at): (_, Instant) = (table.op(request.op), at);
            let there = |stay: &Stay| stay.from <= point(at) && point(at) < stay.to;
            let here = |stay: &Stay| stay.node == place.node;
            let mut others = places.iter().enumerate();
            let is_first = !others.any(|(nth, ahead)| {
                (order[nth], nth) < (order[index], index) && here(ahead) && there(ahead)
            });
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

/// Whether a request that was under way when its grant was released took the place behind the
/// release.
fn joins_again(table: &Table, place: &Stay, release: &Op) -> bool {
    let mut requests = table.history.requests.iter();
    let is_under_way = requests.any(|request| {
        let at = |leg| request.legs.iter().find(|(of, _)| *of == leg).map(|(_, at)| point(*at));
        let is_before = at(Leg::Sent).is_some_and(|sent| sent <= stamp(release.call));
        let joins = at(Leg::Applied).is_some_and(|at| at.0 == place.from.0);
        Some(request.op) == place.by && request.to == *place.node && is_before && joins
    });
    is_under_way && in_vain(table, place, release.id)
}

/// Whether the place was removed at last, and what an operation asked the node last did nothing
/// there while the place existed.
fn in_vain(table: &Table, place: &Stay, op: u32) -> bool {
    let mut requests = table.history.requests.iter();
    let is_own = |request: &&Request| request.op == op && request.to == *place.node;
    let Some(last) = requests.rfind(is_own) else { return false };
    let came = last.legs.iter().find(|(leg, _)| *leg == Leg::Applied).map(|(_, at)| point(*at));
    let is_done = came.is_some_and(|came| place.from <= came && came < place.to);
    place.to != END && (last.declined || !is_done)
}

/// When a grant was released for certain.
fn released<'a>(table: &Table<'a>, grant: u32) -> Option<&'a Op> {
    let mut ops = table.history.ops.iter();
    let done = |outcome: &Outcome| *outcome == Outcome::Released;
    ops.find(|op| op.kind == OpKind::Release { grant } && done(&op.outcome))
}
