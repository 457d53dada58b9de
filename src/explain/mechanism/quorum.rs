//! Two quorums of independent nodes that have no node in common.

use std::collections::BTreeSet;

use crate::explain::evidence::Evidence;
use crate::explain::hold::StoryHold;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::votes::{is_of_earlier_try, too_few};
use crate::explain::witness::Witness;
use crate::history::Key;
use crate::plan::TopologyKind;
use crate::quantity::list;
use crate::reading::moment::Moment;

/// The mechanism if the first tenure still had its key on a whole quorum when a quorum of others
/// had granted the second: then the end of no key let the second one in.
pub fn two_quorums(
    witness: &Witness<'_>,
    first: &StoryHold<'_>,
    second: &StoryHold<'_>,
    set: &[(usize, &Key)],
) -> Option<Mechanism> {
    let topology = &witness.finding.plan.topology;
    // Of a lock that names no quorum it is not known: it may ask no more nodes than it needs.
    let quorum = witness.finding.plan.lock.quorum?;
    let nodes = topology.masters();
    if topology.kind != TopologyKind::Independent || quorum > nodes / 2 {
        return None;
    }
    let at = Moment::from(set.iter().map(|(_, key)| key.at).max()?);
    let has = |life: &&StoryLife| {
        let is_own = life.owner.is_some_and(|owner| witness.is_of(first, owner));
        is_own && at < witness.gone(life) && !is_of_earlier_try(witness, life)
    };
    let kept: Vec<&StoryLife> = witness.lives.iter().filter(has).collect();
    let one: BTreeSet<&str> = kept.iter().map(|life| life.node.as_str()).collect();
    let other: BTreeSet<&str> = set.iter().map(|(_, key)| key.node.as_str()).collect();
    let are_quorums = [&one, &other].iter().all(|nodes| nodes.len() >= quorum as usize);
    if !are_quorums || !one.is_disjoint(&other) {
        return None;
    }
    let (who, next) = (&first.grant.caller, &second.grant.caller);
    let again = if who == next { " again" } else { "" };
    let names =
        |nodes: BTreeSet<&str>| list(&nodes.into_iter().map(str::to_owned).collect::<Vec<_>>());
    let text = format!(
        "{} granted {who} the lock, and {} {next}{again}: no node is in both, and none has to be \
         with a quorum of {quorum} of {nodes} nodes.",
        names(one),
        names(other)
    );
    let mut evidence = vec![Evidence::Op(first.grant.id), Evidence::Op(second.grant.id)];
    let born = kept.iter().map(|life| life.born);
    evidence.extend(born.chain(set.iter().map(|(index, _)| *index)).map(Evidence::Key));
    Some(Mechanism::new(How::TwoMajorities, text, evidence))
}

/// The mechanism if a tenure was granted by less than a quorum of all nodes.
pub fn without_quorum(witness: &Witness<'_>, tenure: &StoryHold<'_>) -> Option<Mechanism> {
    let nodes = too_few(witness, tenure.grant.id)?;
    let others = witness.finding.plan.topology.masters() as usize - nodes.len();
    let names = list(&nodes.into_iter().collect::<Vec<_>>());
    let who = &tenure.grant.caller;
    let text = format!(
        "{names} granted {who} the lock: the {others} other nodes are enough to grant it to \
         another."
    );
    Some(Mechanism::new(How::TwoMajorities, text, vec![Evidence::Op(tenure.grant.id)]))
}
