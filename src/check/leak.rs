//! Leaks: keys that no caller owns any more and that made an acquire fail.
//!
//! A key is left over if
//! - its acquire returned as refused or unknown, and every release that sent its node a request for
//!   it was over, or
//! - it still exists after its owner's release returned as released, or reached the key and
//!   returned as not mine, or
//! - an extend set it and its grant was given up: its release returned, or its loss was reported,
//!   or
//! - a release set it, and returned as released.
//!
//! A key that its lock promises to keep after a release is not left over until that time has
//! passed.
//!
//! A key is not left over during the tenure in which its acquire was called: the release of an
//! inner grant may only decrement a counter.
//!
//! A key with a time to live is excused if its owner died or tried to free it: the lock did its
//! part, and the time to live bounds the rest. It is also excused if its caller dropped the acquire
//! half-way: then no caller could release it. The excuse ends when the release reported that it had
//! removed the key, or reached it and reported "not mine"; from then on the key is excused only
//! while its owner is in another hold that shares it. The excuse does not end if the acquire itself
//! had sent a clean-up for the key. Nor does it if the key may count an entry of a re-entrant
//! caller that was lost (an acquire without an answer, or one whose release had none, changed the
//! key, and no release of it did, or met the entry and returned as "not mine") and nothing else
//! gives the key a later expiry from then on.
//!
//! A key without a time to live is excused only while its owner is in a hold. The rules for a time
//! to live apply to it if its value may have bounded it: another acquire set its own over it; or
//! a fault removed the key of a lock with a lease, or its owner released it, and no acquire
//! requested it once a lease had passed on every clock that the lock may compare. They also apply
//! if a release with an unknown outcome deleted it in the end: such a release may take effect at
//! any time after its call. A request frees a key only if it may name it: one that names no key, or
//! only other keys, does not once it was answered.
//!
//! A key that a command handed to a waiter is that waiter's: see [`crate::reading::handed_on`]. A
//! key with a time to live that a release set, nobody knows for whom, is excused if another acquire
//! than the one that meets it waited then.
//!
//! While a caller holds the lock within its lease, a key of another tenure, without an owner, that
//! was set over the holder's key is excused: the holder's key would have kept the others out as
//! well.
//!
//! If several callers may hold the lock, each member of its key is judged as a key. It kept an
//! acquire out only if the lock would not have been full without the members that were left. Its
//! value bounds it for a lease from its last change on, and if an acquire removes it in the end.
//! Without members, with several queried nodes or with a shared mode nothing is judged.
//!
//! Only acquires of other callers count, and those of the owner after its release had reported that
//! the key was removed.
//!
//! When a key made an acquire fail: see [`met`].

mod entry;
mod excuse;
mod hand_over;
mod kept;
mod leftover;
mod met;
mod requests;

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::case::Case;
use crate::check::leak::excuse::is_excused;
use crate::check::leak::hand_over::passes_on;
use crate::check::leak::kept::kept_until;
use crate::check::leak::leftover::{Leftover, changes};
use crate::check::leak::met::met;
use crate::check::leak::requests::{concerns, deletes, looked_for_a_node, may_free, tried};
use crate::check::verdict::{Kind, Violation};
use crate::history::{FaultInterval, Key, Op, OpId, OpKind, Outcome, Request};
use crate::reading::key_life::KeyLife;
use crate::reading::moment::Moment;
use crate::reading::tries::Met;

/// One violation for each set of acquires whose leftovers made an acquire fail, with
/// the first acquire that failed.
pub fn violations(case: &Case) -> Vec<Violation> {
    let counts = !case.shares && case.terms.queries_one_node();
    let judges = case.has_owners() && (!case.by_member || counts);
    if !judges {
        return Vec::new();
    }
    let mut leftovers = Vec::new();
    for (life, key) in case.lives.lives.iter().enumerate() {
        let Some((owner, from)) = left_over_from(case, key) else { continue };
        let way = Way::of(case, key, owner);
        let excused = way.was_cleaned(key) || was_dropped(case, owner);
        let freed = excused || way.was_released(case);
        let denied = denied_from(case, key, owner).filter(|_| !excused);
        let marked = marked_at(case, life, owner);
        let changes = changes(case, key);
        leftovers.push(Leftover { key, owner, from, freed, denied, marked, changes });
    }
    if leftovers.is_empty() {
        return Vec::new();
    }
    let mut found: BTreeMap<BTreeSet<OpId>, Violation> = BTreeMap::new();
    for op in case.acquires() {
        let blocking = blocking(case, &leftovers, case.requests_of(op.id), op);
        if !blocking.is_empty() {
            let leakers = blocking.iter().map(|(leftover, _)| leftover.owner).collect();
            found.entry(leakers).or_insert_with(|| violation(case, &blocking, op));
        }
    }
    found.into_values().collect()
}

/// The acquire whose key was left, and the moment from which on the key had no owner.
fn left_over_from(case: &Case, key: &KeyLife) -> Option<(OpId, Moment)> {
    let owner = case.leaver(key)?;
    let op = case.op(owner)?;
    let known = match op.outcome {
        _ if case.owner(key.by?).is_none() => released_at(case, key)?,
        Outcome::Refused { .. } | Outcome::Unknown => freed_at(case, key, (owner, op.ret?.into())),
        Outcome::Granted { .. } if key.by == Some(owner) => answered_at(case, key, owner)?,
        Outcome::Granted { .. } => case.endings(owner).filter_map(|ending| ending.done).min()?,
        _ => return None,
    };
    let over = case.tenure(owner).map_or(known, |tenure| tenure.whole.end);
    let from = key.from.max(known).max(over).max(kept_until(case, key, owner));
    (from < key.to).then_some((owner, from))
}

/// When the release that set a key returned as released.
fn released_at(case: &Case, key: &KeyLife) -> Option<Moment> {
    let by = case.op(key.by?).filter(|by| by.outcome == Outcome::Released);
    Some(by?.ret?.into())
}

/// When an acquire without a grant, and the releases that sent the node a request for its key, were
/// over.
fn freed_at(case: &Case, key: &KeyLife, (owner, returned): (OpId, Moment)) -> Moment {
    let over = |release: &Op| {
        let death = || Some(case.death_after(&release.process, release.call.into())?.at);
        let returned = release.ret.map(Moment::from).or_else(death);
        returned.unwrap_or(case.history.end.into())
    };
    let is_request = |op: &&Op| {
        let mut sent = case.requests_of(op.id).iter();
        matches!(op.kind, OpKind::Release { .. })
            && sent.any(|request| request.to == key.node && concerns(request))
    };
    case.ops_of(owner).filter(is_request).map(over).fold(returned, Moment::max)
}

/// When a release that gave up its owner's tenure set a key, or an acquire that gave up what it was
/// handed; or when such a release first changed the key in place.
pub fn marked_at(case: &Case, life: usize, owner: OpId) -> Option<Moment> {
    let key = &case.lives.lives[life];
    let is_set = key.by.and_then(|by| case.op(by)).is_some_and(|by| passes_on(case, key, by));
    is_set.then_some(key.from).or_else(|| changed_at(case, life, owner))
}

/// When a release that gave up its owner's tenure first changed a key in place.
fn changed_at(case: &Case, life: usize, owner: OpId) -> Option<Moment> {
    let touches = case.lives.touches.iter().filter(|touch| touch.met == life);
    let mut changes = touches.map(|touch| &case.history.keys[touch.change]);
    let is_by_release = |by| case.releases(owner).any(|release| release.id == by);
    let marks = |key: &&Key| key.change == KeyChange::Changed && key.by.is_some_and(is_by_release);
    changes.find(marks).map(|change| change.at.into())
}

/// Whether the caller dropped an acquire half-way: a caller to which the acquire returns unknown
/// calls a release to free what may be left.
fn was_dropped(case: &Case, acquire: OpId) -> bool {
    let mut releases = case.ops_of(acquire).filter(|op| matches!(op.kind, OpKind::Release { .. }));
    releases.next().is_none() && case.op(acquire).is_some_and(|op| op.outcome == Outcome::Unknown)
}

/// When a release that gave up a key's tenure first returned: as released, or, if it had reached
/// the key, as not mine.
fn answered_at(case: &Case, key: &KeyLife, owner: OpId) -> Option<Moment> {
    let answered = first_answer(case, owner, |release| {
        let is_answer = release.outcome == Outcome::Released || came(case, key, release);
        is_answer && !hands_on(case, key, release)
    });
    answered.or_else(|| queried_nobody(case, (owner, key.node)))
}

/// When a release returned as unknown or not mine, had sent no request that may free the key, and
/// no fault had disturbed its connection. It returned at once, or with a reply to every request.
fn queried_nobody(case: &Case, (owner, node): (OpId, &str)) -> Option<Moment> {
    let releases = case.releases(owner).filter(|release| {
        let mut sent = case.requests_of(release.id).iter();
        let queries_nobody =
            !case.history.requests.is_empty() && !sent.any(|request| may_free(request));
        queries_nobody && matches!(release.outcome, Outcome::Unknown | Outcome::NotMine)
    });
    let returned = releases.filter_map(|release| {
        let ret = release.ret?;
        let disturbs = |c: &FaultInterval| c.touches(&release.process) || c.touches(node);
        let mut earlier = case.history.fault_intervals.iter().filter(|c| c.from <= ret.instant());
        let sent_others = !case.requests_of(release.id).is_empty();
        let is_over = ret.at == release.call.at || sent_others;
        (is_over && !earlier.any(disturbs)).then_some(Moment::from(ret))
    });
    returned.min()
}

/// When a release first reported that it removed the key of its grant, or that there was none
/// although it had reached the key. With several nodes, the outcome is about a majority. So it
/// counts for the nodes that the release reached while they had the key, or for all if fewer than a
/// quorum replied. It says nothing about a key that was set later, for example by a delayed
/// re-entry.
fn denied_from(case: &Case, key: &KeyLife, owner: OpId) -> Option<Moment> {
    let of_all = |release: &Op| {
        let is_certain = case.terms.queries_one_node() || !is_confirmed(case, release);
        release.outcome == Outcome::Released && is_certain
    };
    first_answer(case, owner, |release| {
        let reached = came(case, key, release)
            || restored(case, key).any(|earlier| came(case, earlier, release));
        let speaks = of_all(release) && !was_missed(case, key, release) || reached;
        speaks && !hands_on(case, key, release)
    })
}

/// Whether a release handed the key to its owner, as to a re-entry whose caller gave it up: what it
/// removed is another key.
fn hands_on(case: &Case, key: &KeyLife, release: &Op) -> bool {
    key.by != Some(release.id) && case.history.keys[key.born].by == Some(release.id)
}

/// Whether a quorum of nodes replied to a release without an error, or no requests are recorded.
fn is_confirmed(case: &Case, release: &Op) -> bool {
    let own = case.requests_of(release.id).iter();
    let replied = own.filter(|request| request.is_answered() && !request.declined);
    let nodes = replied.map(|request| request.to.as_str()).collect::<BTreeSet<_>>();
    case.history.requests.is_empty() || nodes.len() >= case.terms.site.quorum as usize
}

/// The earlier lives of a key that a restart restored.
fn restored<'c, 'a>(
    case: &'c Case<'a>,
    key: &'c KeyLife<'a>,
) -> impl Iterator<Item = &'c KeyLife<'a>> {
    let is_restored = !was_set_by_command(case, key);
    let lives = case.lives.lives.iter().filter(move |_| is_restored);
    let is_same = |life: &&KeyLife| (life.node, life.name) == (key.node, key.name);
    lives.filter(is_same).filter(|life| life.by == key.by && life.from < key.from)
}

/// Whether a command set the key: its node did not put it back at a restart.
fn was_set_by_command(case: &Case, key: &KeyLife) -> bool {
    let by = case.history.keys[key.born].by;
    let mut own = by.iter().flat_map(|by| case.requests_of(*by));
    own.any(|request| {
        let applied = request.at(Leg::Applied).is_some_and(|at| at.at == key.from.at);
        applied && request.to == key.node && !request.declined
    })
}

/// When a release that gave up an acquire's key first returned as released or not mine, among those
/// that `speaks` selects.
fn first_answer(case: &Case, owner: OpId, speaks: impl Fn(&Op) -> bool) -> Option<Moment> {
    // "Not mine" is correct if another acquire of the tenure has set the key.
    let own = OpKind::Release { grant: owner };
    let answered = case.releases(owner).filter(|release| {
        let is_answer = release.outcome == Outcome::Released
            || release.outcome == Outcome::NotMine && release.kind == own;
        is_answer && speaks(release)
    });
    answered.filter_map(|release| release.ret).map(Moment::from).min()
}

/// Whether a command set a key after a release had returned or had reached its node. A key that a
/// restart restored was set earlier. A key that an extend set does not count.
fn was_missed(case: &Case, key: &KeyLife, release: &Op) -> bool {
    let setter = key.by.and_then(|by| case.op(by));
    if setter.is_some_and(|op| matches!(op.kind, OpKind::Extend { .. })) {
        return false;
    }
    let returned = release.ret.is_some_and(|ret| Moment::from(ret) < key.from);
    let to_node = case.requests_of(release.id).iter().filter(|request| request.to == key.node);
    let mut accepted = to_node.filter(|request| !request.declined);
    let was_before =
        |request: &&Request| request.at(Leg::Applied).is_some_and(|at| Moment::from(at) < key.from);
    was_set_by_command(case, key) && (returned || accepted.any(was_before))
}

/// Whether a release reached the node of a key while the key existed, and the reply was no error.
fn came(case: &Case, key: &KeyLife, release: &Op) -> bool {
    let returned = release.ret.map_or(Moment::NEVER, Moment::from);
    let mut sent = case.requests_of(release.id).iter().filter(|request| request.to == key.node);
    sent.any(|request| {
        let applied = request.at(Leg::Applied).map(Moment::from);
        !request.declined
            && concerns(request)
            && applied.is_some_and(|applied| key.from <= applied && applied <= returned)
    })
}

/// How a key reached its node and how it was meant to be freed.
struct Way<'a> {
    owner: OpId,
    node: &'a str,
    /// The requests of the operation that created it.
    own: &'a [&'a Request],
    /// When the creating request was sent, if it went to the node.
    created: Option<Instant>,
    /// Whether the creator is the owner's acquire, which may free by a script; an extend may not.
    by_acquire: bool,
}

impl<'a> Way<'a> {
    fn of(case: &'a Case<'a>, key: &KeyLife<'a>, owner: OpId) -> Way<'a> {
        let creator = key.by.unwrap_or(owner);
        let own = case.requests_of(creator);
        let requests_there =
            own.iter().filter(|request| request.to == key.node && !deletes(request));
        // Of a key that another handed to the owner, the owner's last request before that.
        let is_handed = key.by.is_some() && case.history.keys[key.born].by != key.by;
        let counts = |applied: &Instant| !is_handed || Moment::from(*applied) < key.from;
        let created = requests_there.min_by_key(|request| {
            let applied = request.at(Leg::Applied).filter(counts);
            applied.map_or(u64::MAX, |applied| applied.seq.abs_diff(key.from.seq))
        });
        let created = created.and_then(|request| tried(request));
        Way { owner, node: key.node, own, created, by_acquire: creator == owner }
    }

    /// Whether a request went to the key's node after the one that created the key. A key that
    /// arrived by replication counts as reached by a request to any node.
    fn follows(&self, request: &Request) -> bool {
        let to_node = self.created.is_none() || request.to == self.node;
        to_node && tried(request) > self.created
    }

    /// Whether the operation that created the key meant to free it at once: it was one of several
    /// tries, or came too late. A request that reached the key and left it in place was no
    /// clean-up.
    fn was_cleaned(&self, key: &KeyLife) -> bool {
        let frees = |request: &Request| deletes(request) || self.by_acquire && request.is_script();
        let spared = |request: &Request| {
            let applied = request.at(Leg::Applied).map(Moment::from);
            request.to == self.node
                && !request.declined
                && applied.is_some_and(|at| key.from <= at && at.at < key.to.at)
        };
        let mut later = self.own.iter().filter(|request| self.follows(request));
        later.any(|request| frees(request) && !spared(request))
    }

    /// Whether the owner sent a request that may have freed the key, died in its release, or looked
    /// for its node in vain.
    fn was_released(&self, case: &Case) -> bool {
        let own = case.ops_of(self.owner).filter(|op| matches!(op.kind, OpKind::Release { .. }));
        own.chain(case.releases(self.owner)).any(|op| {
            let died = || case.death_after(&op.process, op.call.into()).is_some();
            let sent = case.requests_of(op.id).iter();
            let mut freeing = sent.filter(|request| may_free(request));
            let freed = freeing.any(|request| self.follows(request));
            freed || op.ret.is_none() && died() || looked_for_a_node(case, op)
        })
    }
}

/// The leftovers without which the acquire would have reached its quorum with one of its tries, and
/// how that try met each of them.
fn blocking<'a>(
    case: &Case,
    leftovers: &'a [Leftover<'a>],
    requests: &[&Request],
    op: &Op,
) -> Vec<(&'a Leftover<'a>, Met)> {
    if !op.is_refused() && !case.terms.queries_one_node() {
        return Vec::new();
    }
    let mut blocking = leftovers
        .iter()
        .filter(|leftover| {
            let is_denied = leftover.denied.is_some_and(|denied| denied <= op.call.into());
            is_denied || case.caller(leftover.owner) != case.caller(op.id)
        })
        .filter_map(|leftover| {
            let mut met = met(case, leftover, requests, op).into_iter();
            Some((leftover, met.find(|met| !is_excused(case, leftover, op, met.at))?))
        })
        .collect::<Vec<_>>();
    if case.by_member {
        return if is_full_without(case, &blocking, op) { Vec::new() } else { blocking };
    }
    if !op.is_refused() {
        return blocking;
    }
    // A node that granted this acquire its key did not block it.
    let mine = case.lives.lives.iter().filter(|key| key.by == Some(op.id));
    let mine = mine.map(|key| key.node).collect::<BTreeSet<_>>();
    blocking.retain(|(leftover, _)| !mine.contains(leftover.key.node));
    let nodes = blocking.iter().map(|(leftover, _)| leftover.key.node).collect::<BTreeSet<_>>();
    let quorum = case.terms.site.quorum as usize;
    if mine.len() >= quorum || mine.len() + nodes.len() < quorum {
        blocking.clear();
    }
    blocking
}

/// Whether the lock was full without these members when an acquire last met one of them: then they
/// did not keep it out.
fn is_full_without(case: &Case, blocking: &[(&Leftover, Met)], op: &Op) -> bool {
    let Some((last, met)) = blocking.iter().max_by_key(|(_, met)| met.at) else { return true };
    let is_there = |life: &KeyLife| life.from <= met.at && met.at < life.to;
    let is_blocking = |born| blocking.iter().any(|(leftover, _)| leftover.key.born == born);
    let others = case.lives.lives.iter().filter(|life| {
        life.node == last.key.node
            && is_there(life)
            && life.by != Some(op.id)
            && !is_blocking(life.born)
    });
    others.count() >= case.terms.holders as usize
}

/// From the victim's call to its refusal, or to the try that failed if another try followed.
fn violation(case: &Case, blocking: &[(&Leftover, Met)], victim: &Op) -> Violation {
    let ops = blocking.iter().map(|(leftover, _)| leftover.owner).chain([victim.id]);
    let mut ops = ops.collect::<Vec<_>>();
    ops.sort_unstable();
    ops.dedup();
    let keys = blocking.iter().map(|(leftover, _)| leftover.key.born).collect();
    let from = victim.call.instant();
    let last = blocking.iter().map(|(_, met)| met).max_by_key(|met| met.at);
    let to = match (last, victim.ret) {
        (Some(met), _) if !met.was_last => met.at.instant(case.history),
        (_, ret) => ret.map_or(case.history.end, |ret| ret.instant()),
    };
    Violation { ops, keys, ..Violation::new(Kind::Leak, from, to) }
}
