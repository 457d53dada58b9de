//! When drawn faults strike.

use lockstorm_platform::fault::{Anchor, Becomes, Fault, Pattern};
use lockstorm_platform::time::MILLISECOND;
use lockstorm_platform::trace::{Edge, Leg};
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::strategy::Union;
use proptest::{prop_oneof, sample};

use crate::lock::client::slot_map::SlotMap;
use crate::plan::fault_contradiction::can_become;
use crate::plan::{Plan, TopologyKind};

/// When a fault strikes: at a time, after a grant or a release, when a message has completed a leg,
/// or after another fault. The number of that fault says how far before this one it is in the plan;
/// [`chain`] replaces it.
pub fn anchor(plan: &Plan) -> BoxedStrategy<Anchor> {
    let clients = plan.clients();
    let weighted =
        queried_nodes(plan).into_iter().map(|(weight, node)| (weight, Just(node).boxed()));
    let nodes = Union::new_weighted(weighted.collect());
    let last_ms = plan.heal_at / MILLISECOND;
    let outcomes = vec!["acquire", "acquired", "release", "released", "read"];
    let legs = vec![Leg::Sent, Leg::Applied, Leg::Replied, Leg::Delivered];
    // At once, within a hold, or later.
    let hold_ms = (plan.workload.hold / MILLISECOND).max(1);
    let later = move |most: u64| (1..=most).prop_map(|ms| ms * MILLISECOND);
    let plus = || prop_oneof![2 => Just(0), 1 => later(hold_ms), 1 => later(3_000)];
    let after = |event, nth, plus| Anchor::After { event, nth, plus };
    let outcome = (sample::select(clients.clone()), sample::select(outcomes), 1..=4_u32, plus())
        .prop_map(move |(who, what, nth, plus)| {
            after(Pattern::Outcome { who, what: what.to_owned() }, nth, plus)
        });
    let message = (sample::select(clients), nodes, sample::select(legs), 1..=8_u32, plus())
        .prop_map(move |(from, to, leg, nth, plus)| {
            after(Pattern::Message { from, to, command: None, leg }, nth, plus)
        });
    let edges = sample::select(vec![Edge::Start, Edge::End]);
    let other = (1..=2_u32, edges, plus())
        .prop_map(move |(back, edge, plus)| after(Pattern::Fault { id: back, edge }, 1, plus));
    let at = (0..last_ms).prop_map(|ms| Anchor::At(ms * MILLISECOND));
    let mut drawn =
        vec![(2, at.boxed()), (2, outcome.boxed()), (2, message.boxed()), (1, other.boxed())];
    let becomes = Becomes::WORDS.map(|(_, becomes)| becomes).into_iter();
    let becomes: Vec<Becomes> = becomes.filter(|it| can_become(plan, *it)).collect();
    if !becomes.is_empty() {
        let node = (sample::select(plan.nodes()), sample::select(becomes), 1..=2_u32, plus());
        let node = node.prop_map(move |(who, becomes, nth, plus)| {
            after(Pattern::Node { who, becomes }, nth, plus)
        });
        drawn.push((1, node.boxed()));
    }
    Union::new_weighted(drawn).boxed()
}

/// Names the faults for which drawn faults wait. The first fault has none before it: it strikes at
/// that time after the start.
pub fn chain(faults: &mut [Fault]) {
    for index in 1..=faults.len() {
        let Some((own, before)) = faults[..index].split_last_mut() else { return };
        let Anchor::After { event: Pattern::Fault { id, edge }, plus, .. } = &mut own.anchor else {
            continue;
        };
        let back = usize::try_from(*id).unwrap_or(1);
        match before.iter().rev().take(back).next_back() {
            None => own.anchor = Anchor::At(*plus),
            Some(other) => {
                *id = other.id;
                if other.verb.is_momentary() || other.length.is_none() {
                    *edge = Edge::Start;
                }
            }
        }
    }
}

/// The hosts that an anchor names.
pub fn waits_for(anchor: &Anchor) -> Vec<&str> {
    match anchor {
        Anchor::After {
            event: Pattern::Outcome { who, .. } | Pattern::Node { who, .. }, ..
        } => vec![who],
        Anchor::After { event: Pattern::Message { from, to, .. }, .. } => vec![from, to],
        _ => Vec::new(),
    }
}

/// The weight of a message to the master that clients query. A message to a replica, which they
/// query only after a failover, has weight 1.
const MASTER_BIAS: u32 = 40;

/// The nodes that clients query, with their weights.
pub fn queried_nodes(plan: &Plan) -> Vec<(u32, String)> {
    let node = |nth: u32| format!("n{nth}");
    let (topology, nodes) = (&plan.topology, plan.topology.nodes);
    let master = match topology.kind {
        // There are several only if the lock queries them.
        TopologyKind::Independent => return plan.nodes().into_iter().map(|n| (1, n)).collect(),
        // Replicas take over without a command of a fault.
        TopologyKind::Sentinel | TopologyKind::Cluster => slot_master(plan),
        _ => return vec![(1, node(1))],
    };
    let replicas = (1..=nodes).filter(|nth| topology.master_of(*nth) == Some(master));
    let replicas = replicas.map(|nth| (1, node(nth)));
    [(MASTER_BIAS, node(master))].into_iter().chain(replicas).collect()
}

/// The initial master of the lock's key.
fn slot_master(plan: &Plan) -> u32 {
    let slot = SlotMap::slot_of("GET", &[plan.lock.key.as_bytes()]);
    let Some((shards, slot)) = plan.topology.shards.zip(slot) else { return 1 };
    let serves = |nth: &u32| {
        let (first, last) = shards.slots_of(*nth);
        (first..=last).contains(&slot)
    };
    (1..=shards.masters).find(serves).unwrap_or(1)
}
