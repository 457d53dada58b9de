//! The commands of an operator. A node that is down or halted carries them out late.

use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Instant, MILLISECOND, Nanos};

use crate::explain::evidence::Evidence;
use crate::explain::hold::{StoryHold, op};
use crate::explain::life::StoryLife;
use crate::explain::witness::Witness;
use crate::history::{FaultInterval, Op};
use crate::plan::TopologyKind;
use crate::plan::host_name::node_number;
use crate::quantity::moment;

/// A node that runs carries out a command within this time, ns.
const PROMPT: Nanos = 100 * MILLISECOND;

/// When a node carried out a command: at its first effect. `None` if there is none.
pub fn carried_out(interval: &FaultInterval) -> Option<Instant> {
    interval.done.first().copied()
}

/// When a command was carried out, if its node did not do so promptly.
pub fn late(interval: &FaultInterval) -> Option<Instant> {
    carried_out(interval).filter(|done| done.at - interval.from.at > PROMPT)
}

/// An operator's command in words: its effect on the node, or only that the node received it if it
/// had no effect (a node that already leads is not promoted again). `None` if the fault is no such
/// command.
pub fn sentence(
    witness: &Witness<'_>,
    interval: &FaultInterval,
) -> Option<(String, Vec<Evidence>)> {
    let Target::Host(node) = &interval.target else { return None };
    let (does, receives) = match interval.verb {
        Verb::Failover => ("is made master", "receives the order to become master"),
        Verb::Evict { .. } => ("evicts a key", "receives the order to evict a key"),
        Verb::Flush => ("is flushed", "receives the order to delete all its keys"),
        _ => return None,
    };
    let Some(done) = carried_out(interval) else {
        return Some((format!("{node} {receives}."), Vec::new()));
    };
    let by = match late(interval) {
        Some(_) => format!(", as ordered at {}", moment(interval.from.at)),
        None => String::new(),
    };
    if let Some((life, owner)) = taken(witness, interval) {
        let mut evidence = vec![Evidence::Op(owner.id), Evidence::Key(life.born)];
        evidence.extend(life.end.map(Evidence::Key));
        let who = &owner.caller;
        let text = match interval.verb {
            Verb::Flush => format!("{node} is flushed{by}: {who}'s key is gone."),
            _ => format!("{node} evicts {who}'s key{by}."),
        };
        return Some((text, evidence));
    }
    let news = news(witness, node, done).filter(|_| interval.verb == Verb::Failover);
    Some(match news {
        Some((news, of)) => {
            let queries = queried_after(witness, (node, done));
            (format!("{node} {does}{by}: {news}, and {queries}."), of.to_vec())
        }
        None => (format!("{node} {does}{by}."), Vec::new()),
    })
}

/// The first life of the lock's key that an eviction or a flush ended, and its owner.
fn taken<'w, 'a>(
    witness: &'w Witness<'a>,
    interval: &FaultInterval,
) -> Option<(&'w StoryLife, &'a Op)> {
    witness.lives.iter().find_map(|life| {
        let end = witness.history().keys.get(life.end?)?;
        let owner = op(witness.history(), life.owner?)?;
        let is_it = interval.strikes(&life.node) && interval.done.contains(&end.at);
        let was_valid = witness.passes(life) > end.at.into();
        (is_it && was_valid).then_some((life, owner))
    })
}

/// Whether the end of a life is stated together with the command that ended it.
pub fn takes(witness: &Witness<'_>, life: &StoryLife) -> bool {
    let fault_intervals = witness.history().fault_intervals.iter();
    fault_intervals.filter_map(|c| taken(witness, c)).any(|(taken, _)| taken.born == life.born)
}

/// Whether a node has the key that blocks other callers at an instant, in words: a leftover key or
/// the key of a holder. `None` if there is no such key.
pub fn news(witness: &Witness<'_>, node: &str, at: Instant) -> Option<(String, [Evidence; 2])> {
    // A leftover key blocks other callers as well as a holder's key does.
    let mut left = witness.left().filter(|(life, _)| life.node == node && life.from < at);
    let is_there = |life: &StoryLife| witness.is_there(life, at) && outlasts(life, at);
    if let Some((life, owner)) = left.find(|(life, _)| is_there(life)) {
        let news = format!("it has {}'s key", owner.caller);
        return Some((news, [Evidence::Key(life.born), Evidence::Op(owner.id)]));
    }
    let mut holds = witness.holds.iter().filter(|hold| hold.from < at && at < hold.until);
    holds.find_map(|hold| news_of(witness, hold, (node, at)))
}

/// Whether a key still exists after all events of an instant. A node that starts reports its role
/// before the loss of its keys, at the same true time.
fn outlasts(life: &StoryLife, at: Instant) -> bool {
    life.end.is_none() || life.until.at > at.at
}

/// Whether a node has the key of a holder at an instant, in words. If the node never had the key,
/// the words name another node that has it.
fn news_of(
    witness: &Witness<'_>,
    hold: &StoryHold<'_>,
    (node, at): (&str, Instant),
) -> Option<(String, [Evidence; 2])> {
    let exists = |life: &StoryLife| outlasts(life, at) && witness.passes(life) > at.into();
    let owner = Some(hold.grant.id);
    let lives = || witness.lives.iter().filter(|life| life.owner == owner && life.from < at);
    let who = &hold.grant.caller;
    let (news, life) = match lives().rfind(|life| life.node == node) {
        Some(here) if exists(here) => (format!("it has {who}'s key"), here),
        Some(_) => return None,
        None => {
            let topology = &witness.finding.plan.topology;
            let master =
                |name: &str| node_number(name).map(|nth| topology.master_of(nth).unwrap_or(nth));
            let mut there = lives().filter(|life| exists(life));
            // A master of another slot or of another independent group never receives the key.
            let is_apart =
                matches!(topology.kind, TopologyKind::Cluster | TopologyKind::Independent);
            let kin = there.clone().find(|life| master(&life.node) == master(node));
            let there = kin.or_else(|| there.next().filter(|_| !is_apart))?;
            (format!("{who}'s key on {} has not reached it", there.node), there)
        }
    };
    Some((news, [Evidence::Key(life.born), Evidence::Op(hold.grant.id)]))
}

/// How soon clients query a node that a manual failover promoted, in words. Only requests before
/// the next manual failover of its group count.
fn queried_after(witness: &Witness<'_>, (node, since): (&str, Instant)) -> String {
    let topology = &witness.finding.plan.topology;
    let master = |name: &str| node_number(name).map(|nth| topology.master_of(nth).unwrap_or(nth));
    let own = master(node);
    let is_kin =
        |c: &FaultInterval| matches!(&c.target, Target::Host(other) if master(other) == own);
    let failovers = witness.history().fault_intervals.iter().filter(|c| c.verb == Verb::Failover);
    let done = failovers.filter(|c| is_kin(c)).filter_map(carried_out);
    let next = done.filter(|done| *done > since).min();
    let requests = witness.history().requests.iter().filter(|request| {
        let sent = request.legs.first().map(|(_, at)| *at);
        let in_time = |at| at > since && next.is_none_or(|next| at < next);
        sent.is_some_and(in_time) && master(&request.to) == master(node)
    });
    let here: Vec<bool> = requests.map(|request| request.to == node).collect();
    match here.iter().position(|is_here| *is_here) {
        None => "no client sends it a request".to_owned(),
        Some(0) if here.iter().all(|is_here| *is_here) => "clients go to it from now on".to_owned(),
        Some(0) => "the next request of a client goes to it".to_owned(),
        Some(1) => "1 request goes elsewhere before one reaches it".to_owned(),
        Some(more) => format!("{more} requests go elsewhere before one reaches it"),
    }
}
