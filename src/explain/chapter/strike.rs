//! What was done to hosts and links while the witness's grants were under way.

use lockstorm_sim::fault::{Target, Verb};
use lockstorm_sim::time::Instant;

use crate::explain::incarnation::Incarnation;
use crate::explain::quantity::{figure, length, list, moment};
use crate::explain::story::{Beat, Evidence, Weight};
use crate::explain::witness::Witness;
use crate::history::{Condition, Op, OpKind};

/// The conditions that met the witness, each a sentence.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let Some((from, to)) = span(witness) else { return Vec::new() };
    let conditions = witness.history().conditions.iter().enumerate();
    conditions
        .filter(|(_, c)| c.from <= to && c.to.is_none_or(|end| end >= from))
        .map(|(index, condition)| {
            let (text, evidence) = told(witness, index, condition);
            Beat::new(weight(witness, condition), condition.from, text, evidence)
        })
        .collect()
}

/// From the first call of the witness to the end of what it shows.
fn span(witness: &Witness<'_>) -> Option<(Instant, Instant)> {
    let violation = witness.primary?;
    let cast = witness.cast().into_iter().chain(witness.left().map(|(_, owner)| owner));
    let first = cast.map(|grant| grant.call.instant()).min();
    Some((first.unwrap_or_default().min(violation.from), violation.to))
}

fn weight(witness: &Witness<'_>, condition: &Condition) -> Weight {
    let meets = |host: &str| condition.touches(host);
    let is_actor = witness.actors.iter().any(|grant| meets(&grant.process));
    let is_left = witness.left().any(|(_, owner)| meets(&owner.process));
    let is_node = witness.lives.iter().any(|life| {
        meets(&life.node) && witness.actors.iter().any(|grant| Some(grant.id) == life.owner)
    });
    match () {
        () if witness.is_blamed(condition) => Weight::Crux,
        () if is_actor || is_node || is_left => Weight::Cause,
        () => Weight::Detail,
    }
}

/// A condition as a sentence, and who held the lock as it struck its process.
pub fn told(witness: &Witness<'_>, index: usize, condition: &Condition) -> (String, Vec<Evidence>) {
    let mut text = strikes(condition);
    let mut evidence = vec![Evidence::Condition(index)];
    let is_failover = condition.verb == Verb::Failover;
    let held = witness.holds.iter().filter(|_| !is_failover).find(|hold| {
        let struck = hold.from < condition.from && condition.from <= hold.until;
        struck && condition.touches(&hold.grant.process)
    });
    if let Some(hold) = held {
        let who = &hold.grant.caller;
        text.pop();
        text.push_str(&match condition.strikes(who) {
            true => ", while holding the lock.".to_owned(),
            false => format!(", while {who} holds the lock."),
        });
        evidence.push(Evidence::Op(hold.grant.id));
    } else if let Some(asking) = interrupted(witness, condition) {
        text.pop();
        text.push_str(&format!(", before {}'s acquire is over.", asking.caller));
        evidence.push(Evidence::Op(asking.id));
    }
    if condition.verb == Verb::Failover {
        promoted(witness, condition, &mut text, &mut evidence);
    }
    (text, evidence)
}

/// The acquire that never returned because the condition ended its process.
fn interrupted<'a>(witness: &Witness<'a>, condition: &Condition) -> Option<&'a Op> {
    let ops = witness.history().ops.iter();
    let mut asking = ops.filter(|op| op.kind == OpKind::Acquire && op.ret.is_none());
    asking.find(|op| {
        condition.verb.kills()
            && op.call.instant() < condition.from
            && condition.touches(&op.process)
    })
}

/// Whether the new master has the keys of those who hold the lock as it is made so.
fn promoted(
    witness: &Witness<'_>,
    condition: &Condition,
    text: &mut String,
    evidence: &mut Vec<Evidence>,
) {
    let at = condition.from;
    let held = witness.holds.iter().find(|hold| hold.from < at && at < hold.until);
    let Some(hold) = held else { return };
    let lives = || witness.lives.iter().filter(|life| life.owner == Some(hold.grant.id));
    let here = lives().find(|life| condition.strikes(&life.node) && life.from < at);
    let who = &hold.grant.caller;
    let Target::Host(node) = &condition.target else { return };
    let nth = node.strip_prefix('n').and_then(|nth| nth.parse().ok());
    let master = nth.and_then(|nth| witness.finding.plan.topology.master_of(nth));
    let on_master = |life: &&Incarnation| master.is_some_and(|n| life.node == format!("n{n}"));
    let there = lives().find(on_master).or_else(|| lives().next());
    let (news, life) = match (here, there) {
        (Some(here), _) if here.until > at => (format!("it has {who}'s key"), here),
        (None, Some(there)) => (format!("{who}'s key on {} never came to it", there.node), there),
        _ => return,
    };
    text.pop();
    text.push_str(&format!(": {news}, and clients go to it from now on."));
    evidence.extend([Evidence::Key(life.born), Evidence::Op(hold.grant.id)]);
}

/// A condition as a sentence in the present tense.
pub fn strikes(condition: &Condition) -> String {
    let until = match condition.to {
        Some(to) if to.at > condition.from.at => {
            format!(" for {}, until {}", length(to.at - condition.from.at), moment(to.at))
        }
        Some(_) => String::new(),
        None => " to the end of the run".to_owned(),
    };
    let said = condition.verb.row().said.replace("{who}", &parties(&condition.target));
    said.replace("{figure}", &figure(&condition.verb.figure())).replace("{until}", &until)
}

/// A target in words: `c1`, `between c1 and n4, n5`, `from c1 to n1`.
fn parties(target: &Target) -> String {
    match target {
        Target::Links { from, to, both: true } => {
            format!("between {} and {}", list(from), list(to))
        }
        Target::Links { from, to, both: false } => format!("from {} to {}", list(from), list(to)),
        Target::Host(host) => host.clone(),
    }
}
