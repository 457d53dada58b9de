//! Corruption, foreign commands and leaks, from the definitions of the table.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::check::terms::Invariant;
use lockstorm::check::verdict::{Cause, Kind};
use lockstorm::history::{Access, AccessKind, Key, Op, OpKind, Outcome, Request};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, Instant, MILLISECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::brute::queue;
use crate::brute::table::{Point, Table, point, stamp};

/// The accesses that broke the invariant, with the cause.
pub fn corruptions(table: &Table) -> Vec<(usize, Cause)> {
    let accesses = &table.history.accesses;
    let before = |index: usize, kind: AccessKind| {
        let earlier = (0..index).filter(move |other| accesses[*other].kind == kind);
        earlier.filter(|other| accesses[*other].accepted).collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for (index, access) in accesses.iter().enumerate().filter(|(_, access)| access.accepted) {
        let (harmed, wrong) = match (table.terms.invariant, access.kind) {
            (Invariant::Counter | Invariant::Stock { .. }, AccessKind::Write) => {
                let writes = before(index, AccessKind::Write);
                let last = writes.last().map(|write| accesses[*write].value);
                let wrong = match table.terms.invariant {
                    Invariant::Stock { items } => {
                        access.value < 0 || access.value != last.unwrap_or(items) - 1
                    }
                    _ => access.value != last.unwrap_or(0) + 1,
                };
                (undone(table, &writes, index), wrong)
            }
            (Invariant::Within { least: Some(least), .. }, AccessKind::Add) => {
                let harmed = undone(table, &before(index, AccessKind::Add), index);
                let harmed = if has_read(table, index) { harmed } else { Vec::new() };
                (harmed, access.value < least)
            }
            (Invariant::Passed { most, .. }, AccessKind::Add) => {
                let harmed = undone(table, &before(index, AccessKind::Add), index);
                let harmed = if has_read(table, index) { harmed } else { Vec::new() };
                (harmed, access.value > most)
            }
            (Invariant::Taken { items }, AccessKind::Add) => {
                let sells = |other: &usize| {
                    let op = table.op(accesses[*other].op);
                    let takes = matches!(op.kind, OpKind::Add { by, .. } if by < 0);
                    takes && matches!(op.outcome, Outcome::Value { value } if value >= 0)
                };
                let sold = before(index, AccessKind::Add).iter().filter(|at| sells(at)).count();
                (Vec::new(), sells(&index) && sold as i64 >= items)
            }
            (Invariant::AppendLog, AccessKind::Append) => {
                let Some(own) = granted(table, access) else { continue };
                let earlier = before(index, AccessKind::Append);
                // Of the tenures whose turn comes later, the one that wrote last.
                let begins = |at: &usize, tenure: &Op| {
                    let same = |e: &&usize| granted(table, &accesses[**e]) == Some(tenure);
                    earlier.iter().find(same) == Some(at)
                };
                let mut later = earlier.iter().filter(|at| {
                    let there = granted(table, &accesses[**at]);
                    there.is_some_and(|there| turn(own, there) && begins(at, there))
                });
                let Some(entry) = later.next_back() else { continue };
                (vec![*entry], true)
            }
            _ => continue,
        };
        if wrong {
            // What was added without a look at the value was let through by what is compared.
            let tested = !matches!(table.terms.invariant, Invariant::Taken { .. })
                && access.kind == AccessKind::Add
                && !has_read(table, index);
            let by = match cause(table, &harmed, access) {
                Cause::Overlap | Cause::None if tested => Cause::Test,
                other => other,
            };
            found.push((index, by));
        }
    }
    found
}

/// Whether the caller of an access has read in the same tenure before.
fn has_read(table: &Table, index: usize) -> bool {
    let accesses = &table.history.accesses;
    let began = |access: &Access| access.grant.map(|grant| table.began(grant));
    let own = &accesses[index];
    accesses[..index].iter().any(|other| {
        let is_own = (&other.caller, began(other)) == (&own.caller, began(own));
        other.kind == AccessKind::Read && is_own
    })
}

/// The addition that began the last counter, if that is older than a counter may be and nothing has
/// set its end.
pub fn endless(table: &Table) -> Option<usize> {
    let Invariant::Passed { ends: Some(ends), .. } = table.terms.invariant else { return None };
    let accesses = &table.history.accesses;
    let is =
        |index: usize, kind: AccessKind| accesses[index].kind == kind && accesses[index].accepted;
    let first =
        (0..accesses.len()).rfind(|at| is(*at, AccessKind::Add) && accesses[*at].value == 1)?;
    let is_set = (first..accesses.len()).any(|at| is(at, AccessKind::Expire));
    let is_old = table.history.end.at - accesses[first].at.at > ends;
    (is_old && !is_set).then_some(first)
}

/// Whether more updates were confirmed to callers than exist, or more sales than items.
pub fn wrong_sum(table: &Table) -> bool {
    let ops = table.history.ops.iter();
    let returned =
        ops.filter(|op| matches!(op.kind, OpKind::Write { .. }) && op.outcome == Outcome::Accepted);
    let accesses = table.history.accesses.iter();
    let mut writes = accesses.filter(|access| access.accepted && access.kind == AccessKind::Write);
    let most = match table.terms.invariant {
        Invariant::Counter => writes.next_back().map_or(0, |access| access.value),
        Invariant::Stock { items } => items,
        _ => return false,
    };
    returned.count() as i64 > most
}

/// The writes since the writer's last read; without one, the last write.
fn undone(table: &Table, writes: &[usize], index: usize) -> Vec<usize> {
    let accesses = &table.history.accesses;
    let began = |access: &Access| access.grant.map(|grant| table.began(grant));
    let writer = &accesses[index];
    let looked = (0..index).rfind(|other| {
        let other = &accesses[*other];
        other.kind == AccessKind::Read
            && (&other.caller, began(other)) == (&writer.caller, began(writer))
    });
    let since = |write: &&usize| looked.is_some_and(|looked| **write > looked);
    let undone = writes.iter().filter(since).copied().collect::<Vec<_>>();
    if undone.is_empty() { writes.last().copied().into_iter().collect() } else { undone }
}

/// The acquire that began the tenure in which an access was sent.
fn granted<'a>(table: &'a Table, access: &Access) -> Option<&'a Op> {
    let op = table.op(access.grant?);
    let granted = matches!(op.outcome, Outcome::Granted { .. });
    granted.then(|| table.op(table.began(op.id)))
}

/// Whether one has its turn before another: it was granted before the other was called, or its
/// fence number is smaller, or it was granted first.
fn turn(one: &Op, other: &Op) -> bool {
    let number = |op: &Op| match op.outcome {
        Outcome::Granted { fence, .. } => fence,
        _ => None,
    };
    let returned = |op: &Op| op.ret.map(stamp).expect("it was granted");
    let apart = returned(one) <= stamp(other.call) || returned(other) <= stamp(one.call);
    match number(one).zip(number(other)).filter(|_| !apart) {
        Some((one, other)) => one < other,
        None => returned(one) < returned(other),
    }
}

fn cause(table: &Table, harmed: &[usize], access: &Access) -> Cause {
    let fault = |access: &Access| match access.grant.map(|grant| table.op(grant)) {
        Some(op) if matches!(op.outcome, Outcome::Granted { .. }) => {
            let grants = table.tenure(table.began(op.id));
            let over = grants.iter().all(|op| table.over(op, point(access.at)));
            let sent = stamp(table.op(access.op).call);
            let sent_after = grants.iter().all(|op| table.over(op, sent));
            over.then_some(if sent_after { Cause::Caller } else { Cause::InFlight })
        }
        _ => Some(Cause::Caller),
    };
    let involved = harmed.iter().map(|index| &table.history.accesses[*index]).chain([access]);
    let grants = involved.filter_map(|access| Some(table.op(access.grant?)));
    let grants = grants.filter(|op| matches!(op.outcome, Outcome::Granted { .. }));
    let grants: Vec<&Op> = grants.collect();
    let earlier = table.points.iter().filter(|at| **at < point(access.at)).collect::<Vec<_>>();
    let both = |one: &Op, at: &Point, other: &Op| {
        let has = |op: &Op| table.has(table.began(op.id), *at);
        one.caller != other.caller && has(one) && has(other)
    };
    let met = |others: &[&Op]| {
        let mut pairs = grants.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
        pairs.any(|(one, other)| earlier.iter().any(|at| both(one, at, other)))
    };
    let theirs = || harmed.iter().find_map(|index| fault(&table.history.accesses[*index]));
    fault(access)
        .or_else(|| met(&grants).then_some(Cause::Overlap))
        .or_else(theirs)
        .or_else(|| met(&table.grants()).then_some(Cause::Overlap))
        .unwrap_or(Cause::None)
}

/// The change that created the key that is alive on a node just before a change.
fn alive_before(table: &Table, node: &str, index: usize) -> Option<usize> {
    let keys = &table.history.keys;
    let last = (0..index)
        .rfind(|other| keys[*other].node == node && keys[*other].key == table.terms.lock_key)?;
    match keys[last].change {
        KeyChange::Set => Some(last),
        KeyChange::Changed | KeyChange::Extended => {
            let before = alive_before(table, node, last);
            Some(before.filter(|born| !takes_over(table, *born, last)).unwrap_or(last))
        }
        _ => None,
    }
}

/// Whether a change left the key with the expiry that it had.
fn keeps_the_end(table: &Table, index: usize) -> bool {
    let keys = &table.history.keys;
    let is_same =
        |other: usize| keys[other].node == keys[index].node && keys[other].key == keys[index].key;
    let before = (0..index).rfind(|other| is_same(*other));
    before.and_then(|before| keys[before].until_ms) == keys[index].until_ms
}

/// Whether the operation of a change gave the key another expiry, with that change or later.
fn moves_the_end(table: &Table, index: usize) -> bool {
    let keys = &table.history.keys;
    let is_same =
        |other: usize| keys[other].node == keys[index].node && keys[other].key == keys[index].key;
    let mut later = (index..keys.len()).filter(|other| is_same(*other));
    !keeps_the_end(table, index)
        || later.any(|o| keys[o].by == keys[index].by && keys[o].change == KeyChange::Extended)
}

/// Whether an operation without an answer changed a key that a release had changed before it, or
/// that its own release changed later.
fn finds_it_free(table: &Table, by: &Op, index: usize) -> bool {
    let keys = &table.history.keys;
    let frees = |of: &OpKind| matches!(of, OpKind::Release { grant } if *grant == by.id);
    let is_same = |other: &&Key| other.node == keys[index].node && other.key == keys[index].key;
    let last = keys[..index].iter().rfind(is_same).and_then(|last| last.by);
    let is_open = matches!(by.outcome, Outcome::Unknown | Outcome::Pending);
    let mut later = keys[index..].iter().filter(is_same).filter_map(|key| key.by);
    let was_freed = last.is_some_and(|by| matches!(table.op(by).kind, OpKind::Release { .. }));
    is_open && (was_freed || later.any(|by| frees(&table.op(by).kind)))
}

/// Whether a change in place makes a key its own: it is the doing of another tenure, and the owner
/// that the key had was told of its grant and is not covered, or was never granted.
fn takes_over(table: &Table, born: usize, index: usize) -> bool {
    let key = &table.history.keys[index];
    if key.change != KeyChange::Changed || table.may_meet() {
        return false;
    }
    if handed_on(table, key).is_some() {
        return true;
    }
    let Some(by) = key.by.map(|by| table.op(by)) else { return false };
    let is_granted = matches!(by.outcome, Outcome::Granted { .. });
    let enters = is_granted || moves_the_end(table, index) || finds_it_free(table, by, index);
    if by.kind == OpKind::Acquire && !enters {
        return false;
    }
    let taker = match by.kind {
        OpKind::Acquire => by.id,
        OpKind::Extend { grant, .. } | OpKind::Release { grant } => grant,
        _ => return false,
    };
    let Some(owner) = creator(table, born).and_then(|by| owner_of(table, by)) else {
        return !matches!(by.kind, OpKind::Release { .. });
    };
    let began = table.began(owner);
    let token = |id: u32| match &table.op(id).outcome {
        Outcome::Granted { token, .. } => token.as_str(),
        _ => "",
    };
    let (new, old) = (token(taker), token(owner));
    let enters = by.kind == OpKind::Acquire;
    let differs = enters && !new.is_empty() && !old.is_empty() && new != old;
    table.began(taker) != began && (differs || relies_no_more(table, began, point(key.at)))
}

/// Whether nobody counts on a tenure's grant at a point: there was none, or it is not covered; if
/// its caller has not been told yet, its clock is past the deadline all the same.
fn relies_no_more(table: &Table, began: u32, at: Point) -> bool {
    let grants = table.tenure(began);
    let Some(first) = grants.first() else { return true };
    if first.ret.map(stamp).is_some_and(|returned| returned <= at) {
        return !table.keeps(began, at);
    }
    match first.outcome {
        Outcome::Granted { deadline: Some((clock, until)), .. } => {
            table.reading(&first.process, clock, at) >= i128::from(until)
        }
        _ => false,
    }
}

/// Whether nobody counts at a point on any grant of a tenure that a member is named after.
fn is_free_member(table: &Table, (victim, name): (u32, &String), node: &str, at: Point) -> bool {
    let mut grants = table.tenure(table.began(victim));
    grants.retain(|op| {
        let named = matches!(&op.outcome, Outcome::Granted { token, .. } if token == name);
        named && stamp(op.call) <= at
    });
    let is_over = |op: &&Op| match op.outcome {
        _ if op.ret.is_some_and(|ret| stamp(ret) <= at) => {
            !table.holds(op, at) || !table.covers(op, at)
        }
        Outcome::Granted { deadline: Some((clock, until)), .. } => {
            table.reading(&op.process, clock, at) >= i128::from(until)
        }
        _ => false,
    };
    grants.iter().all(|op| is_over(op) || is_over_on(table, op, node, at))
}

/// Whether the leases that a grant had got by a point have passed on the node's clock: each as long
/// as it was for the caller when it sent the last request that was carried out.
fn is_over_on(table: &Table, grant: &Op, node: &str, at: Point) -> bool {
    let leg = |request: &Request, leg| {
        request.legs.iter().find(|(of, _)| *of == leg).map(|(_, at)| point(*at))
    };
    let mut known = false;
    for op in &table.history.ops {
        let deadline = match (&op.kind, &op.outcome) {
            (OpKind::Acquire, Outcome::Granted { deadline, .. }) if op.id == grant.id => deadline,
            (OpKind::Extend { grant: of, .. }, Outcome::Kept { deadline }) if *of == grant.id => {
                deadline
            }
            _ => continue,
        };
        let mut requests = table.history.requests.iter().filter(|request| request.op == op.id);
        let is_done = |request: &&Request| leg(request, Leg::Applied).is_some_and(|t| t <= at);
        let Some(last) = requests.rfind(is_done) else { continue };
        let (Some(sent), Some((clock, until))) = (leg(last, Leg::Sent), *deadline) else {
            return false;
        };
        let lease = i128::from(until) - table.reading(&op.process, clock, sent);
        let boot = |at| table.reading(node, Clock::Boot, at);
        if boot(at) - boot(sent) < lease {
            return false;
        }
        known = true;
    }
    known
}

/// Whether the key that this change created is there after a later change on its node.
pub fn stays(table: &Table, born: usize, index: usize) -> bool {
    match table.history.keys[index].change {
        KeyChange::Extended => true,
        KeyChange::Changed => !takes_over(table, born, index),
        _ => false,
    }
}

/// Whether an acquire makes the key of a change again afterwards, before it has returned.
fn makes_anew(table: &Table, index: usize, acquire: u32) -> bool {
    let keys = &table.history.keys;
    let ret = table.op(acquire).ret.map_or((u64::MAX, 0), stamp);
    (index + 1..keys.len()).any(|later| {
        let is_same = keys[later].node == keys[index].node && keys[later].key == keys[index].key;
        let begins = is_same
            && match keys[later].change {
                KeyChange::Set => true,
                KeyChange::Changed => alive_before(table, &keys[later].node, later)
                    .is_none_or(|met| takes_over(table, met, later)),
                _ => false,
            };
        begins && creator_by(table, later) == Some(acquire) && point(keys[later].at) < ret
    })
}

/// Kind, harming operation and harmed acquire of each foreign command. With several holders, those
/// of each member on its own.
pub fn foreign(table: &Table) -> BTreeSet<(Kind, u32, u32)> {
    if !table.may_meet() {
        return foreign_of(table);
    }
    let members = table.members();
    let found =
        members.iter().flat_map(|(name, history)| foreign_of(&table.of_member(history, name)));
    found.collect()
}

fn foreign_of(table: &Table) -> BTreeSet<(Kind, u32, u32)> {
    let keys = &table.history.keys;
    let own = (0..keys.len()).filter(|index| keys[*index].key == table.terms.lock_key);
    let harms = own.filter_map(|index| {
        let born = alive_before(table, &keys[index].node, index)?;
        let (by, victim) = (keys[index].by?, owner_of(table, creator(table, born)?)?);
        let was_granted = matches!(table.op(victim).outcome, Outcome::Granted { .. });
        let foreign = table.op(by).caller != table.op(victim).caller
            && (table.member.is_none() || was_granted);
        // A key on which no caller relies any more may be taken.
        let free = match &table.member {
            Some(name) => {
                let node = &keys[index].node;
                is_free_member(table, (victim, name), node, point(keys[index].at))
            }
            None => relies_no_more(table, table.began(victim), point(keys[index].at)),
        };
        let free = free || makes_anew(table, index, victim);
        let entered = |acquire: u32| {
            (born + 1..keys.len()).any(|other| {
                let own = keys[other].by.map(|by| table.op(by));
                let own = own.filter(|own| own.kind == OpKind::Acquire && !is_refused(own));
                own.is_some_and(|own| table.began(own.id) == table.began(acquire))
                    && keys[other].node == keys[index].node
                    && keys[other].key == keys[index].key
                    && alive_before(table, &keys[index].node, other) == Some(born)
            })
        };
        let kind = match (keys[index].change, &table.op(by).kind) {
            (KeyChange::Set | KeyChange::Deleted, _) => Kind::ForeignRelease,
            (KeyChange::Extended, _) if keeps_the_end(table, index) => return None,
            (KeyChange::Extended, _) => Kind::ForeignExtend,
            (KeyChange::Changed, OpKind::Release { grant }) if !free && !entered(*grant) => {
                Kind::ForeignRelease
            }
            (KeyChange::Changed, OpKind::Extend { grant, .. }) if !free && !entered(*grant) => {
                Kind::ForeignExtend
            }
            _ => return None,
        };
        let may_take = table.member.is_some() || table.op(by).kind == OpKind::Acquire;
        let takes = kind == Kind::ForeignRelease && may_take;
        (foreign && !(free && takes)).then_some((kind, by, victim))
    });
    harms.collect()
}

/// The waiter to which a command handed the key; a member is handed to nobody.
pub fn handed_on(table: &Table, key: &Key) -> Option<u32> {
    if table.may_meet() {
        None
    } else {
        let handed = kept(table, key).or_else(|| queue::handed_to(table, key));
        handed.or_else(|| kept_later(table, key))
    }
}

/// The acquire whose key stays its own though a release within its tenure set it anew.
fn kept(table: &Table, key: &Key) -> Option<u32> {
    let grant = match table.op(key.by.filter(|_| key.change == KeyChange::Set)?).kind {
        OpKind::Release { grant } => grant,
        _ => return None,
    };
    let began = table.began(grant);
    table.has(began, point(key.at)).then_some(began)
}

/// The tenure that a caller has while a release of its sets the key anew, of whatever entry.
fn kept_later(table: &Table, key: &Key) -> Option<u32> {
    let by = table.op(key.by.filter(|_| key.change == KeyChange::Set)?);
    let is_release = matches!(by.kind, OpKind::Release { .. });
    let nests = table.terms.reenters && table.terms.holders == 1;
    let mut tenures = table.tenures().into_iter().filter(|_| is_release && nests);
    tenures.find(|began| table.op(*began).caller == by.caller && table.has(*began, point(key.at)))
}

/// The operation whose key a change began, whatever the member's name says.
fn creator_by(table: &Table, born: usize) -> Option<u32> {
    let key = &table.history.keys[born];
    let by = key.by.filter(|_| key.change != KeyChange::Extended);
    handed_on(table, key).or(by)
}

/// The creator of the living key. A key that was only extended has no recorded creation. A member
/// that a grant's token does not name is not the grant's; one that another acquire's name names is
/// not that of an acquire without a grant.
fn creator(table: &Table, born: usize) -> Option<u32> {
    let by = creator_by(table, born)?;
    let owner = owner_of(table, by);
    let token = owner.and_then(|owner| match &table.op(owner).outcome {
        Outcome::Granted { token, .. } => Some(token),
        _ => None,
    });
    let is_free = |name: &String| {
        let whose = claimants(table, name);
        whose.is_empty() || owner.is_some_and(|owner| whose.contains(&owner))
    };
    let named = |name| token.map_or_else(|| is_free(name), |token| token == name);
    table.member.as_ref().is_none_or(named).then_some(by)
}

/// The acquires that used a name as their owner value, or stood in a queue by it.
fn claimants(table: &Table, name: &str) -> BTreeSet<u32> {
    let uses = |op: &&Op| {
        let granted =
            matches!(&op.outcome, Outcome::Granted { token, .. } if token.as_str() == name);
        let is_acquire = op.kind == OpKind::Acquire && op.object == "lock";
        is_acquire && (granted || op.tried_with.as_deref() == Some(name))
    };
    let users = table.history.ops.iter().filter(uses).map(|op| op.id);
    let joined = table.joined.iter().filter_map(|by| owner_of(table, *by));
    users.chain(joined).collect()
}

/// The acquire whose key an operation makes: its own, or that of the grant that it extends.
fn owner_of(table: &Table, by: u32) -> Option<u32> {
    match table.op(by).kind {
        OpKind::Acquire => Some(by),
        OpKind::Extend { grant, .. } => Some(grant),
        _ => None,
    }
}

/// The tenure whose key this change created.
pub fn tenure_of(table: &Table, born: usize) -> Option<u32> {
    let owner = creator(table, born).and_then(|by| owner_of(table, by));
    owner.map(|owner| table.began(owner))
}

/// Sets of acquires that left keys behind, with the first acquire that failed because of them.
pub fn leaks(table: &Table) -> BTreeMap<BTreeSet<u32>, u32> {
    if table.may_meet() {
        return member_leaks(table);
    }
    let mut found = BTreeMap::new();
    for op in &table.history.ops {
        let (is_one, refused) = (table.terms.site.queried == 1, is_refused(op));
        if op.kind != OpKind::Acquire || op.object != table.terms.lock_key || !refused && !is_one {
            continue;
        }
        let mine = births(table).filter(|born| creator(table, *born) == Some(op.id));
        let mine = mine.map(|born| table.history.keys[born].node.as_str()).collect::<BTreeSet<_>>();
        let blocking = births(table).filter(|born| {
            let got = refused && mine.contains(table.history.keys[*born].node.as_str());
            !got && leaked_at(table, *born, op.id).is_some()
        });
        let blocking = blocking.collect::<Vec<_>>();
        let nodes = blocking.iter().map(|born| &table.history.keys[*born].node);
        let nodes = nodes.collect::<BTreeSet<_>>();
        let quorum = table.terms.site.quorum as usize;
        let decides = mine.len() < quorum && mine.len() + nodes.len() >= quorum;
        if !blocking.is_empty() && (decides || !refused) {
            let leakers = blocking.iter().filter_map(|born| left_by(table, *born));
            found.entry(leakers.collect()).or_insert(op.id);
        }
    }
    found
}

/// The same with several holders, on one node: a member without an owner kept an acquire out if there
/// were too few others.
fn member_leaks(table: &Table) -> BTreeMap<BTreeSet<u32>, u32> {
    let mut found = BTreeMap::new();
    if table.history.ops.iter().any(|op| op.shared) {
        return found;
    }
    let members = table.members();
    let members = members.iter().map(|(name, history)| table.of_member(history, name));
    let members = members.collect::<Vec<_>>();
    for op in &table.history.ops {
        let is_one = table.terms.site.queried == 1;
        if op.kind != OpKind::Acquire || op.object != table.terms.lock_key || !is_one {
            continue;
        }
        let blocking = members.iter().flat_map(|member| {
            let met = |born| Some((leaked_at(member, born, op.id)?, member, born));
            births(member).filter_map(met).collect::<Vec<_>>()
        });
        let blocking = blocking.collect::<Vec<_>>();
        // Of several that were met last, the one that was set last.
        let set = |(at, member, born): &&(Point, &Table, usize)| {
            (*at, point(member.history.keys[*born].at))
        };
        let Some((at, member, born)) = blocking.iter().max_by_key(set) else { continue };
        let node = &member.history.keys[*born].node;
        let others = members.iter().filter(|other| {
            let keys = &other.history.keys;
            let next = keys.iter().position(|key| point(key.at) > *at).unwrap_or(keys.len());
            let Some(alive) = alive_before(other, node, next) else { return false };
            let blocks = |(_, member, born): &(Point, &Table, usize)| {
                member.member == other.member && *born == alive
            };
            let is_own = keys[alive].change != KeyChange::Extended && keys[alive].by == Some(op.id);
            !is_own && !blocking.iter().any(blocks)
        });
        if others.count() < table.terms.holders as usize {
            let leakers = blocking.iter().filter_map(|(_, member, born)| left_by(member, *born));
            found.entry(leakers.collect()).or_insert(op.id);
        }
    }
    found
}

fn is_refused(op: &Op) -> bool {
    matches!(op.outcome, Outcome::Refused { .. })
}

/// The acquire that left a key: its owner, or that whose release set it.
pub fn left_by(table: &Table, born: usize) -> Option<u32> {
    let by = creator(table, born)?;
    match table.op(by).kind {
        OpKind::Release { .. } if table.member.is_some() => None,
        OpKind::Release { grant } if table.history.keys[born].change == KeyChange::Set => {
            Some(grant)
        }
        _ => owner_of(table, by),
    }
}

/// The same of any key, also of a member.
pub fn leaver(table: &Table, born: usize) -> Option<u32> {
    let key = &table.history.keys[born];
    match key.of {
        Some(_) => owner_of(table, key.by?),
        None => left_by(table, born),
    }
}

pub fn births<'a>(table: &'a Table) -> impl Iterator<Item = usize> + 'a {
    let keys = &table.history.keys;
    (0..keys.len()).filter(move |index| {
        let key = &keys[*index];
        let creates = match key.change {
            KeyChange::Set => true,
            KeyChange::Changed => alive_before(table, &key.node, *index)
                .is_none_or(|born| takes_over(table, born, *index)),
            _ => false,
        };
        creates && key.key == table.terms.lock_key
    })
}

/// The change that ended the key, or made it another's.
pub fn end_of(table: &Table, born: usize) -> Option<usize> {
    let keys = &table.history.keys;
    let same =
        |index: &usize| keys[*index].node == keys[born].node && keys[*index].key == keys[born].key;
    (born + 1..keys.len()).filter(same).find(|index| !stays(table, born, *index))
}

/// When a release that gave up the tenure of a key first changed it where it is.
pub fn marked_at(table: &Table, born: usize, began: u32) -> Option<Point> {
    let keys = &table.history.keys;
    let left = table.left(began);
    let last = end_of(table, born).unwrap_or(keys.len());
    let here = |key: &&Key| key.node == keys[born].node && key.key == keys[born].key;
    let mut changed = keys[born + 1..last].iter().filter(here);
    let mark = changed.find(|key| {
        let by = key.by.filter(|_| key.change == KeyChange::Changed).map(|by| table.op(by));
        by.is_some_and(|op| match op.kind {
            OpKind::Release { grant } => table.began(grant) == began && stamp(op.call) >= left,
            _ => false,
        })
    });
    mark.map(|key| point(key.at))
}

/// Whether a release of the owner's that was never answered deleted the key, or set another value.
fn deleted_late(table: &Table, born: usize, owner: u32) -> bool {
    let keys = &table.history.keys;
    let end = end_of(table, born).map(|end| &keys[end]);
    let is_late =
        |key: &&Key| matches!(key.change, KeyChange::Deleted | KeyChange::Set | KeyChange::Changed);
    let by = end.filter(is_late).and_then(|end| end.by);
    by.map(|by| table.op(by)).is_some_and(|by| match by.kind {
        OpKind::Release { grant } => {
            table.began(grant) == table.began(owner)
                && matches!(by.outcome, Outcome::Unknown | Outcome::Pending)
        }
        _ => false,
    })
}

/// Whether another acquire replaced the key, and was granted or never learned of it; the owner may
/// have replaced it before.
fn taken_over(table: &Table, born: usize, owner: u32) -> bool {
    let keys = &table.history.keys;
    let takes = [KeyChange::Set, KeyChange::Changed, KeyChange::Deleted];
    let end = end_of(table, born).filter(|end| takes.contains(&keys[*end].change));
    let Some((end, by)) = end.and_then(|end| Some((end, keys[end].by?))) else { return false };
    if owner_of(table, by) == Some(owner) {
        let is_new = keys[end].change != KeyChange::Deleted;
        return is_new && (taken_over(table, end, owner) || deleted_late(table, end, owner));
    }
    let by = table.op(by);
    let is_gone = keys[end].change == KeyChange::Deleted;
    by.kind == OpKind::Acquire && (is_gone || !matches!(by.outcome, Outcome::Refused { .. }))
}

/// When an acquire without a grant was over, and the releases of it that asked this node.
fn freed_at(table: &Table, owner: &Op, node: &str) -> Option<Point> {
    let is_request = |op: &&Op| {
        let mut sent = table.history.requests.iter().filter(|request| request.op == op.id);
        gives(op, owner.id) && sent.any(|request| request.to == node && !request.other_keys)
    };
    let freeing = table.history.ops.iter().filter(is_request);
    let end = point(table.history.end);
    let ends = freeing.map(|op| op.ret.map_or_else(|| fell(table, op, end), stamp));
    owner.ret.map(|ret| ends.fold(stamp(ret), Point::max))
}

/// When the process of a release without a return died; otherwise the end.
fn fell(table: &Table, op: &Op, end: Point) -> Point {
    let points = table.points.iter().copied();
    let mut dead = points.filter(|at| table.dies(&op.process, stamp(op.call), *at));
    dead.next().unwrap_or(end)
}

/// When the refused acquire met the key without an owner and without an excuse, if it did.
fn leaked_at(table: &Table, born: usize, refused: u32) -> Option<Point> {
    let keys = &table.history.keys;
    let (node, victim) = (&keys[born].node, table.op(refused));
    let owner = table.op(left_by(table, born)?);
    let by_release = creator(table, born).map(|by| table.op(by));
    let by_release = by_release.filter(|by| matches!(by.kind, OpKind::Release { .. }));
    let began = table.began(owner.id);
    let left = table.left(began);
    // Operations before the end of the tenure released nothing.
    let of_grant = table.history.ops.iter().filter(|op| match op.kind {
        OpKind::Release { grant } | OpKind::Lost { grant } | OpKind::Extend { grant, .. } => {
            let returned = match op.kind {
                OpKind::Extend { .. } => op.ret,
                _ => Some(op.call),
            };
            table.began(grant) == began && returned.is_none_or(|returned| stamp(returned) >= left)
        }
        _ => false,
    });
    // A release that hands the key to its owner says nothing about it. An extend that comes late and
    // makes a key of its own has been given up before.
    let hands = |op: &Op| matches!(op.kind, OpKind::Release { .. }) && by_release.is_none();
    let of_grant = of_grant.filter(|op| keys[born].by != Some(op.id) || !hands(op));
    let of_grant = of_grant.collect::<Vec<_>>();
    let met = |op: &Op| meets(table, born, op);
    let answered = first(&of_grant, |op| {
        op.outcome == Outcome::Released
            || gives(op, owner.id) && op.outcome == Outcome::NotMine && met(op)
    });
    let answered = answered.or_else(|| queried_nobody(table, node, &of_grant));
    let over = match owner.outcome {
        _ if by_release.is_some() => {
            by_release.filter(|by| by.outcome == Outcome::Released).and_then(|by| by.ret).map(stamp)
        }
        Outcome::Refused { .. } | Outcome::Unknown => freed_at(table, owner, node),
        Outcome::Granted { .. } if creator(table, born) == Some(owner.id) => answered,
        Outcome::Granted { .. } => first(&of_grant, |op| match op.kind {
            OpKind::Extend { background, .. } => !background && op.outcome == Outcome::Lost,
            _ => true,
        }),
        _ => None,
    };
    let over = over?.max(left);
    let cleaned = owner.outcome == Outcome::Unknown
        && !table.history.ops.iter().any(|op| gives(op, owner.id))
        || tried_to_free(table, born, owner.id, &[]);
    let wrong = !cleaned && denied_from(table, born, owner.id, &of_grant).is_some();
    let mut met = met_at(table, born, (over, wrong), victim).into_iter();
    met.find(|moment| is_left_at(table, born, (owner, victim, &of_grant), *moment))
}

/// Whether nothing excuses a key that a try of the refused acquire met at a point.
fn is_left_at(
    table: &Table,
    born: usize,
    (owner, victim, of_grant): (&Op, &Op, &[&Op]),
    moment: Point,
) -> bool {
    let keys = &table.history.keys;
    let node = &keys[born].node;
    let last = keys.iter().rfind(|key| {
        point(key.at) <= moment && key.node == *node && key.key == table.terms.lock_key
    });
    let is_apart =
        |op: &Op| op.caller != victim.caller && table.began(op.id) != table.began(owner.id);
    let grants = table.grants().into_iter().filter(|op| is_apart(op));
    let (mut below, mut under) = (born, Vec::new());
    while let Some(earlier) = alive_before(table, node, below) {
        under.extend(creator(table, earlier).and_then(|by| owner_of(table, by)));
        below = earlier;
    }
    let is_under = |op: &Op| under.iter().any(|id| table.began(*id) == table.began(op.id));
    let mut grants = grants.filter(|op| table.holds(op, moment) && table.covers(op, moment));
    if grants.any(is_under) {
        return false;
    }
    let is_taken = || taken_over(table, born, owner.id) || deleted_late(table, born, owner.id);
    let is_release = |op: &&Op| matches!(op.kind, OpKind::Release { .. });
    let is_released =
        of_grant.iter().any(is_release) || table.history.ops.iter().any(|op| gives(op, owner.id));
    let is_open = || is_met_within_a_lease(table, born, is_released);
    let expires = last.is_some_and(|last| last.until_ms.is_some());
    if expires && is_for_another(table, born, [owner.id, victim.id]) {
        return false;
    }
    let lasts = last.is_some_and(|last| last.until_ms.is_none() && !is_taken() && !is_open())
        && !is_bounded_member(table, born, (moment, last));
    let own = table.grants().into_iter().filter(|op| op.caller == owner.caller);
    let mut own = own.filter(|op| table.holds(op, moment));
    let requested = table.history.ops.iter().any(|op| gives(op, owner.id));
    let dropped = owner.outcome == Outcome::Unknown && !requested;
    let cleaned = dropped || tried_to_free(table, born, owner.id, &[]);
    let denied = denied_from(table, born, owner.id, of_grant);
    // Its own key may keep a caller out once its release has said that it is gone.
    let is_gone = !cleaned && denied.is_some_and(|at| at <= stamp(victim.call));
    if owner.caller == victim.caller && !is_gone {
        return false;
    }
    let excuses = |at: Point| counts_what_was_lost(table, born, &owner.caller, (at, moment));
    if !cleaned && denied.is_some_and(|at| at <= moment && !excuses(at)) {
        // Another grant of a re-entrant owner has changed the same key.
        let meets = |index: &usize| alive_before(table, node, *index) == Some(born);
        let here = |index: &usize| keys[*index].node == *node;
        let lock = |index: &usize| keys[*index].key == table.terms.lock_key;
        let touched = (born + 1..keys.len()).filter(here).filter(lock).filter(meets);
        let touched = touched.filter_map(|index| keys[index].by).collect::<Vec<_>>();
        return !own.any(|op| touched.contains(&op.id));
    }
    if lasts {
        return own.next().is_none();
    }
    let died = table.dies(&owner.process, stamp(owner.call), moment);
    let is_lost = !cleaned && denied.is_some_and(|at| at <= moment);
    !died && !cleaned && !is_lost && !tried_to_release(table, born, owner, of_grant)
}

/// Whether a release was sent that may have freed the key, or had no chance to send one.
fn tried_to_release(table: &Table, born: usize, owner: &Op, of_grant: &[&Op]) -> bool {
    // An attempt also counts if the tenure continued.
    let own = table.history.ops.iter().filter(|op| op.kind == OpKind::Release { grant: owner.id });
    let releases =
        of_grant.iter().copied().chain(own).filter(|op| matches!(op.kind, OpKind::Release { .. }));
    let cut_short = releases.clone().any(|op| {
        op.ret.is_none() && table.dies(&op.process, stamp(op.call), point(table.history.end))
    });
    // Without a record of any request, it may have waited for a connection.
    let requests = &table.history.requests;
    let sends_none = |op: &Op| !requests.is_empty() && requests.iter().all(|r| r.op != op.id);
    let waited = releases.clone().any(|op| {
        let is_later = op.ret.is_some_and(|ret| ret.at > op.call.at);
        op.outcome == Outcome::Unknown && is_later && sends_none(op)
    });
    let freeing = releases.map(|op| op.id).collect::<Vec<_>>();
    cut_short || waited || tried_to_free(table, born, owner.id, &freeing)
}

/// Whether a key of a lock that its callers re-enter may count more than they know of at a point,
/// and lasts no longer for anything that happened after a release had said that it is gone.
fn counts_what_was_lost(
    table: &Table,
    born: usize,
    caller: &str,
    (denied, at): (Point, Point),
) -> bool {
    let keys = &table.history.keys;
    let is_callers = |id: u32| table.op(id).caller == caller;
    let unanswered = |op: &Op| [Outcome::Unknown, Outcome::Pending].contains(&op.outcome);
    let here = |index: &usize| {
        keys[*index].node == keys[born].node && keys[*index].key == table.terms.lock_key
    };
    let mut run: Vec<usize> = Vec::new();
    for index in (0..keys.len()).filter(here).filter(|index| point(keys[*index].at) <= at) {
        let stays = [KeyChange::Set, KeyChange::Changed, KeyChange::Extended];
        let is_others = index < born && !keys[index].by.is_some_and(is_callers);
        if is_others || !stays.contains(&keys[index].change) && index < born {
            run.clear();
        } else {
            run.push(index);
        }
    }
    let prolonged = |lost: Point| {
        (0..run.len()).any(|nth| {
            let key = &keys[run[nth]];
            let by = key.by.map(|by| table.op(by));
            let is_entry = |op: &Op| matches!(op.kind, OpKind::Acquire | OpKind::Release { .. });
            let is_late = by.is_some_and(|op| is_entry(op) && unanswered(op));
            let is_longest =
                run[..nth].iter().all(|earlier| keys[*earlier].until_ms < key.until_ms);
            let anew = by.and_then(Op::grant).is_some_and(|id| begins_anew(table, id, lost));
            let counts = point(key.at) > denied || anew;
            key.until_ms.is_some() && is_longest && counts && !is_late
        })
    };
    let last_by = |id: u32| run.iter().copied().rfind(|index| keys[*index].by == Some(id));
    table.history.ops.iter().any(|op| {
        let entered = last_by(op.id).filter(|_| op.kind == OpKind::Acquire && op.caller == caller);
        let mut releases = table.history.ops.iter().filter(|other| gives(other, op.id));
        let is_lost = unanswered(op) || releases.clone().any(unanswered);
        entered.is_some_and(|entered| {
            let is_out = |other: &Op| last_by(other.id).is_some_and(|left| left > entered);
            is_lost && !releases.any(is_out) && !prolonged(point(keys[entered].at))
        })
    })
}

/// Whether a caller acquires after it has given up another tenure, with success, since a point.
fn begins_anew(table: &Table, acquire: u32, since: Point) -> bool {
    let own = table.op(acquire);
    table.history.ops.iter().any(|op| {
        let OpKind::Release { grant } = op.kind else { return false };
        let is_over = op.ret.is_some_and(|ret| stamp(ret) <= stamp(own.call));
        let is_other = table.began(grant) != table.began(acquire);
        let is_done = op.outcome == Outcome::Released && stamp(op.call) > since;
        op.caller == own.caller && is_done && is_over && is_other
    })
}

/// Whether the value of a member may have bounded it at a point: within a lease of its last change,
/// or since an acquire removed it in the end.
fn is_bounded_member(table: &Table, born: usize, (at, last): (Point, Option<&Key>)) -> bool {
    let end = end_of(table, born).map(|end| &table.history.keys[end]);
    let swept = end.filter(|end| end.change == KeyChange::Deleted).and_then(|end| end.by);
    let is_swept = swept.is_some_and(|by| table.op(by).kind == OpKind::Acquire);
    let since = last.map_or(0, |last| last.at.at);
    table.member.is_some() && (at.0 < since + table.terms.longest_ttl || is_swept)
}

/// When something other than an operation ended the key.
fn cut_off(table: &Table, born: usize) -> Option<u64> {
    let (keys, end) = (&table.history.keys, end_of(table, born)?);
    let is_flushed = || {
        let commands = table.history.fault_intervals.iter();
        let mut here = commands.filter(|c| c.target == Target::Host(keys[end].node.to_string()));
        let now = here.any(|c| c.verb == Verb::Flush && c.done.contains(&keys[end].at));
        now && keys[end].change == KeyChange::Deleted && keys[end].by.is_none()
    };
    let is_fault = is_flushed()
        || matches!(
            keys[end].change,
            KeyChange::LostAtRestart | KeyChange::LostAtFailover | KeyChange::Evicted
        );
    is_fault.then_some(keys[end].at.at)
}

/// Whether a key stays although it was released, or a fault cut it off, and before that no acquire
/// came to its node whose request was sent once a lease had gone by on every clock.
fn is_met_within_a_lease(table: &Table, born: usize, is_released: bool) -> bool {
    let (keys, Some(ttl)) = (&table.history.keys, table.terms.ttl) else { return false };
    let ended = end_of(table, born);
    let until = match ended {
        None if is_released => u64::MAX,
        None => return false,
        Some(_) => match cut_off(table, born) {
            Some(gone) => gone,
            None => return false,
        },
    };
    let is_own = |key: &&Key| key.node == keys[born].node && key.key == table.terms.lock_key;
    let living = &keys[born..ended.unwrap_or(keys.len())];
    let Some(last) = living.iter().rfind(is_own) else { return false };
    let has_passed = |host: &str, at: Point, other: &str, since: Point| {
        let has = |host: &str| {
            table.history.clocks.iter().any(|c| c.host == host && c.clock == Clock::Wall)
        };
        if !has(host) || !has(other) {
            return true;
        }
        let reads = |host, at| table.reading(host, Clock::Wall, at);
        reads(other, since) + i128::from(ttl) <= reads(host, at)
    };
    let acquires = table.history.ops.iter().filter(|op| op.kind == OpKind::Acquire);
    let asks = |op: &Op| {
        if table.history.requests.is_empty() {
            let over = op.ret.map_or(u64::MAX, |ret| ret.at);
            return last.at.at + ttl <= over && op.call.at < until && last.at.at + ttl < until;
        }
        let own = table.history.requests.iter().filter(|request| request.op == op.id);
        let mut here = own.filter(|request| request.to == keys[born].node);
        here.any(|request| {
            let (sent, done) = (leg(request, Leg::Sent), leg(request, Leg::Applied));
            let Some((sent, done)) = sent.zip(done) else { return false };
            let (at, since) = (point(sent), point(last.at));
            let setter = last.by.map(|by| table.op(by).process.as_str());
            done.at < until
                && last.at.at + ttl <= sent.at
                && has_passed(&last.node, at, &last.node, since)
                && setter.is_none_or(|setter| has_passed(&op.process, at, setter, since))
        })
    };
    !acquires.into_iter().any(asks)
}

/// Whether a release, or an acquire that had the key and left, set the key with a time to live while
/// an acquire waited on its node that is neither the owner nor the one that meets the key.
fn is_for_another(table: &Table, born: usize, others: [u32; 2]) -> bool {
    let key = &table.history.keys[born];
    let by = creator(table, born);
    let mut acquires = table.history.ops.iter().filter(|op| op.kind == OpKind::Acquire);
    let waits = acquires.any(|op| {
        let mut own = table.history.requests.iter().filter(|request| request.op == op.id);
        let asked = own.any(|request| {
            let done = leg(request, Leg::Applied).is_some_and(|at| point(at) < point(key.at));
            request.to == *key.node && !request.declined && done
        });
        let is_over =
            op.outcome != Outcome::Unknown && op.ret.is_some_and(|ret| stamp(ret) <= point(key.at));
        op.object == table.terms.lock_key && !others.contains(&op.id) && asked && !is_over
    });
    key.change != KeyChange::Extended && by.is_some_and(|by| passes_on(table, born, by)) && waits
}

/// Whether the operation to which a key belongs gave up the lock by it: a release, or an acquire
/// without a grant over a key of its own.
fn passes_on(table: &Table, born: usize, by: u32) -> bool {
    let before = alive_before(table, &table.history.keys[born].node, born);
    let before = before.and_then(|before| creator(table, before));
    let is_release = |by: u32| matches!(table.op(by).kind, OpKind::Release { .. });
    let op = table.op(by);
    let is_granted = matches!(op.outcome, Outcome::Granted { .. });
    let had = before == Some(by);
    is_release(by) || op.kind == OpKind::Acquire && !is_granted && had
}

/// When the first of these operations returned.
fn first(ops: &[&Op], of: impl Fn(&Op) -> bool) -> Option<Point> {
    let returned = ops.iter().filter(|op| of(op)).filter_map(|op| op.ret);
    returned.map(stamp).min()
}

/// When tries of an acquire met a key that had no owner from `over` on, and failed.
fn met_at(table: &Table, born: usize, (over, wrong): (Point, bool), victim: &Op) -> Vec<Point> {
    let keys = &table.history.keys;
    let node = &keys[born].node;
    // Alive just after a position in the trace: what the next change would meet.
    let lives = |at: Point| {
        let next = keys.iter().position(|key| point(key.at) > at).unwrap_or(keys.len());
        alive_before(table, node, next) == Some(born)
    };
    let leaked = |at: &Point| *at >= over && lives(*at);
    let began = left_by(table, born).map(|owner| table.began(owner));
    let marked = match creator(table, born) {
        Some(by) if passes_on(table, born, by) => Some(point(keys[born].at)),
        _ => began.and_then(|began| marked_at(table, born, began)),
    };
    let end = end_of(table, born).map_or((u64::MAX, 0), |end| point(keys[end].at));
    // A key that says that it is free refuses nobody who saw anything else as well.
    let says_so = |at: &Point| marked.is_some_and(|marked| marked <= *at);
    let returned = victim.ret.map_or((u64::MAX, 0), stamp);
    if table.history.requests.is_empty() {
        let during = stamp(victim.call)..=returned;
        let first = table.points.iter().copied().filter(|at| during.contains(at)).find(leaked);
        let since = over.max(point(keys[born].at));
        let only = stamp(victim.call) >= since && returned < end;
        let is_behind = |at: &Point| queue::is_behind(table, victim.id, node, *at);
        let only = |at: &Point| only && !is_behind(at);
        let first = first.filter(|at| is_refused(victim) && (!says_so(at) || only(at)));
        return first.into_iter().collect();
    }
    let takes = end_of(table, born).is_some_and(|end| keys[end].by == Some(victim.id));
    if takes && !(wrong && marked.is_none()) {
        return Vec::new();
    }
    let mine = table.history.requests.iter().filter(|request| request.op == victim.id);
    let mine = mine.filter(|request| request.to == *node && !request.other_keys);
    let mine = mine.skip_while(|request| request.declined).collect::<Vec<_>>();
    let starts = starts(&mine);
    let fails = starts.iter().enumerate().filter_map(|(nth, start)| {
        let next = starts.get(nth + 1).copied();
        let counts = is_refused(victim) || next.is_some();
        let first = nth == 0 || table.terms.site.queried == 1;
        let attempt = &mine[*start..next.unwrap_or(mine.len())];
        let is_lost = is_unheard(table, attempt[0])
            || is_cut_short(table, victim, (attempt[0], next.map(|next| mine[next])));
        let outruns =
            end_of(table, born).is_some_and(|end| is_anothers(table, born, (end, victim)));
        let at = point(leg(attempt[0], Leg::Applied)?);
        let mut applied = attempt.iter().filter_map(|request| leg(request, Leg::Applied));
        let saw_more = applied.any(|at| point(at) >= end);
        let let_in = table.grants().into_iter().any(|other| {
            let returned = stamp(other.ret.expect("granted"));
            let back = given_back(table, other.id);
            let takes =
                end_of(table, born).is_some_and(|end| table.history.keys[end].by == Some(other.id));
            ![Some(other.id), None].contains(&left_by(table, born))
                && other.id != victim.id
                && stamp(other.call) <= at
                && (returned > at || table.holds(other, at) || back.is_some_and(|back| at < back))
                && (returned < end || takes)
        });
        let let_in = let_in || is_taken(table, born, victim, at);
        // The last of several requests may only clean up.
        let cleans_up = nth > 0 && next.is_none();
        let is_other = cleans_up || queue::is_behind(table, victim.id, node, at);
        let is_free = says_so(&at) && (saw_more || let_in || is_other) || saw_more && outruns;
        let is_met = leaked(&at) && at <= returned && !is_free;
        let fails = attempt.iter().any(|request| request.declined);
        (counts && first && !is_lost && !fails && is_met).then_some(at)
    });
    fails.collect()
}

/// Where the tries begin among requests: with the first, and wherever a try repeats a command.
fn starts(mine: &[&Request]) -> Vec<usize> {
    let mut starts: Vec<usize> = Vec::new();
    for index in 0..mine.len() {
        let since = starts.last().copied().unwrap_or(index);
        let again = mine[since..index].iter().any(|other| other.command == mine[index].command);
        if index == 0 || again {
            starts.push(index);
        }
    }
    starts
}

/// Whether the caller of a request never saw a reply. A history without any reply records none.
fn is_unheard(table: &Table, request: &Request) -> bool {
    let is_seen = |request: &Request| leg(request, Leg::Delivered).is_some();
    let was_on_its_way = leg(request, Leg::Applied).is_none();
    let is_known = || was_on_its_way || table.history.requests.iter().any(is_seen);
    !is_seen(request) && (leg(request, Leg::Replied).is_some() || is_known())
}

/// Whether a step of a try, after its first request and before that of the next try, came to
/// nothing: it was never carried out, or its reply was never seen. Deleting may be all that a caller
/// still does once it has failed.
fn is_cut_short(table: &Table, victim: &Op, (first, next): (&Request, Option<&Request>)) -> bool {
    let began = |request: &Request| request.legs[0].1;
    table.history.requests.iter().any(|request| {
        let is_of_try = (request.op, &request.to) == (victim.id, &first.to)
            && began(first) < began(request)
            && next.is_none_or(|next| began(request) < began(next));
        let is_step = match request.command.as_str() {
            "MULTI" => true,
            "DEL" | "EVAL" | "SUBSCRIBE" | "WAIT" => false,
            _ => !request.other_keys,
        };
        is_of_try && is_step && is_unheard(table, request)
    })
}

/// Whether the change that ended a key made one of another acquire.
fn is_anothers(table: &Table, born: usize, (end, victim): (usize, &Op)) -> bool {
    let key = &table.history.keys[end];
    let by = key.by.filter(|_| matches!(key.change, KeyChange::Set | KeyChange::Changed));
    let by = by.filter(|by| table.op(*by).kind == OpKind::Acquire && *by != victim.id);
    let owner = left_by(table, born).map(|owner| table.began(owner));
    by.is_some_and(|by| Some(table.began(by)) != owner)
}

/// Whether an acquire with an unknown outcome changed the key, and bounded it, by this point.
fn is_taken(table: &Table, born: usize, victim: &Op, at: Point) -> bool {
    let end = end_of(table, born).unwrap_or(table.history.keys.len());
    let first = &table.history.keys[born];
    let later = table.history.keys[born + 1..end].iter();
    let own = later.filter(|key| key.node == first.node && key.key == first.key);
    own.filter(|key| point(key.at) <= at && key.until_ms.is_some()).any(|key| {
        let by = key.by.map(|by| table.op(by)).filter(|op| op.kind == OpKind::Acquire);
        by.is_some_and(|op| {
            let is_unknown = matches!(op.outcome, Outcome::Unknown | Outcome::Pending);
            is_unknown && op.id != victim.id && Some(op.id) != left_by(table, born)
        })
    })
}

/// When the first operation that gave up the tenure of a grant, or learned of its loss, had
/// returned.
fn given_back(table: &Table, acquire: u32) -> Option<Point> {
    let began = table.began(acquire);
    let left = table.left(began);
    let ends = |grant: u32, at: Option<Point>| {
        table.began(grant) == began && at.is_some_and(|at| at >= left)
    };
    let gives_back = table.history.ops.iter().filter(|op| match op.kind {
        OpKind::Release { grant } | OpKind::Lost { grant } => ends(grant, Some(stamp(op.call))),
        OpKind::Extend { grant, background } => {
            !background && op.outcome == Outcome::Lost && ends(grant, op.ret.map(stamp))
        }
        _ => false,
    });
    gives_back.filter_map(|op| op.ret).map(stamp).min()
}

/// The moment from which on a release referred to the key and was wrong: it reached the key; or,
/// with one node, no command set the key after the release had returned or arrived. A renewal that
/// did so is no excuse.
fn denied_from(table: &Table, born: usize, owner: u32, of_grant: &[&Op]) -> Option<Point> {
    let key = &table.history.keys[born];
    let served = |by: u32| {
        let to_node = table.history.requests.iter().filter(move |request| request.op == by);
        let to_node = to_node.filter(|request| request.to == key.node);
        to_node.filter_map(|request| leg(request, Leg::Applied)).map(point)
    };
    let new = key.by.is_some_and(|by| served(by).any(|at| at.0 == key.at.at));
    let extends = |by: u32| matches!(table.op(by).kind, OpKind::Extend { .. });
    let is_renewed = key.by.is_some_and(extends);
    let early = |op: &Op| {
        let returned = op.ret.is_some_and(|ret| stamp(ret) < point(key.at));
        new && !is_renewed && (returned || served(op.id).any(|at| at < point(key.at)))
    };
    let earlier = births(table).filter(|other| {
        let life = &table.history.keys[*other];
        let is_same = life.node == key.node && creator(table, *other) == creator(table, born);
        !new && *other < born && is_same
    });
    let lives = earlier.chain([born]).collect::<Vec<_>>();
    let reached = |op: &Op| lives.iter().any(|life| meets(table, *life, op));
    let lied = |op: &Op| table.terms.site.queried == 1 || !is_confirmed(table, op);
    first(of_grant, |op| match op.outcome {
        Outcome::Released => lied(op) && !early(op) || reached(op),
        Outcome::NotMine => gives(op, owner) && reached(op),
        _ => false,
    })
}

/// When a release first returned without success, and with replies about other keys alone, though
/// no fault had struck its caller or the node.
fn queried_nobody(table: &Table, node: &str, of_grant: &[&Op]) -> Option<Point> {
    let asks_nobody = |op: &Op| {
        let sent = || table.history.requests.iter().filter(|request| request.op == op.id);
        let is_idle = |request: &Request| {
            request.other_keys && !request.declined && leg(request, Leg::Delivered).is_some()
        };
        let mut faults = table.history.fault_intervals.iter().filter(|c| {
            op.ret.is_some_and(|ret| c.from <= ret.instant())
                && (c.touches(&op.process) || c.touches(node))
        });
        let is_release = matches!(op.kind, OpKind::Release { .. });
        is_release
            && [Outcome::Unknown, Outcome::NotMine].contains(&op.outcome)
            && sent().next().is_some()
            && sent().all(is_idle)
            && faults.next().is_none()
    };
    first(of_grant, |op| asks_nobody(op))
}

/// Whether a quorum of nodes replied to an operation without an error, or nothing is known of them.
fn is_confirmed(table: &Table, op: &Op) -> bool {
    let replied = table.history.requests.iter().filter(|request| {
        request.op == op.id && !request.declined && leg(request, Leg::Delivered).is_some()
    });
    let nodes = replied.map(|request| &request.to).collect::<BTreeSet<_>>();
    table.history.requests.is_empty() || nodes.len() >= table.terms.site.quorum as usize
}

/// Whether it releases what this acquire was granted.
fn gives(op: &Op, acquire: u32) -> bool {
    matches!(op.kind, OpKind::Release { grant } if grant == acquire)
}

/// Whether an operation reached the key's node while the key existed, and received no error.
fn meets(table: &Table, born: usize, op: &Op) -> bool {
    let (key, returned) = (&table.history.keys[born], op.ret.map_or((u64::MAX, 0), stamp));
    table.history.requests.iter().any(|request| {
        let applied = leg(request, Leg::Applied).map(point);
        let names_none = matches!(
            request.command.as_str(),
            "WATCH"
                | "MULTI"
                | "DISCARD"
                | "UNWATCH"
                | "PING"
                | "WAIT"
                | "WAITAOF"
                | "SCRIPT"
                | "CLIENT"
                | "HELLO"
                | "AUTH"
                | "SELECT"
                | "ROLE"
        );
        (request.op, &request.to) == (op.id, &key.node)
            && !request.declined
            && !names_none
            && !request.other_keys
            && applied.is_some_and(|at| point(key.at) <= at && at <= returned)
    })
}

fn tried_to_free(table: &Table, born: usize, owner: u32, releases: &[u32]) -> bool {
    let key = &table.history.keys[born];
    let creator = creator(table, born).expect("somebody's key");
    let is_handed = Some(creator) != key.by;
    let requests = || table.history.requests.iter();
    let requested = requests().filter(|request| request.op == creator && request.to == key.node);
    let distance = |request: &&Request| {
        // The last that the waiter asked before the key was handed to it.
        let done = leg(request, Leg::Applied).filter(|at| !is_handed || *at < key.at);
        done.map_or(u64::MAX, |at| at.seq.abs_diff(key.at.seq))
    };
    let created = requested.filter(|request| request.command != "DEL").min_by_key(distance);
    requests().any(|request| {
        let cleans = match request.command.as_str() {
            "DEL" => true,
            "EVAL" => creator == owner,
            _ => false,
        };
        let gone = end_of(table, born);
        let gone = gone.map_or((u64::MAX, u64::MAX), |index| point(table.history.keys[index].at));
        let applied = leg(request, Leg::Applied).map(point);
        let spared = request.to == key.node
            && !request.declined
            && applied.is_some_and(|at| point(key.at) <= at && at.0 < gone.0);
        let cleans = cleans && !spared;
        // With its reply, a request for other keys alone is known to have freed nothing.
        let is_idle =
            request.other_keys && !request.declined && leg(request, Leg::Delivered).is_some();
        let frees = releases.contains(&request.op) && !is_idle || request.op == creator && cleans;
        let there = created.is_none() || request.to == key.node;
        let after = created.is_none_or(|created| request.legs[0].1 > created.legs[0].1);
        frees && there && after
    })
}

/// Extends that took effect late or set the key again, with what they changed. If the lock's key has
/// members, those of each member on its own.
pub fn renewals(table: &Table) -> BTreeMap<u32, BTreeSet<usize>> {
    let members = table.members();
    if !table.may_meet() || members.is_empty() {
        return renewals_of(table);
    }
    let mut found: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (name, history) in &members {
        let at = |place: usize| {
            let seq = history.keys[place].at.seq;
            let mut keys = table.history.keys.iter();
            keys.position(|key| key.at.seq == seq).expect("each change has its own position")
        };
        for (extend, changes) in renewals_of(&table.of_member(history, name)) {
            found.entry(extend).or_default().extend(changes.into_iter().map(at));
        }
    }
    found
}

fn renewals_of(table: &Table) -> BTreeMap<u32, BTreeSet<usize>> {
    let mut found: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (index, key) in table.history.keys.iter().enumerate() {
        let Some(extend) = key.by.map(|by| table.op(by)) else { continue };
        let OpKind::Extend { grant, .. } = extend.kind else { continue };
        let removes =
            !matches!(key.change, KeyChange::Set | KeyChange::Changed | KeyChange::Extended);
        let mut own = table.history.requests.iter().filter(|request| request.op == extend.id);
        let came = table.history.requests.is_empty()
            || own.any(|request| {
                let applied = leg(request, Leg::Applied).map(point);
                // A start restores what a node had done before it died.
                let stands = |at: &Point| !table.dies(&key.node, *at, point(key.at));
                request.to == key.node && !request.declined && applied.filter(stands).is_some()
            });
        if removes || !came || key.key != table.terms.lock_key {
            continue;
        }
        let began = table.began(grant);
        let left = table.left(began);
        let late = table.history.ops.iter().any(|release| {
            let returned = release.ret.map(stamp).filter(|ret| *ret <= point(key.at));
            let returned = returned.filter(|_| stamp(release.call) >= left);
            let OpKind::Release { grant: given } = release.kind else { return false };
            table.began(given) == began
                && returned.is_some_and(|ret| {
                    let sure = [Outcome::Released, Outcome::NotMine].contains(&release.outcome);
                    stamp(extend.call) > ret || table.terms.site.queried == 1 && sure
                })
        });
        let owns =
            |born: usize| left_by(table, born).map(|owner| table.began(owner)) == Some(began);
        let wrong = match alive_before(table, &key.node, index) {
            Some(born) => {
                let is_callers = || {
                    let owner = left_by(table, born).map(|owner| &table.op(owner).caller);
                    key.change == KeyChange::Set && owner == Some(&table.op(grant).caller)
                };
                late && (owns(born) || is_callers())
            }
            None if key.change == KeyChange::Extended => false,
            None => {
                let nodes = ["n1", "n2", "n3"].into_iter();
                let having =
                    nodes.filter(|node| alive_before(table, node, index).is_some_and(owns));
                late || table.terms.site.queried == 1
                    || having.count() < table.terms.site.quorum as usize
            }
        };
        if wrong {
            found.entry(extend.id).or_default().insert(index);
        }
    }
    found
}

fn leg(request: &Request, leg: Leg) -> Option<Instant> {
    request.legs.iter().find(|(found, _)| *found == leg).map(|(_, at)| *at)
}

/// From when on a node's wall clock shows a later millisecond than `until`, up to 300 ms on: as long
/// as the key may be there it has to go on to do so.
pub fn passes(table: &Table, node: &str, (from, end): (Point, Point), until: u64) -> Option<Point> {
    let half = MILLISECOND / 2;
    let mut points = (0..600).map(|step| (step * half, 0)).collect::<Vec<_>>();
    points.extend(table.points.iter().copied());
    points.sort_unstable();
    let later = points.into_iter().filter(|at| *at >= from);
    let shows = |at: &Point| {
        table.reading(node, Clock::Wall, *at) / i128::from(MILLISECOND) > i128::from(until)
    };
    let mut passed: Option<Point> = None;
    for at in later {
        match (passed, shows(&at)) {
            (Some(_), _) if at >= end => break,
            (Some(_), false) => passed = None,
            (None, true) => passed = Some(at),
            _ => {}
        }
    }
    passed
}
