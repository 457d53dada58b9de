//! The configuration of the nodes of a plan: who follows whom, and who serves which slots.

use std::net::SocketAddrV4;

use lockstorm_platform::time::MILLISECOND;
use lockstorm_redis::cluster::slots::SlotSet;
use lockstorm_redis::cluster::{ClusterConfig, Member};
use lockstorm_redis::node::NodeConfig;

use crate::plan::shards::Shards;
use crate::plan::{Plan, TopologyKind};
use crate::run::address::node_address;

/// The configuration of the `n`th node, counted from 1.
pub fn node_config(plan: &Plan, n: u32) -> NodeConfig {
    let topology = &plan.topology;
    let addresses: Vec<SocketAddrV4> = (1..=topology.nodes).map(node_address).collect();
    NodeConfig {
        replica_of: master_of(plan, n),
        cluster: topology.shards.map(|shards| cluster_of(&shards, &addresses)),
        ..topology.node(n)
    }
}

/// The initial master of a node by configuration; `None` in a cluster, whose nodes determine it on
/// their own.
pub fn master_of(plan: &Plan, n: u32) -> Option<SocketAddrV4> {
    let topology = &plan.topology;
    let is_configured = topology.kind != TopologyKind::Cluster;
    topology.master_of(n).filter(|_| is_configured).map(node_address)
}

/// The configuration of every node of a cluster with these node addresses.
pub fn cluster_of(shards: &Shards, nodes: &[SocketAddrV4]) -> ClusterConfig {
    let member = |(n, address): (u32, &SocketAddrV4)| {
        let master = shards.master_of(n).map(|master| nodes[master as usize - 1]);
        let slots = match master {
            Some(_) => SlotSet::default(),
            None => SlotSet::range(shards.slots_of(n)),
        };
        Member { address: *address, master, slots }
    };
    ClusterConfig {
        members: (1..).zip(nodes).map(member).collect(),
        node_timeout_ms: shards.node_timeout / MILLISECOND,
    }
}
