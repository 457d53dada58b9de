//! Renewals after the release, and renewals that set the key again.
//!
//! Only effects count: what an extend's own request changed on the node to which it was sent. A
//! renewal that finds no key of its owner does nothing, however late it arrives. What a replica
//! applies late was done in time by its master. An effect is a violation if
//! - the extend was invoked after a release of its tenure had returned, with any outcome, or
//! - it occurs after a release had returned as released or not mine, and the lock queries one node:
//!   with several, such an outcome proves nothing about a node that the extend reached late, or
//! - the extend creates the key although fewer nodes than grant the lock still had it.
//!
//! While a tenure lasts, a release of one of its grants makes no extend late. Keys of other callers
//! are not checked here: an extend of another caller's key is a foreign extend. An extend that
//! prolongs the key of its own caller's later tenure does no harm; one that overwrites that key is
//! late.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::trace::KeyChange;

use crate::check::case::Case;
use crate::check::verdict::{Kind, Violation};
use crate::history::{Key, Op, OpId, OpKind, Outcome};
use crate::reading::leaders::Leaders;
use crate::reading::moment::Moment;

/// One violation for each extend.
pub fn violations(case: &Case) -> Vec<Violation> {
    let mut late: BTreeMap<OpId, Vec<usize>> = BTreeMap::new();
    let met: BTreeMap<usize, usize> =
        case.lives.touches.iter().map(|touch| (touch.change, touch.met)).collect();
    for (index, change) in case.history.keys.iter().enumerate() {
        let Some((extend, grant)) = extend(case, change.by) else { continue };
        let prolongs = change.change.leaves_key();
        if !case.is_of_lock(change) || !prolongs || !made_by_request(case, extend, change) {
            continue;
        }
        let at = change.at.into();
        let is_late = match met.get(&index) {
            Some(met) => {
                let is_own = is_of(case, *met, grant)
                    || change.change == KeyChange::Set && is_of_caller(case, *met, grant);
                is_own && is_over(case, extend, grant, at)
            }
            None if change.change == KeyChange::Extended => false,
            None => is_over(case, extend, grant, at) || is_lost(case, grant, change),
        };
        if is_late {
            late.entry(extend.id).or_default().push(index);
        }
    }
    late.into_iter().map(|(extend, keys)| violation(case, extend, keys)).collect()
}

/// The extend that made a change, and the acquire to which it belongs.
fn extend<'a>(case: &Case<'a>, by: Option<OpId>) -> Option<(&'a Op, OpId)> {
    let op = case.op(by?)?;
    matches!(op.kind, OpKind::Extend { .. }).then_some((op, case.owner(op.id)?))
}

/// The acquire to which a key belongs.
fn owner(case: &Case, life: usize) -> Option<OpId> {
    case.leaver(&case.lives.lives[life])
}

/// Whether a key belongs to a grant's tenure.
fn is_of(case: &Case, life: usize, grant: OpId) -> bool {
    owner(case, life).is_some_and(|owner| case.are_one(owner, grant))
}

/// Whether a key belongs to any tenure of a grant's caller.
fn is_of_caller(case: &Case, life: usize, grant: OpId) -> bool {
    owner(case, life).is_some_and(|owner| case.caller(owner) == case.caller(grant))
}

/// Whether the operation's own request can have made a change, rather than a restart of the node
/// that restored it. Assumed if no requests are recorded.
fn made_by_request(case: &Case, op: &Op, change: &Key) -> bool {
    let mut applied = case.commands(op.id, &change.node).map(Moment::from);
    case.history.requests.is_empty()
        || applied.any(|at| !case.ended_within(&change.node, at, change.at.into()))
}

/// The first release of a tenure that had returned by then and makes the extend's effect late.
fn release_before<'a>(case: &Case<'a>, extend: &Op, grant: OpId, at: Moment) -> Option<&'a Op> {
    let is_sole = case.terms.queries_one_node();
    let returned =
        case.releases(grant).filter(|op| op.ret.is_some_and(|ret| Moment::from(ret) <= at));
    let late = returned.filter(|op| {
        let is_sure = matches!(op.outcome, Outcome::Released | Outcome::NotMine);
        let ret = op.ret.map_or(Moment::NEVER, Moment::from);
        Moment::from(extend.call) > ret || is_sure && is_sole
    });
    late.min_by_key(|op| op.ret.map(Moment::from))
}

fn is_over(case: &Case, extend: &Op, grant: OpId, at: Moment) -> bool {
    release_before(case, extend, grant, at).is_some()
}

/// Whether too few nodes had the tenure's key just before that moment, a master and its replicas
/// counted once. With one node no other node could have it.
fn is_lost(case: &Case, grant: OpId, change: &Key) -> bool {
    if case.terms.queries_one_node() {
        return true;
    }
    let leaders = Leaders::of(case.history);
    let at = Moment::from(change.at);
    let living = case.lives.lives.iter().enumerate().filter(|(_, key)| key.name == change.key);
    let theirs =
        living.filter(|(life, key)| key.from < at && at <= key.to && is_of(case, *life, grant));
    let nodes = theirs.map(|(_, key)| leaders.group(key.node)).collect::<BTreeSet<_>>();
    nodes.len() < case.terms.site.quorum as usize
}

fn violation(case: &Case, extend: OpId, keys: Vec<usize>) -> Violation {
    let at = |index: usize| case.history.keys[index].at;
    let (from, to) = (at(keys[0]), at(keys[keys.len() - 1]));
    let op = &case.history.ops[extend as usize];
    let grant = case.owner(extend);
    let release = grant.and_then(|grant| release_before(case, op, grant, to.into()));
    let mut ops = [grant, release.map(|op| op.id), Some(extend)];
    ops.sort_unstable();
    let ops = ops.into_iter().flatten().collect();
    Violation { ops, keys, ..Violation::new(Kind::RenewalAfterRelease, from, to) }
}
