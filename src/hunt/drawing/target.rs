//! What drawn faults strike.

use lockstorm_platform::fault::Target;
use lockstorm_platform::fault::verbs::{ActsOn, Row};
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::strategy::Union;
use proptest::{bool, prop_oneof, sample};

use crate::history::RESOURCE;
use crate::plan::Plan;
use crate::plan::fault_contradiction::is_silent;

/// A target that makes sense for the verb.
pub fn target(row: &Row, plan: &Plan) -> BoxedStrategy<Target> {
    let (nodes, clients) = (plan.nodes(), plan.clients());
    let host = |names: Vec<String>| sample::select(names).prop_map(Target::Host).boxed();
    match row.acts_on {
        ActsOn::Links => links(plan),
        ActsOn::Node => host(nodes),
        ActsOn::Replica => host(replicas(plan)),
        // Nodes and clients have equal weight: with many nodes, an even draw would rarely strike a
        // client.
        ActsOn::Host => prop_oneof![host(nodes), host(clients)].boxed(),
    }
}

/// Whether a verb can act on a target of the plan.
pub fn can_strike(plan: &Plan, row: &Row, target: &Target) -> bool {
    let Target::Host(host) = target else { return row.acts_on == ActsOn::Links };
    let nodes = plan.nodes();
    match row.acts_on {
        ActsOn::Links => false,
        ActsOn::Host => host != RESOURCE,
        ActsOn::Node => nodes.contains(host),
        ActsOn::Replica => replicas(plan).contains(host),
    }
}

/// The nodes that start as replicas.
pub fn replicas(plan: &Plan) -> Vec<String> {
    let masters = usize::try_from(plan.topology.masters()).unwrap_or(1);
    plan.nodes().into_iter().skip(masters).collect()
}

/// Links between hosts that talk to each other.
fn links(plan: &Plan) -> BoxedStrategy<Target> {
    let servers = [plan.nodes(), plan.sentinels()].concat();
    let everyone = [servers.clone(), plan.clients()].concat();
    let mut drawn = vec![(6, of_clients(plan)), (1, between_sides(everyone))];
    // Without replicas, no node talks to another.
    if plan.topology.replicas() > 0 {
        drawn.push((3, between_some(servers)));
    }
    Union::new_weighted(drawn).boxed()
}

/// Links of one client or of several, to some of the nodes or to the guarded resource.
fn of_clients(plan: &Plan) -> BoxedStrategy<Target> {
    let (nodes, clients) = (plan.nodes(), plan.clients());
    let count = nodes.len();
    let side = sample::subsequence(nodes, 1..=count);
    let far = prop_oneof![9 => side, 1 => Just(vec![RESOURCE.to_owned()])];
    let near = sample::subsequence(clients.clone(), 1..=clients.len());
    (near, far, bool::ANY, bool::ANY).prop_map(directed).boxed()
}

/// All links between two sides to which these hosts belong, as when a switch fails.
fn between_sides(hosts: Vec<String>) -> BoxedStrategy<Target> {
    let near = sample::subsequence(hosts.clone(), 1..hosts.len());
    (near, bool::weighted(0.8), bool::ANY)
        .prop_map(move |(near, both, back)| {
            let far = others(&hosts, &near);
            directed((near, far, both, back))
        })
        .boxed()
}

/// Links between some of these hosts: one way or both, of one host or of several.
fn between_some(hosts: Vec<String>) -> BoxedStrategy<Target> {
    let near = sample::subsequence(hosts.clone(), 1..hosts.len());
    let left_out = sample::subsequence(hosts.clone(), 0..hosts.len());
    (near, left_out, bool::ANY, bool::ANY)
        .prop_map(move |(near, left_out, both, back)| {
            let far = others(&hosts, &near);
            let some = others(&far, &left_out);
            directed((near, if some.is_empty() { far } else { some }, both, back))
        })
        .boxed()
}

fn others(hosts: &[String], known: &[String]) -> Vec<String> {
    hosts.iter().filter(|host| !known.contains(host)).cloned().collect()
}

/// The links between two sides: in both directions, or in one, which may be from the far side.
fn directed((near, far, both, back): (Vec<String>, Vec<String>, bool, bool)) -> Target {
    let (from, to) = if back { (far, near) } else { (near, far) };
    Target::Links { from, to, both }
}

/// The target without the hosts that a plan does not have. `None` if nothing is left between which
/// anything travels.
pub fn present(target: Target, plan: &Plan) -> Option<Target> {
    let hosts = plan.hosts();
    let keep = |side: Vec<String>| -> Vec<String> {
        side.into_iter().filter(|host| hosts.contains(host)).collect()
    };
    match target {
        Target::Host(host) => hosts.contains(&host).then_some(Target::Host(host)),
        Target::Links { from, to, both } => {
            let (from, to) = (keep(from), keep(to));
            (!is_silent(plan, &from, &to)).then_some(Target::Links { from, to, both })
        }
    }
}
