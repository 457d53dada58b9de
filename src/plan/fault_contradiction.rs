//! Refuses what no fault of a plan may contain: an unsuitable target, an anchor that never occurs.

use std::collections::BTreeSet;

use lockstorm_platform::fault::verbs::{ActsOn, Figure};
use lockstorm_platform::fault::{Anchor, Becomes, Fault, Pattern, Target, Verb};
use lockstorm_platform::trace::Edge;

use crate::history::RESOURCE;
use crate::history::words::WORDS;
use crate::length;
use crate::lock::algorithm::Algorithm;
use crate::plan::contradiction::{Checked, MAX_LOSS, in_reach, known_host, rate, refuse_if};
use crate::plan::host_name::{is_client, is_node, is_sentinel, node_number};
use crate::plan::lack::{Lack, lack};
use crate::plan::shards::Shards;
use crate::plan::{Plan, TopologyKind};
use crate::refusal::one_of;

/// Checks every fault, and that each anchor can occur.
pub fn faults(plan: &Plan, algorithm: &Algorithm) -> Checked {
    let mut ids = BTreeSet::new();
    for fault in &plan.faults {
        let place = format!("fault.{}", fault.id);
        refuse_if(!ids.insert(fault.id), &place, "two faults have this number", "another id")?;
    }
    for fault in &plan.faults {
        let place = format!("fault.{}", fault.id);
        target(plan, fault, &place)?;
        can_stop(plan, fault, algorithm, &place)?;
        size(&fault.verb, &place)?;
        length_of(fault, &place)?;
        anchor(plan, fault, &place)?;
    }
    Ok(())
}

/// Refuses a fault that halts clients whose lock runs tasks that no engine can stop.
fn can_stop(plan: &Plan, fault: &Fault, algorithm: &Algorithm, place: &str) -> Checked {
    let wrong = algorithm.runs_tokio && halts_clients(plan, fault);
    let what = format!("tokio's own tasks of {} go on through a pause", algorithm.name);
    refuse_if(wrong, place, what, "pause a node, or spawn through the lock's host")
}

/// Whether a fault halts the process of a client and resumes it later.
pub fn halts_clients(plan: &Plan, fault: &Fault) -> bool {
    let client = |host: &&str| plan.clients().iter().any(|client| client == host);
    fault.verb.halts() && fault.target.hosts().iter().any(client)
}

fn target(plan: &Plan, fault: &Fault, place: &str) -> Checked {
    let at = format!("{place}.target");
    let word = fault.verb.word();
    for host in fault.target.hosts() {
        known_host(plan, &at, host)?;
    }
    match &fault.target {
        Target::Host(host) => {
            let what = format!("{word} acts on links, and '{host}' is a host");
            let instead = format!("write '{}'", a_link_of(host));
            refuse_if(fault.verb.acts_on_links(), &at, what, &instead)?;
            suits(plan, &fault.verb, host, &at)
        }
        Target::Links { from, to, both } => {
            let what = format!("{word} acts on one host, and '{}' are links", fault.target);
            refuse_if(
                !fault.verb.acts_on_links(),
                &at,
                what,
                &format!("write '{}'", from.first().map_or("n1", String::as_str)),
            )?;
            let shared = from.iter().find(|host| to.contains(host));
            let what = format!("'{}' is on both sides", shared.map_or("", String::as_str));
            refuse_if(shared.is_some(), &at, what, "name each host once")?;
            let silent = is_silent(plan, from, to);
            let arrow = if *both { "between" } else { "along" };
            let what = format!("nothing ever travels {arrow} these links");
            refuse_if(silent, &at, what, "clients talk to nodes and to the resource")
        }
    }
}

fn a_link_of(host: &str) -> String {
    if is_client(host) { format!("{host} <-> n1") } else { format!("c1 <-> {host}") }
}

/// Whether nothing ever travels between the hosts of two sides.
pub fn is_silent(plan: &Plan, from: &[String], to: &[String]) -> bool {
    let mut pairs = from.iter().flat_map(|from| to.iter().map(move |to| (from, to)));
    !pairs.any(|(from, to)| talks(plan, from, to))
}

/// Whether bytes can ever travel between two hosts.
fn talks(plan: &Plan, a: &str, b: &str) -> bool {
    let watched = is_sentinel(a) || is_sentinel(b);
    let replicated = plan.topology.replicas() > 0 && is_node(a) && is_node(b);
    (is_client(a) != is_client(b)) || replicated || (watched && a != RESOURCE && b != RESOURCE)
}

/// Refuses a verb that cannot strike the host.
fn suits(plan: &Plan, verb: &Verb, host: &str, at: &str) -> Checked {
    let word = verb.word();
    let row = verb.row();
    let of_nodes = matches!(row.acts_on, ActsOn::Node | ActsOn::Replica);
    let what = format!("{word} acts on Redis nodes, and '{host}' is not one");
    refuse_if(of_nodes && !is_node(host), at, what, "name a node: 'n1'")?;
    if let Some(lack) = lack(&plan.topology, row) {
        return refuse_if(true, at, lack.refusal(word), mended_by(lack));
    }
    if row.acts_on != ActsOn::Replica || plan.topology.kind == TopologyKind::Sentinel {
        return Ok(());
    }
    if let Some(shards) = &plan.topology.shards {
        return in_cluster(shards, verb, host, at);
    }
    let moved = plan.faults.iter().any(|fault| {
        matches!(fault.verb, Verb::Failover) && fault.target != Target::Host("n1".to_owned())
    });
    let what = format!("{word} happens to a replica, and '{host}' is the master");
    let is_master = plan.topology.master_of(number(host)).is_none();
    let replica = format!("name a replica: 'n{}'", plan.topology.masters() + 1);
    refuse_if(is_master && !moved, at, what, &replica)
}

/// What of `[topology]` mends a lack.
fn mended_by(lack: Lack) -> &'static str {
    match lack {
        Lack::Replica => "kind = \"replicated\" in [topology]",
        Lack::Operator => "pause or crash the master, or kind = \"replicated\"",
        Lack::File | Lack::AppendOnlyFile => "persistence = \"aof-always\" in [topology]",
    }
}

/// Checks a verb in a cluster: only a replica can lag behind.
fn in_cluster(shards: &Shards, verb: &Verb, host: &str, at: &str) -> Checked {
    let what = format!("{} happens to a replica, and '{host}' is a master", verb.word());
    let first = format!("name a replica: 'n{}' follows 'n1'", shards.masters + 1);
    refuse_if(shards.master_of(number(host)).is_none(), at, what, &first)
}

/// The number of a node.
fn number(host: &str) -> u32 {
    node_number(host).unwrap_or(0)
}

/// Checks the verb's own fields.
fn size(verb: &Verb, place: &str) -> Checked {
    match verb.figure() {
        Figure::None => Ok(()),
        Figure::Length(extra) => in_reach(&format!("{place}.extra"), extra),
        Figure::Share(per_million) => {
            let instead = format!("at most {MAX_LOSS} in a million; 'partition' lets nothing pass");
            let all = per_million > MAX_LOSS;
            refuse_if(all, &format!("{place}.loss"), "nothing would ever arrive", &instead)
        }
        Figure::Shift(by) => in_reach(&format!("{place}.by"), by.unsigned_abs()),
        Figure::Rate(ppm) => rate(&format!("{place}.ppm"), ppm),
        Figure::Key(key) => {
            refuse_if(key.is_empty(), &format!("{place}.key"), "no key", "like \"lock\"")
        }
    }
}

fn length_of(fault: &Fault, place: &str) -> Checked {
    let at = format!("{place}.for");
    let what = format!("{} acts in one instant and has no length", fault.verb.word());
    let momentary = fault.verb.is_momentary() && fault.length.is_some();
    refuse_if(momentary, &at, what, "remove 'for'")?;
    refuse_if(fault.length == Some(0), &at, "a fault has to last some time", "above 0s")?;
    in_reach(&at, fault.length.unwrap_or(0))
}

fn anchor(plan: &Plan, fault: &Fault, place: &str) -> Checked {
    match &fault.anchor {
        Anchor::At(at) => {
            let what = format!("it would strike at or after the heal, {}", heal(plan));
            refuse_if(*at >= plan.heal_at, &format!("{place}.at"), what, "a later heal_at")
        }
        Anchor::After { event, nth, plus } => {
            let at = format!("{place}.after");
            refuse_if(*nth == 0, &format!("{at}.nth"), "events count from 1", "at least 1")?;
            let plus_at = format!("{at}.plus");
            in_reach(&plus_at, *plus)?;
            let what = format!("it would strike at or after the heal, {}", heal(plan));
            refuse_if(*plus >= plan.heal_at, &plus_at, what, "a shorter plus")?;
            pattern(plan, fault, event, &at)
        }
    }
}

fn heal(plan: &Plan) -> String {
    length::write(plan.heal_at)
}

fn pattern(plan: &Plan, fault: &Fault, event: &Pattern, at: &str) -> Checked {
    match event {
        Pattern::Step { who, label } => {
            known_host(plan, &format!("{at}.by"), who)?;
            refuse_if(label.is_empty(), &format!("{at}.label"), "no step", "a step's name")
        }
        Pattern::Outcome { who, what } => outcome(plan, who, what, at),
        Pattern::Message { from, to, command, .. } => {
            client(plan, &format!("{at}.from"), from)?;
            known_host(plan, &format!("{at}.to"), to)?;
            let mute = !is_node(to);
            let what = format!("'{to}' takes no commands");
            refuse_if(mute, &format!("{at}.to"), what, "name a node: 'n1'")?;
            let shouted = command.as_ref().is_none_or(|c| *c == c.to_ascii_uppercase());
            let what = "commands are written in upper case";
            refuse_if(!shouted, &format!("{at}.command"), what, "like \"SET\"")
        }
        Pattern::Fault { id, edge } => other_fault(plan, fault, *id, *edge, at),
        Pattern::Node { who, becomes } => node(plan, who, *becomes, at),
    }
}

/// Checks that a node can become what a fault waits for.
fn node(plan: &Plan, who: &str, becomes: Becomes, at: &str) -> Checked {
    let place = format!("{at}.node");
    known_host(plan, &place, who)?;
    let what = format!("'{who}' is no node");
    refuse_if(!is_node(who), &place, what, "name a node: 'n1'")?;
    let what = format!("'{who}' never becomes '{}' here", becomes.word());
    let place = format!("{at}.event");
    let instead = "kind = \"sentinel\" or \"cluster\" in [topology]";
    refuse_if(!can_become(plan, becomes), &place, what, instead)
}

/// Whether a node of the plan can become this after the start.
pub fn can_become(plan: &Plan, becomes: Becomes) -> bool {
    let topology = &plan.topology;
    match becomes {
        Becomes::Suspected => topology.sentinels.is_some(),
        Becomes::Down => topology.sentinels.is_some() || topology.shards.is_some(),
        Becomes::Leads | Becomes::Follows | Becomes::Resynchronised => topology.replicas() > 0,
    }
}

fn outcome(plan: &Plan, who: &str, what: &str, at: &str) -> Checked {
    client(plan, &format!("{at}.by"), who)?;
    if WORDS.contains(&what) {
        return Ok(());
    }
    let instead = one_of(what, &WORDS);
    refuse_if(true, &format!("{at}.event"), format!("there is no event '{what}'"), &instead)
}

fn client(plan: &Plan, at: &str, who: &str) -> Checked {
    known_host(plan, at, who)?;
    let other = is_node(who) || who == RESOURCE;
    refuse_if(other, at, format!("'{who}' uses no lock"), "name a client: 'c1'")
}

/// Checks an anchor on another fault: that fault must exist, it must have an end if the anchor is
/// its end, and the chain of anchors must have a beginning.
fn other_fault(plan: &Plan, fault: &Fault, id: u32, edge: Edge, at: &str) -> Checked {
    let find = |id: u32| plan.faults.iter().find(|fault| fault.id == id);
    let Some(other) = find(id) else {
        let what = format!("there is no fault {id}");
        return refuse_if(true, &format!("{at}.id"), what, "faults count from 1");
    };
    let endless = edge == Edge::End && (other.verb.is_momentary() || other.length.is_none());
    let what = format!("fault {id} has no end to wait for");
    refuse_if(endless, &format!("{at}.edge"), what, "edge = \"start\"")?;
    let mut next = Some(id);
    for _ in 0..=plan.faults.len() {
        let Some(here) = next.and_then(find) else { return Ok(()) };
        next = here.anchor.other_fault();
    }
    let what = format!("fault {} waits for itself", fault.id);
    refuse_if(true, &format!("{at}.id"), what, "let one of them wait for something else")
}
