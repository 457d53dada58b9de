//! The votes of a grant: the keys by which a quorum of independent nodes granted it.

use std::collections::BTreeSet;

use lockstorm_platform::trace::Leg;

use crate::explain::life::StoryLife;
use crate::explain::witness::Witness;
use crate::history::{Key, OpId, Request};
use crate::lock::config::QuorumOf;
use crate::plan::TopologyKind;
use crate::reading::tries::tries;

/// The key changes that an acquire counted when it returned as granted, by index: each was made by
/// the last try on its node, and the reply had come. A key that an earlier try left is none: the
/// caller gave up that try.
///
/// `None` for a lock that needs no quorum of independent nodes, and if these are less than a
/// quorum: then the acquire counted its keys in another way. A lock whose quorum is one of the
/// nodes that it reached counts as few as it pleases.
pub fn votes(witness: &Witness<'_>, grant: OpId) -> Option<BTreeSet<usize>> {
    if witness.finding.plan.topology.kind != TopologyKind::Independent {
        return None;
    }
    let ret = witness.reading.op(grant)?.ret.filter(|_| witness.reading.is_granted(grant))?;
    let requests = witness.reading.requests_of(grant);
    let grants = |key: &Key, request: &&Request| {
        let is_by_it = request.at(Leg::Applied).is_some_and(|at| at.at == key.at.at);
        is_by_it && request.at(Leg::Delivered).is_some_and(|reply| reply <= ret.instant())
    };
    let is_vote = |key: &Key| {
        let is_set = key.change.leaves_key();
        let is_own = key.by == Some(grant) && key.key == witness.reading.lock_key;
        is_set && is_own && {
            let tries = tries(requests, &key.node);
            tries.last().is_some_and(|last| last.iter().any(|request| grants(key, request)))
        }
    };
    let keys = || witness.history().keys.iter().enumerate();
    let votes: BTreeSet<usize> =
        keys().filter(|(_, key)| is_vote(key)).map(|(index, _)| index).collect();
    let nodes = votes.iter().map(|index| &witness.history().keys[*index].node);
    let nodes = nodes.collect::<BTreeSet<_>>().len();
    let least = match witness.finding.plan.lock.quorum_of {
        QuorumOf::All => witness.quorum() as usize,
        QuorumOf::Connected => 1,
    };
    (nodes >= least).then_some(votes)
}

/// Whether an earlier try of a granted acquire left a key, which its caller did not count.
pub fn is_of_earlier_try(witness: &Witness<'_>, life: &StoryLife) -> bool {
    let born = &witness.history().keys[life.born];
    let by_command = born.by.filter(|_| witness.reading.is_by_command(born));
    let votes = by_command.and_then(|by| votes(witness, by));
    votes.is_some_and(|votes| !votes.contains(&life.born))
}

/// The nodes by which an acquire was granted, if they are less than a quorum of all: then it never
/// kept others out.
pub fn too_few(witness: &Witness<'_>, grant: OpId) -> Option<BTreeSet<String>> {
    let votes = votes(witness, grant)?;
    let node = |index: &usize| witness.history().keys[*index].node.to_string();
    let nodes: BTreeSet<String> = votes.iter().map(node).collect();
    (nodes.len() < witness.quorum() as usize).then_some(nodes)
}
