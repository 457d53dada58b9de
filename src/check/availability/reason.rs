//! Why no caller acquired the lock, from what the tries of a stretch met.
//!
//! A try counts from its call to the next call of its caller. What it met is decided node by node:
//! the node did not reply, replied with an error, or had a key, which is classified by its owner.
//! For a try that was pending when the stretch began, the key counts as it stood by then: a
//! blocking try may have sent its request while the owner was still alive.
//!
//! A try of a group that waits for a key of a try which waits for its own, perhaps through others,
//! is in a deadlock as long as that lasts, whatever it meets.
//!
//! If enough nodes were free, no key blocked the try: too few replicas acknowledged, a reply never
//! arrived, or the caller only waited. Otherwise the reason is what blocked most of the other
//! nodes. If the lock has a queue, the place at its head is a reason where its waiter cannot take
//! the free lock. Keys are a reason until enough of them are deleted, or expire, to free a quorum;
//! the rest of the try's time is waiting. Time in which a caller's process was halted has its own
//! reason. It counts only where no other caller ran, because a caller that runs and is not granted
//! the lock has another reason. A key becomes another reason when its owner dies, is halted,
//! resumes or releases the lock, or when the owner's try or release returns. A stretch lists every
//! reason that takes some of its callers' time, the one that takes most of it first; equals are in
//! the order of [`Reason`].

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::Leg;
use serde::{Deserialize, Serialize};

use crate::check::availability::wait::Wait;
use crate::check::case::Case;
use crate::default::is_default;
use crate::history::{Op, OpId, Outcome, Request};
use crate::reading::deadlock;
use crate::reading::index::{Halt, standing};
use crate::reading::key_life::KeyLife;
use crate::reading::leaders;
use crate::reading::moment::Moment;
use crate::reading::queue::{QueuePlace, Standing, head, places};

/// Why no caller acquired the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The key of a caller whose process had died.
    DeadHolder,
    /// A key without an owner: its caller was not granted the lock, or no longer used it.
    Unowned,
    /// The key of a caller whose release had not returned.
    Releasing,
    /// No node that could have served the lock was a master.
    NoMaster,
    /// Nodes replied with an error: READONLY, NOREPLICAS, LOADING, ...
    Declined,
    /// Too few nodes replied.
    NoQuorum,
    /// The place at the head of the queue of a caller whose process had died.
    DeadWaiter,
    /// The place at the head of the queue of an acquire that had ended without it.
    LeftPlace,
    /// The place at the head of the queue of a caller that was halted.
    HaltedWaiter,
    /// The place at the head of the queue of a caller that its node did not reach.
    CutOffWaiter,
    /// Keys of tries that waited for each other's: each had one of a group that another wanted.
    Deadlock,
    /// Keys of other pending tries, none of them on a quorum of nodes: the votes were split.
    SplitVotes,
    /// The key of a try whose caller was halted.
    HaltedOwner,
    /// The key of a try that had not returned.
    Pending,
    /// Too few replicas acknowledged what a try had set.
    Unacknowledged,
    /// All callers that wanted the lock were halted.
    Halted,
    /// Nothing: callers waited before they retried, or for a reply that arrived.
    Waiting,
}

/// A reason, and how much of the callers' time it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Why no caller acquired the lock then.
    pub reason: Reason,
    /// The acquire whose key blocked longest, if a key is the reason. If the keys of several
    /// callers blocked, it is named only for split votes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: Option<OpId>,
    /// For how long, ns, added up over the callers that wanted the lock.
    pub spent: Nanos,
}

/// What a try met.
struct Obstacle {
    reason: Reason,
    /// The owner of the key.
    owner: Option<OpId>,
    /// When it stopped blocking the try.
    until: Moment,
    /// When a key that blocked it next became another reason through its owner.
    turns: Option<Moment>,
}

/// Why no caller acquired the lock between two moments; the reason that took most time comes first.
pub fn reasons(case: &Case, waits: &[Wait], from: Moment, to: Moment) -> Vec<Share> {
    let tries = tries(waits, from, to);
    let requests = requests(case, &tries);
    let waited = waited(case);
    let queue = case.terms.queue.as_ref().map_or(Vec::new(), |queue| places(case, queue));
    let leaderless = leaders::leaderless(case, case.terms.site.quorum);
    let mut spent: BTreeMap<Reason, Nanos> = BTreeMap::new();
    let mut owners: BTreeMap<(Reason, OpId), Nanos> = BTreeMap::new();
    let running = OnceCell::new();
    for (op, begin, end) in tries.iter().copied() {
        let requests = requests.get(&op.id).map_or(&[][..], Vec::as_slice);
        let halts: Vec<Halt> = case.halts(&op.process).collect();
        let awake = |from: Moment, to: Moment| to.at - from.at - standing(&halts, (from, to));
        let mut deadlocks = deadlock::spans(case, op, (begin, end)).into_iter().peekable();
        let mut from = begin;
        while from < end {
            if let Some((_, over)) = deadlocks.next_if(|(since, _)| *since <= from) {
                *spent.entry(Reason::Deadlock).or_default() += awake(from, over);
                from = over;
                continue;
            }
            let met = met(case, requests, (&leaderless, &waited, &queue), (op, from));
            let deadlock = deadlocks.peek().map(|(since, _)| *since);
            let end = deadlock.unwrap_or(end);
            let until = met.until.clamp(from, end);
            let turn = met.turns.map_or(until, |turns| turns.min(until));
            let blocked = awake(from, turn);
            *spent.entry(met.reason).or_default() += blocked;
            if let Some(owner) = met.owner {
                *owners.entry((met.reason, owner)).or_default() += blocked;
            }
            if turn == until {
                *spent.entry(Reason::Waiting).or_default() += awake(until, end);
                from = end;
            } else {
                from = turn;
            }
        }
        if awake(begin, end) < end.at - begin.at {
            let running = running.get_or_init(|| running_of(case, &tries));
            *spent.entry(Reason::Halted).or_default() += alone(&halts, (begin, end), running);
        }
    }
    // `max_by_key` returns the last of equals; reversed, that is the first.
    let owner = |reason: Reason| {
        let own = || owners.iter().rev().filter(|((why, _), _)| *why == reason);
        let callers: BTreeSet<usize> = own().map(|((_, owner), _)| case.caller(*owner)).collect();
        let is_named = callers.len() == 1 || reason == Reason::SplitVotes;
        let longest = own().max_by_key(|(_, spent)| **spent).filter(|_| is_named);
        longest.map(|((_, owner), _)| *owner)
    };
    let shares = spent.into_iter().filter(|(_, spent)| *spent > 0);
    let mut shares: Vec<Share> =
        shares.map(|(reason, spent)| Share { reason, owner: owner(reason), spent }).collect();
    shares.sort_by_key(|share| Reverse(share.spent));
    shares
}

/// The tries that count between two moments, each with the part of its time that counts.
fn tries<'a>(waits: &[Wait<'a>], from: Moment, to: Moment) -> Vec<(&'a Op, Moment, Moment)> {
    let mut tries = Vec::new();
    for wait in waits {
        for (index, op) in wait.tries.iter().enumerate() {
            let next = wait.tries.get(index + 1).map_or(wait.to, |next| next.call.into());
            let (begin, end) = (from.max(op.call.into()), to.min(next));
            if begin < end {
                tries.push((*op, begin, end));
            }
        }
    }
    tries
}

fn requests<'a>(
    case: &Case<'a>,
    tries: &[(&Op, Moment, Moment)],
) -> BTreeMap<OpId, Vec<&'a Request>> {
    let mut requests: BTreeMap<OpId, Vec<&Request>> =
        tries.iter().map(|(op, ..)| (op.id, Vec::new())).collect();
    for request in &case.history.requests {
        if let Some(of_op) = requests.get_mut(&request.op)
            && case.terms.site.has_node(&request.to)
        {
            of_op.push(request);
        }
    }
    requests
}

/// The operations that waited for replicas.
fn waited(case: &Case) -> BTreeSet<OpId> {
    let requests = case.history.requests.iter().filter(|request| request.waits_for_replicas());
    requests.map(|request| request.op).collect()
}

fn met(
    case: &Case,
    requests: &[&Request],
    (leaderless, waited, queue): (&[(Moment, Moment)], &BTreeSet<OpId>, &[QueuePlace]),
    (op, begin): (&Op, Moment),
) -> Obstacle {
    if let Some((_, until)) = leaderless.iter().find(|(from, to)| *from <= begin && begin < *to) {
        return Obstacle { reason: Reason::NoMaster, owner: None, until: *until, turns: None };
    }
    let mut nodes: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
    for request in requests {
        nodes.entry(&request.to).or_default().push(request);
    }
    let queried = (case.terms.site.queried as usize).max(nodes.len());
    let unqueried = if case.history.requests.is_empty() { 0 } else { queried - nodes.len() };
    let mut blocked: BTreeMap<Reason, Vec<Option<&KeyLife>>> = BTreeMap::new();
    blocked.insert(Reason::NoQuorum, vec![None; unqueried]);
    let mut behind = nodes.keys().filter_map(|node| behind(case, head(queue, node, begin)?, begin));
    let behind = behind.next();
    for (node, requests) in nodes {
        let (reason, key) = on_node(case, node, (&requests, waited), (op, begin));
        blocked.entry(reason).or_default().push(key);
    }
    let free = blocked.remove(&Reason::Waiting).map_or(0, |nodes| nodes.len());
    let waits =
        Obstacle { reason: Reason::Waiting, owner: None, until: Moment::NEVER, turns: None };
    if free >= case.terms.site.quorum as usize {
        let has_set = case.lives.lives.iter().any(|key| key.by == Some(op.id));
        let is_answered = requests.iter().all(|request| request.is_answered());
        return match op.outcome {
            Outcome::Refused { .. } if has_set && waited.contains(&op.id) => {
                Obstacle { reason: Reason::Unacknowledged, ..waits }
            }
            _ if let Some(behind) = behind => behind,
            Outcome::Unknown | Outcome::Pending if !is_answered => {
                Obstacle { reason: Reason::NoQuorum, ..waits }
            }
            _ => waits,
        };
    }
    let missing = (case.terms.site.quorum as usize).saturating_sub(free);
    let mut overs: Vec<Moment> =
        blocked.values().flatten().flatten().map(|key| case.gone(key)).collect();
    overs.sort_unstable();
    let most = blocked.into_iter().rev().max_by_key(|(_, nodes)| nodes.len());
    let Some((reason, keys)) = most.filter(|(_, nodes)| !nodes.is_empty()) else { return waits };
    let last = keys.iter().flatten().max_by_key(|key| case.gone(key));
    let owner = last.and_then(|key| case.owner(key.by?));
    let reason = match reason {
        Reason::SplitVotes if is_of_one(case, &keys) => Reason::Pending,
        other => other,
    };
    let turns = keys.iter().flatten().filter_map(|key| turns_after(case, key, begin)).min();
    let last = last.map_or(Moment::NEVER, |key| case.gone(key));
    let until = overs.get(missing.saturating_sub(1)).copied().unwrap_or(last);
    Obstacle { reason, owner, until, turns }
}

/// What keeps a try behind the place at the head of its queue, if that place's waiter cannot take
/// the lock.
fn behind(case: &Case, head: &QueuePlace, at: Moment) -> Option<Obstacle> {
    let waiter = head.waiter;
    let dies = case.death_after(&waiter.process, waiter.call.into()).map(|death| death.at);
    let cuts = || {
        let intervals = case.history.fault_intervals.iter();
        let cuts = intervals.filter(|cut| {
            let links = cut.verb.acts_on_links() && cut.touches(head.node);
            links && cut.touches(&waiter.process)
        });
        cuts.map(|cut| (Moment::from(cut.from), Moment::from(cut.until(case.history.end))))
    };
    let is_cut = || cuts().any(|(from, to)| from <= at && at < to);
    let reason = match head.standing(case, at) {
        Standing::Dead => Reason::DeadWaiter,
        Standing::Over => Reason::LeftPlace,
        Standing::Halted => Reason::HaltedWaiter,
        Standing::Waits if is_cut() => Reason::CutOffWaiter,
        Standing::Waits => return None,
    };
    let halts = case.halts(&waiter.process).flat_map(|halt| [halt.from, halt.to]);
    let cuts = cuts().flat_map(|(from, to)| [from, to]);
    let all = [dies, head.over(case)].into_iter().flatten().chain(halts).chain(cuts);
    let turns = all.filter(|turn| *turn > at).min();
    Some(Obstacle { reason, owner: Some(waiter.id), until: head.to, turns })
}

/// When a key next becomes another reason: its owner dies, is halted or resumes, the owner's try
/// returns, a release is called or returns, or the owner's tenure begins or ends.
fn turns_after(case: &Case, key: &KeyLife, at: Moment) -> Option<Moment> {
    let owner = case.op(case.owner(key.by?)?)?;
    let whole = case.tenure(owner.id).map(|tenure| &tenure.whole);
    let own =
        [owner.ret.map(Moment::from), whole.map(|hold| hold.start), whole.map(|hold| hold.end)];
    let dies = |op: &Op| case.death_after(&op.process, op.call.into()).map(|death| death.at);
    let releases = case.releases(owner.id);
    let given = releases.flat_map(|op| [Some(op.call.into()), op.ret.map(Moment::from), dies(op)]);
    let halts = case.halts(&owner.process).flat_map(|halt| [halt.from, halt.to]);
    let all = own.into_iter().chain([dies(owner)]).chain(given).flatten().chain(halts);
    all.filter(|turn| *turn > at).min()
}

/// Whether one acquire owns enough of these keys for a quorum.
fn is_of_one(case: &Case, keys: &[Option<&KeyLife>]) -> bool {
    let mut owned: BTreeMap<OpId, usize> = BTreeMap::new();
    for owner in keys.iter().flatten().filter_map(|key| case.owner(key.by?)) {
        *owned.entry(owner).or_default() += 1;
    }
    owned.values().any(|keys| *keys >= case.terms.site.quorum as usize)
}

/// What a try met on one node from a moment on, and the key that blocked it, if any.
fn on_node<'c, 'a>(
    case: &'c Case<'a>,
    node: &str,
    (requests, waited): (&[&Request], &BTreeSet<OpId>),
    (op, begin): (&Op, Moment),
) -> (Reason, Option<&'c KeyLife<'a>>) {
    let answered = requests.iter().filter(|request| !request.declined && request.is_answered());
    let applied = answered.filter_map(|request| request.at(Leg::Applied).map(Moment::from));
    let applied: Vec<Moment> = applied.collect();
    let last_before = applied.iter().rfind(|at| **at <= begin);
    let Some(at) = last_before.or(applied.first()).copied() else {
        let declined = requests.iter().any(|request| request.declined);
        return (if declined { Reason::Declined } else { Reason::NoQuorum }, None);
    };
    let mut here = case.lives.lives.iter().filter(|key| key.node == node);
    let key = here.find(|key| key.by != Some(op.id) && key.from < at && at < key.to);
    let seen = at.max(begin);
    let key = key.filter(|key| seen < case.gone(key));
    match key.map(|key| (key, whose(case, waited, key, seen))) {
        Some((_, Reason::Waiting)) | None => (Reason::Waiting, None),
        Some((key, reason)) => (reason, Some(key)),
    }
}

/// The reason for which a key blocks at a moment, by the state of its owner. The key of a current
/// hold counts as waiting.
fn whose(case: &Case, waited: &BTreeSet<OpId>, key: &KeyLife, at: Moment) -> Reason {
    let owner = key.by.and_then(|by| case.op(case.owner(by)?));
    // Several holders may share one key, so its owner is not known.
    if case.can_overlap() {
        return Reason::Waiting;
    }
    let Some(owner) = owner else { return Reason::Unowned };
    let whole = case.tenure(owner.id).map(|tenure| &tenure.whole);
    if whole.is_some_and(|whole| whole.start <= at && at < whole.end) {
        return Reason::Waiting;
    }
    let over = whole.map_or(Moment::NEVER, |whole| whole.end).min(at);
    match case.death_after(&owner.process, owner.call.into()) {
        Some(death)
            if death.at <= over || dies_releasing(case, owner.id, death.at) && death.at <= at =>
        {
            Reason::DeadHolder
        }
        _ if is_releasing(case, owner.id, at) => Reason::Releasing,
        _ if owner.ret.is_none_or(|ret| at < Moment::from(ret)) => {
            under_way(case, waited, owner, at)
        }
        _ => Reason::Unowned,
    }
}

/// Whether a release of a grant had been called at a moment and had not returned.
fn is_releasing(case: &Case, grant: OpId, at: Moment) -> bool {
    case.releases(grant).any(|release| {
        let is_over = release.ret.is_some_and(|ret| Moment::from(ret) <= at);
        let died = || case.death_after(&release.process, release.call.into());
        Moment::from(release.call) <= at && !is_over && died().is_none_or(|death| at < death.at)
    })
}

/// Whether a release of a grant was under way when its process died.
fn dies_releasing(case: &Case, grant: OpId, death: Moment) -> bool {
    case.releases(grant).any(|release| Moment::from(release.call) <= death && release.ret.is_none())
}

/// Why a try that had set a key was still pending at a moment.
fn under_way(case: &Case, waited: &BTreeSet<OpId>, owner: &Op, at: Moment) -> Reason {
    let is_halted = case.is_halted(&owner.process, at);
    match () {
        () if is_halted => Reason::HaltedOwner,
        () if waited.contains(&owner.id) => Reason::Unacknowledged,
        () if case.terms.queries_one_node() => Reason::Pending,
        () => Reason::SplitVotes,
    }
}

/// A stretch of true time.
type Span = (Nanos, Nanos);

/// The spans in which the process of a try ran, within the part of the try that counts.
fn running(case: &Case, (op, begin, end): (&Op, Moment, Moment)) -> Vec<Span> {
    let (mut spans, mut from) = (Vec::new(), begin.at);
    for halt in case.halts(&op.process) {
        let (stops, goes_on) = (halt.from.at.clamp(from, end.at), halt.to.at.clamp(from, end.at));
        spans.push((from, stops));
        from = goes_on;
    }
    spans.push((from, end.at));
    spans.retain(|(from, to)| from < to);
    spans
}

/// The spans in which the process of at least one try ran, in order and without overlaps.
fn running_of(case: &Case, tries: &[(&Op, Moment, Moment)]) -> Vec<Span> {
    let mut spans: Vec<Span> = tries.iter().flat_map(|part| running(case, *part)).collect();
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// For how long these halts cover a stretch while no caller runs.
fn alone(halts: &[Halt], (begin, end): (Moment, Moment), running: &[Span]) -> Nanos {
    let covered = |from: Nanos, to: Nanos| {
        let span = (
            Moment::passing(from.clamp(begin.at, end.at)),
            Moment::passing(to.clamp(begin.at, end.at)),
        );
        standing(halts, span)
    };
    let meets = running.iter().map(|(from, to)| covered(*from, *to));
    covered(begin.at, end.at).saturating_sub(meets.sum())
}
