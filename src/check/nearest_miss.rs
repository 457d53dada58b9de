//! How close a run came to a violation, or how far it went past one. The figure of a tenure that
//! wrote is the time from its last guarded write to the next instant at which another caller could
//! have acquired the lock. If another caller already could at that write, the figure is negative:
//! the time since it could. A write that was in flight when its tenure was released does not count:
//! nothing guards it any longer, and how late it came is judged by what it overwrote.
//!
//! Another caller can acquire the lock if a quorum of seats is free. A seat is a single node, or a
//! group of nodes that replicate each other. It is free while its master (of several, the one that
//! was promoted last) runs and has no key that counts; a halted master lets nobody in. So a
//! replica's keys count only from its promotion on. A seat that is free for no time at all lets
//! nobody in.
//!
//! A key of the tenure counts until its lease expires by its node's wall clock, as if its owner had
//! not sent the release that ended its hold. A key that anything else ended counts until that end:
//! another caller's command, a flush, a restart, an eviction, an acquire that gives up a try, the
//! release of a grant inside a longer hold. If the next acquire of its own caller takes it over, or
//! an older release counts it down, it continues to count. A key from before the grant that is not
//! the tenure's own counts until its end, whoever set it and even if a start restored it: while it
//! exists, nobody can acquire the lock.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::trace::KeyChange;
use serde::{Deserialize, Serialize};

use crate::check::case::Case;
use crate::check::leak;
use crate::default::is_default;
use crate::history::{AccessKind, Op, OpId, OpKind};
use crate::reading::key_life::{KeyLife, LifeEnd};
use crate::reading::leaders;
use crate::reading::moment::Moment;

/// The nearest miss of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearestMiss {
    /// From the write to the moment at which another caller could have acquired the lock, ns;
    /// negative: the write was too late.
    pub by: i64,
    /// The acquire that represents the tenure.
    pub grant: OpId,
    /// The index of the write among the accesses.
    pub write: usize,
    /// The last of the nodes needed by another caller to become free; empty if enough of them were
    /// free when the lock was granted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The change that created the key whose end made that node free, if it was one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key: Option<usize>,
    /// Whether that node had been halted until then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resumed: bool,
}

/// A stretch in which a node had a key that keeps others out.
#[derive(Clone, Copy)]
struct Presence<'a> {
    node: &'a str,
    /// The change that created the key.
    born: usize,
    from: Moment,
    to: Moment,
}

/// A node and the periods in which it was a master: whether it was promoted, from when, to when.
struct Seated<'a> {
    node: &'a str,
    leads: Vec<(bool, Moment, Moment)>,
}

/// The nearest miss of the run, over the tenures that wrote. `None` if no tenure wrote, or none of
/// their keys expires.
pub fn nearest(case: &Case) -> Option<NearestMiss> {
    // Several holders may share a key, so its end does not let another caller in.
    if case.can_overlap() {
        return None;
    }
    let last = last_writes(case);
    let mut keys: BTreeMap<OpId, Vec<Presence>> = BTreeMap::new();
    for (life, key) in case.lives.lives.iter().enumerate() {
        let owner = key.by.and_then(|by| case.owner(by)).map(|owner| case.outermost(owner));
        if let Some(owner) = owner.filter(|owner| last.contains_key(owner)) {
            keys.entry(owner).or_default().extend(own(case, (life, key), owner));
        }
    }
    if keys.is_empty() {
        return None;
    }
    let seats = seats(case);
    let misses = last.into_iter().filter_map(|(grant, (write, at))| {
        let mut known = keys.remove(&grant).unwrap_or_default();
        known.extend(older(case, grant));
        let (free, node, key) = free_at(case, grant, at, &known, &seats)?;
        let by = i64::try_from(i128::from(free.at) - i128::from(at.at)).unwrap_or(i64::MAX);
        let resumed = !node.is_empty() && resumes(case, node, free);
        Some(NearestMiss { by, grant, write, node: node.to_owned(), key, resumed })
    });
    misses.min_by_key(|miss| miss.by)
}

/// The stretches in which a tenure's key existed, also after its own caller's next acquire took it
/// over or an older release counted it down.
fn own<'a>(case: &Case<'a>, (life, key): (usize, &KeyLife<'a>), owner: OpId) -> Vec<Presence<'a>> {
    let mut found = presences(case, key, gone_at(case, (life, key), owner));
    let by = key.ended.and_then(|end| case.op(end.by?));
    let by = by.filter(|by| case.caller(by.id) == case.caller(owner));
    let goes_on = by.is_some_and(|by| match by.kind {
        OpKind::Acquire => true,
        OpKind::Release { .. } => releases(case, owner).all(|release| release.id != by.id),
        _ => false,
    });
    let mut lives = case.lives.lives.iter().enumerate();
    let is_next = |next: &KeyLife| {
        let stays = |end: LifeEnd| matches!(end.change, KeyChange::Set | KeyChange::Changed);
        key.ended.is_some_and(|end| stays(end) && next.born == end.key)
    };
    if let Some(next) = lives.find(|(_, next)| goes_on && is_next(next)) {
        let new = next.1.by.and_then(|by| case.owner(by)).map(|new| case.outermost(new));
        found.extend(own(case, next, new.unwrap_or(owner)));
    }
    found
}

/// The keys from before a tenure's grant that are not its own, each with its real end: as long as
/// one exists on the node that leads, it keeps everybody out.
fn older<'a>(case: &Case<'a>, grant: OpId) -> Vec<Presence<'a>> {
    let Some(tenure) = case.tenure(grant) else { return Vec::new() };
    let start = tenure.whole.start;
    // Most keys ended before the grant: the first comparison leaves them out.
    let older = case.lives.lives.iter().filter(|key| key.to > start).filter(|key| {
        let owner = key.by.and_then(|by| case.owner(by)).map(|owner| case.outermost(owner));
        let set = &case.history.keys[key.born];
        let is_older = set.change == KeyChange::Set && case.is_from_before(set, start);
        is_older && owner.is_some_and(|owner| owner != grant)
    });
    older.flat_map(|key| presences(case, key, case.gone(key))).collect()
}

fn presences<'a>(case: &Case, key: &KeyLife<'a>, gone: Moment) -> Vec<Presence<'a>> {
    let (node, born) = (key.node, key.born);
    let stretches = case.presence(key, gone).into_iter();
    stretches.map(|(from, to)| Presence { node, born, from, to }).collect()
}

/// The last accepted change in each tenure before its release, keyed by the acquire that represents
/// the tenure.
fn last_writes(case: &Case) -> BTreeMap<OpId, (usize, Moment)> {
    let accesses = case.history.accesses.iter().enumerate();
    let writes = accesses.filter(|(_, access)| access.accepted && access.kind != AccessKind::Read);
    let granted = writes.filter_map(|(write, access)| Some((access.grant?, write, access.at)));
    let granted = granted.filter(|(grant, ..)| case.is_granted(*grant));
    let guarded = granted.map(|(grant, write, at)| (case.outermost(grant), (write, at.into())));
    guarded.filter(|(owner, (_, at))| !was_released(case, *owner, *at)).collect()
}

/// Whether a release that ends the tenure had been called by then.
fn was_released(case: &Case, owner: OpId, by: Moment) -> bool {
    releases(case, owner).any(|op| Moment::from(op.call) <= by)
}

/// The releases of a tenure after whose call none of its grants lasts.
fn releases<'c>(case: &'c Case, owner: OpId) -> impl Iterator<Item = &'c Op> {
    let tenure = case.tenure(owner).into_iter();
    tenure.flat_map(|tenure| {
        let own = tenure.acquires.iter().flat_map(|grant| case.ops_of(*grant));
        let releases = own.filter(|op| matches!(op.kind, OpKind::Release { .. }));
        releases.filter(|op| tenure.whole.end <= op.call.into())
    })
}

/// The seats that an acquire queries. If it queries one node, the nodes that had the lock's key
/// form one seat, together with their groups.
fn seats<'a>(case: &Case<'a>) -> Vec<Vec<Seated<'a>>> {
    let had = case.lives.lives.iter().map(|key| key.node).collect::<BTreeSet<_>>();
    let groups = leaders::groups(case);
    let promoted = leaders::promoted(case);
    let promoted: BTreeSet<(&str, Moment)> =
        promoted.iter().map(|seen| (seen.by.as_str(), seen.at.into())).collect();
    let seated = |node: &'a str| {
        let reigns = leaders::reigns(case, node).into_iter();
        let leads = reigns.map(|(from, to)| (promoted.contains(&(node, from)), from, to));
        Seated { node, leads: leads.collect() }
    };
    if case.terms.site.queried <= 1 {
        let nodes = groups.into_iter().filter(|group| !group.is_disjoint(&had)).flatten();
        let nodes = nodes.chain(had.iter().copied()).collect::<BTreeSet<_>>();
        return vec![nodes.into_iter().map(seated).collect()];
    }
    let queried = contacted_nodes(case);
    let grouped = groups.iter().flatten().copied().collect::<BTreeSet<_>>();
    let alone = queried.difference(&grouped).map(|node| BTreeSet::from([*node]));
    let alone = alone.collect::<Vec<_>>();
    let seats = groups.into_iter().filter(|group| !group.is_disjoint(&queried)).chain(alone);
    seats.map(|seat| seat.into_iter().map(seated).collect()).collect()
}

/// The nodes to which acquires were sent: their keys decide. All nodes if that is not known.
fn contacted_nodes<'a>(case: &Case<'a>) -> BTreeSet<&'a str> {
    let queried = case.nodes_of(|request| {
        case.terms.site.has_node(&request.to)
            && case.op(request.op).is_some_and(|op| op.is_on(&case.terms.lock_key))
    });
    if queried.is_empty() {
        return case.history.keys.iter().map(|key| key.node.as_str()).collect();
    }
    queried
}

/// The moment since which enough seats were free, at a tenure's last write, for another caller to
/// reach its quorum; if too few were, the moment at which enough next were. With it, the last of
/// those nodes to become free, and the key whose end freed it, if one did. No node if enough were
/// free from the grant on.
fn free_at<'a>(
    case: &Case,
    grant: OpId,
    wrote: Moment,
    keys: &[Presence<'a>],
    seats: &[Vec<Seated<'a>>],
) -> Option<(Moment, &'a str, Option<usize>)> {
    let start = case.tenure(grant)?.whole.start;
    let mut moments = BTreeSet::from([start, wrote]);
    let reigns = seats.iter().flatten().flat_map(|seated| &seated.leads);
    moments.extend(reigns.flat_map(|(_, from, to)| [*from, *to]));
    moments.extend(keys.iter().flat_map(|key| [key.from, key.to]));
    let halts = seats.iter().flatten().flat_map(|seated| case.halts(seated.node));
    moments.extend(halts.flat_map(|halt| [halt.from, halt.to]));
    let has_key = |node: &str, at: Moment| {
        let mut own = keys.iter().filter(|key| key.node == node);
        own.any(|key| key.from <= at && at < key.to)
    };
    let free = |at: Moment| seats.iter().filter_map(move |seat| leader(seat, at));
    let free = |at: Moment| {
        free(at).filter(move |(_, node)| !has_key(node, at) && !case.is_halted(node, at))
    };
    let is_enough = |at: Moment| free(at).count() >= (case.terms.site.quorum as usize).max(1);
    let moments: Vec<Moment> =
        moments.into_iter().filter(|at| start <= *at && *at < Moment::NEVER).collect();
    // A started node leads before its keys are restored, at the same time: nobody can acquire in
    // between.
    let is_free = |at: Moment| {
        let later = moments.partition_point(|other| *other < at);
        let mut then = moments[later..].iter().take_while(|other| other.at == at.at);
        then.all(|other| is_enough(*other))
    };
    let then = moments.partition_point(|at| *at <= wrote);
    // The beginning of the free stretch that contains the write, if there is one.
    let before = moments[..then].iter().rev().take_while(|at| is_free(**at)).last();
    let found = *before.or_else(|| moments[then..].iter().find(|at| is_free(**at)))?;
    if found == start {
        return Some((found, "", None));
    }
    let gone = |node: &str| keys.iter().find(|key| key.node == node && key.to == found);
    let last = free(found).find(|(since, node)| {
        *since == found || gone(node).is_some() || resumes(case, node, found)
    });
    let (_, node) = last.or_else(|| free(found).next())?;
    Some((found, node, gone(node).map(|key| key.born)))
}

/// Whether a node resumes from a halt at a moment.
fn resumes(case: &Case, node: &str, at: Moment) -> bool {
    case.halts(node).any(|halt| halt.to == at)
}

/// The node of a seat that is master at a moment, and since when. Of several masters it is the one
/// that was promoted last, which the others follow once they learn of it; a node that was started
/// as a master ranks below a promoted one.
fn leader<'a>(seat: &[Seated<'a>], at: Moment) -> Option<(Moment, &'a str)> {
    let reign = |seated: &Seated<'a>| {
        let (promoted, from, _) =
            seated.leads.iter().rfind(|(_, from, to)| *from <= at && at < *to)?;
        Some((*promoted, *from, seated.node))
    };
    seat.iter().filter_map(reign).max().map(|(_, since, node)| (since, node))
}

/// When a key would have expired or been lost without the release that ended its owner's hold.
fn gone_at(case: &Case, (life, key): (usize, &KeyLife), owner: OpId) -> Moment {
    let by_time = case.passes(key);
    let Some(end) = key.ended else { return by_time };
    // A flush deletes without an operation.
    let by_release = end.by.is_some_and(|by| releases(case, owner).any(|op| op.id == by));
    match end.change {
        KeyChange::Expired => by_time,
        KeyChange::Deleted | KeyChange::Set if by_release => by_time,
        // Its owner's release had marked it as free.
        KeyChange::Changed if leak::marked_at(case, life, owner).is_some() => by_time,
        _ => by_time.min(key.to),
    }
}
