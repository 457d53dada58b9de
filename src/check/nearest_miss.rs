//! How near a run that held came to a violation: for each tenure the time from its last guarded
//! write to the instant at which its lease would have let another in.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_sim::trace::KeyChange;

use crate::check::case::Case;
use crate::history::{AccessKind, OpId};
use crate::reading::incarnation::Incarnation;
use crate::reading::leaders;
use crate::reading::moment::Moment;

/// The smallest distance of the run in nanoseconds, over the tenures that wrote.
pub fn nearest(case: &Case) -> Option<i64> {
    let last = last_writes(case);
    let mut keys: BTreeMap<OpId, Vec<&Incarnation>> = BTreeMap::new();
    for key in &case.lives.incarnations {
        let owner = key.by.and_then(|by| case.owner(by)).map(|owner| case.outermost(owner));
        if let Some(owner) = owner.filter(|owner| last.contains_key(owner)) {
            keys.entry(owner).or_default().push(key);
        }
    }
    let asked = asked_nodes(case);
    let misses = keys.iter().filter_map(|(grant, keys)| {
        let free = free_at(case, keys, &asked)?;
        Some(i64::try_from(i128::from(free.at) - i128::from(last[grant].at)).unwrap_or(i64::MAX))
    });
    misses.min()
}

/// The last accepted change in each tenure, by the acquire that stands for it.
fn last_writes(case: &Case) -> BTreeMap<OpId, Moment> {
    let accesses = case.history.accesses.iter();
    let writes = accesses.filter(|access| access.accepted && access.kind != AccessKind::Read);
    let granted = writes.filter_map(|access| Some((access.grant?, access.at.into())));
    let granted = granted.filter(|(grant, _)| case.is_granted(*grant));
    granted.map(|(grant, at)| (case.outermost(grant), at)).collect()
}

/// The nodes that acquires were sent to: those whose keys decide. All, if it is not known.
fn asked_nodes<'a>(case: &Case<'a>) -> BTreeSet<&'a str> {
    let requests = case.history.requests.iter();
    let sent = requests
        .filter(|request| case.op(request.op).is_some_and(|op| op.object == case.terms.lock_key));
    let asked = sent.map(|request| request.to.as_str()).collect::<BTreeSet<_>>();
    if asked.is_empty() {
        return case.history.keys.iter().map(|key| key.node.as_str()).collect();
    }
    asked
}

/// When, had nobody released, so many of a tenure's keys would have ended that another could get
/// its quorum from them and the nodes that never held one.
fn free_at(case: &Case, keys: &[&Incarnation], asked: &BTreeSet<&str>) -> Option<Moment> {
    let mut ends: BTreeMap<&str, Moment> = BTreeMap::new();
    for key in keys.iter().filter(|key| asked.contains(key.node)) {
        let end = ends.entry(key.node).or_default();
        *end = (*end).max(end_of(case, key));
    }
    let untouched = asked.len() - ends.len();
    let needed = (case.terms.site.quorum as usize).saturating_sub(untouched).max(1);
    let mut ends = ends.into_values().collect::<Vec<_>>();
    ends.sort_unstable();
    ends.get(needed - 1).copied().filter(|end| *end != Moment::NEVER)
}

/// When another could have got a node without a release: once the key has ended there and the node
/// is up; never if it follows another by then.
fn end_of(case: &Case, key: &Incarnation) -> Moment {
    let mut end = gone_at(case, key);
    for down in case.history.conditions.iter().filter(|c| c.verb.kills() && c.strikes(key.node)) {
        if down.from.at < end.at {
            end = end.max(down.to.map_or(Moment::NEVER, Moment::from));
        }
    }
    let follows = leaders::follows(case.history, key.node, end.instant(case.history));
    if follows { Moment::NEVER } else { end }
}

/// When a key would have ended by itself.
fn gone_at(case: &Case, key: &Incarnation) -> Moment {
    let by_time = case.passes(key);
    match key.ended.map(|end| end.change) {
        Some(KeyChange::Evicted | KeyChange::LostAtRestart | KeyChange::LostAtFailover) => {
            by_time.min(key.to)
        }
        _ => by_time,
    }
}
