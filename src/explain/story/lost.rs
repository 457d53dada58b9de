//! A key that was lost before its holder's lease had expired.

use std::collections::BTreeSet;

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::story::{Beat, Weight};
use crate::explain::votes::too_few;
use crate::explain::witness::Witness;
use crate::history::OpId;
use crate::quantity::{list, moment};
use crate::reading::leaders;

/// Whether this file's lines cover the end of a life.
pub fn covers(witness: &Witness<'_>, life: &StoryLife) -> bool {
    let lost = witness.primary.filter(|violation| violation.kind == Kind::LostEarly);
    lost.is_some_and(|lost| lost.keys.first().copied() == life.end && life.end.is_some())
}

/// What removed the key, and how long its holder could rely on it.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let lost = witness.primary.filter(|violation| violation.kind == Kind::LostEarly);
    let Some(violation) = lost else { return Vec::new() };
    let (Some(grant), Some(index)) = (witness.actors.first(), violation.keys.first()) else {
        return Vec::new();
    };
    let Some(key) = witness.history().keys.get(*index) else { return Vec::new() };
    if let (Some(nodes), Some(ret)) = (too_few(witness, grant.id), grant.ret) {
        return vec![granted_by_few(witness, nodes, (grant.id, ret.instant()), violation)];
    }
    let (node, whose) = (&key.node, &grant.caller);
    // A node that is halted or down removes a key later than the key expires by its clock.
    let mut lives = witness.lives.iter();
    let passes = lives.find(|life| life.end == Some(*index)).map(|life| witness.passes(life));
    let over = passes.filter(|passes| *passes < key.at.into());
    let at = over.map_or(key.at, |passes| passes.instant(witness.history()));
    let is_shut = over.is_some_and(|over| {
        witness.reading.is_halted(node, over) || leaders::is_dead(witness.history(), node, over)
    });
    let by = key.by.and_then(|by| op(witness.history(), by));
    let happens = match key.change {
        _ if is_shut => format!("The time to live of {whose}'s key on {node} is over"),
        _ if over.is_some() => format!("{node} lets {whose}'s key expire"),
        KeyChange::Expired => format!("{node} lets {whose}'s key expire"),
        KeyChange::Evicted => format!("{node} evicts {whose}'s key"),
        KeyChange::LostAtRestart => format!("{node} is back without {whose}'s key"),
        KeyChange::LostAtFailover => {
            format!("{node} takes over its master's keys, without {whose}'s")
        }
        _ => match by {
            Some(op) => {
                let hand = format!("{}'s {} at {}", op.caller, op.kind.noun(), moment(op.call.at));
                let does = match key.change {
                    KeyChange::Deleted => "deletes",
                    KeyChange::Changed => "takes over",
                    _ => "overwrites",
                };
                format!("{hand} {does} {whose}'s key on {node}")
            }
            None => format!("{whose}'s key disappears from {node}"),
        },
    };
    let granted = grant.ret.map(|ret| ret.at).filter(|granted| at.at < *granted);
    let granted = granted.map_or(String::new(), |at| format!(", granted it at {},", moment(at)));
    let until = moment(violation.to.at);
    let text = format!("{happens}, though {whose}{granted} counts on it until {until}.");
    let evidence = vec![Evidence::Op(grant.id), Evidence::Key(*index)];
    vec![Beat::new(Weight::Crux, at, text, evidence)]
}

/// A grant of less than a quorum of all nodes lost nothing: it never kept others out.
fn granted_by_few(
    witness: &Witness<'_>,
    nodes: BTreeSet<String>,
    (grant, ret): (OpId, Instant),
    violation: &Violation,
) -> Beat {
    let others = witness.finding.plan.topology.masters() as usize - nodes.len();
    let names = list(&nodes.into_iter().collect::<Vec<_>>());
    let whose = witness.caller(grant).unwrap_or_default();
    let until = moment(violation.to.at);
    let text = format!(
        "{whose} counts on {names} until {until}; the {others} other nodes are enough to grant the \
         lock to another."
    );
    Beat::new(Weight::Crux, ret, text, vec![Evidence::Op(grant)])
}
