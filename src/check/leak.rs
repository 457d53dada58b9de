//! Leaks: keys that nobody owns any more and that made another's acquire fail.
//!
//! Left over is a key of an acquire that was told refused or unknown, or one that lives on after
//! its owner's release returned as released. A key with a time to live is excused if its owner
//! died, or tried to free it: the lock did its part, and the time to live bounds the rest. A key
//! without one is excused only while its owner is in a hold.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_sim::time::Instant;
use lockstorm_sim::trace::Leg;

use crate::check::case::Case;
use crate::check::{Kind, Violation};
use crate::history::{Op, OpId, OpKind, Outcome, Request};
use crate::reading::incarnation::Incarnation;
use crate::reading::moment::Moment;

/// A key from the moment on at which nobody owned it.
struct Leftover<'a> {
    key: &'a Incarnation<'a>,
    by: OpId,
    from: Moment,
    freed: bool,
}

/// One violation for each set of acquires whose leftovers made another's acquire fail, with the
/// first acquire that failed.
pub fn violations(case: &Case) -> Vec<Violation> {
    let mut requests = Vec::new();
    let mut leftovers = Vec::new();
    for key in &case.lives.incarnations {
        let Some((by, from)) = left_over_from(case, key) else { continue };
        if requests.is_empty() {
            requests = requests_by_op(case);
        }
        let freed = tried_to_free(case, &requests, key, by);
        leftovers.push(Leftover { key, by, from, freed });
    }
    if leftovers.is_empty() {
        return Vec::new();
    }
    let refused = case.acquires().filter(|op| matches!(op.outcome, Outcome::Refused { .. }));
    let mut found: BTreeMap<BTreeSet<OpId>, Violation> = BTreeMap::new();
    for op in refused {
        let blocking = blocking(case, &leftovers, &requests[op.id as usize], op);
        if !blocking.is_empty() {
            let leakers = blocking.iter().map(|leftover| leftover.by).collect();
            found.entry(leakers).or_insert_with(|| violation(case, &blocking, op));
        }
    }
    found.into_values().collect()
}

/// The acquire that left the key, and from when on nobody owned it.
fn left_over_from(case: &Case, key: &Incarnation) -> Option<(OpId, Moment)> {
    let op = case.op(key.by?).filter(|op| op.kind == OpKind::Acquire)?;
    let told = match op.outcome {
        Outcome::Refused { .. } | Outcome::Unknown => op.ret?.into(),
        Outcome::Granted { .. } => released_at(case, op.id)?,
        _ => return None,
    };
    let from = key.from.max(told);
    (from < key.to).then_some((op.id, from))
}

fn released_at(case: &Case, grant: OpId) -> Option<Moment> {
    let releases = case.ops_of(grant).filter(|op| op.outcome == Outcome::Released);
    releases.filter_map(|op| op.ret).map(Moment::from).min()
}

fn requests_by_op<'a>(case: &Case<'a>) -> Vec<Vec<&'a Request>> {
    let mut by_op = vec![Vec::new(); case.history.ops.len()];
    for request in &case.history.requests {
        if let Some(requests) = by_op.get_mut(request.op as usize) {
            requests.push(request);
        }
    }
    by_op
}

/// Whether the owner sent something to free the key, to the node that it had asked for it. A key
/// that came by replication counts as freed by what was sent to any node.
fn tried_to_free(case: &Case, requests: &[Vec<&Request>], key: &Incarnation, by: OpId) -> bool {
    let own = &requests[by as usize];
    let asked = own.iter().filter(|request| request.to == key.node);
    let born = key.from.seq;
    let created = asked.filter(|request| !deletes(request)).min_by_key(|request| {
        leg(request, Leg::Applied).map_or(u64::MAX, |applied| applied.seq.abs_diff(born))
    });
    let created = created.and_then(|request| tried(request));
    let to_node = |request: &Request| created.is_none() || request.to == key.node;
    let cleaned = own.iter().any(|request| {
        let later = tried(request) > created;
        to_node(request) && later && (deletes(request) || is_script(request))
    });
    let releases = case.ops_of(by).filter(|op| matches!(op.kind, OpKind::Release { .. }));
    let mut releasing = releases.flat_map(|op| &requests[op.id as usize]);
    cleaned || releasing.any(|request| to_node(request) && tried(request) > created)
}

fn deletes(request: &Request) -> bool {
    matches!(request.command.as_str(), "DEL" | "UNLINK")
}

fn is_script(request: &Request) -> bool {
    matches!(request.command.as_str(), "EVAL" | "EVALSHA")
}

/// When the client set out to send it; it may never have come to that.
fn tried(request: &Request) -> Option<Instant> {
    request.legs.first().map(|(_, at)| *at)
}

fn leg(request: &Request, leg: Leg) -> Option<Instant> {
    request.legs.iter().find(|(found, _)| *found == leg).map(|(_, at)| *at)
}

/// The leftovers without which the refused acquire would have had its quorum.
fn blocking<'a>(
    case: &Case,
    leftovers: &'a [Leftover<'a>],
    requests: &[&Request],
    op: &Op,
) -> Vec<&'a Leftover<'a>> {
    let Some(ret) = op.ret else { return Vec::new() };
    let mut blocking = leftovers
        .iter()
        .filter(|leftover| case.caller(leftover.by) != case.caller(op.id))
        .filter(|leftover| {
            met_at(leftover, requests, (op.call.into(), ret.into()))
                .is_some_and(|moment| !is_excused(case, leftover, moment))
        })
        .collect::<Vec<_>>();
    let mine = case.lives.incarnations.iter().filter(|key| key.by == Some(op.id));
    let mine = mine.map(|key| key.node).collect::<BTreeSet<_>>();
    blocking.retain(|leftover| !mine.contains(leftover.key.node));
    let nodes = blocking.iter().map(|leftover| leftover.key.node).collect::<BTreeSet<_>>();
    let quorum = case.terms.quorum as usize;
    if mine.len() >= quorum || mine.len() + nodes.len() < quorum {
        blocking.clear();
    }
    blocking
}

/// When an acquire met the leftover: when its first request there was applied; for an acquire
/// whose requests are not known, any moment of it.
fn met_at(leftover: &Leftover, requests: &[&Request], op: (Moment, Moment)) -> Option<Moment> {
    let (from, to) = (leftover.from, leftover.key.to);
    if requests.is_empty() {
        let moment = from.max(op.0);
        return (moment < to && moment <= op.1).then_some(moment);
    }
    let first = requests.iter().find(|request| request.to == leftover.key.node)?;
    let moment = Moment::from(leg(first, Leg::Applied)?);
    (from <= moment && moment < to).then_some(moment)
}

fn is_excused(case: &Case, leftover: &Leftover, moment: Moment) -> bool {
    if !has_ttl(case, leftover.key, moment) {
        let owner = case.caller(leftover.by);
        let mut holds = case.holds.iter().filter(|hold| hold.owner == owner);
        return holds.any(|hold| hold.start <= moment && moment < hold.end);
    }
    let Some(op) = case.op(leftover.by) else { return false };
    let death = case.death_after(&op.process, op.call.into());
    leftover.freed || death.is_some_and(|death| death.at <= moment)
}

/// Whether the key was to end by itself, as it stood at that moment.
fn has_ttl(case: &Case, key: &Incarnation, moment: Moment) -> bool {
    let changes = case.history.keys[key.born..].iter();
    let changes = changes.take_while(|change| Moment::from(change.at) <= moment);
    let own = changes.filter(|change| change.node == key.node && change.key == case.terms.lock_key);
    own.last().is_some_and(|change| change.until_ms.is_some())
}

fn violation(case: &Case, blocking: &[&Leftover], victim: &Op) -> Violation {
    let ops = blocking.iter().map(|leftover| leftover.by).chain([victim.id]);
    let mut ops = ops.collect::<Vec<_>>();
    ops.sort_unstable();
    ops.dedup();
    let keys = blocking.iter().map(|leftover| leftover.key.born).collect();
    let from = victim.call.instant();
    let to = victim.ret.map_or(case.history.end, |ret| ret.instant());
    Violation { ops, keys, ..Violation::new(Kind::Leak, from, to) }
}
