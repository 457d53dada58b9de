//! The nodes that a lock contacts, by the names that its clients know.

use crate::lock::algorithm::{Algorithm, Nodes};
use crate::lock::client::route::Route;
use crate::lock::client::slot_map::SlotMap;
use crate::plan::{Plan, TopologyKind};

/// The name under which Sentinels monitor the master.
pub const WATCHED: &str = "mymaster";

/// The name that a failover by an operator's command redirects.
pub const MASTER: &str = "master";

/// The names that a lock contacts: every node, the master, or the only node.
pub fn contacted_nodes(plan: &Plan, algorithm: &Algorithm) -> Vec<String> {
    match plan.topology.kind {
        TopologyKind::Independent if algorithm.nodes != Nodes::First => masters(plan),
        TopologyKind::Replicated => vec![MASTER.to_owned()],
        TopologyKind::Sentinel => vec![Route::name_of(&plan.sentinels(), WATCHED)],
        TopologyKind::Cluster => vec![SlotMap::name_of(&plan.nodes())],
        _ => plan.nodes()[..1].to_vec(),
    }
}

/// The names of independent masters: those of nodes, or names that failovers redirect.
pub fn masters(plan: &Plan) -> Vec<String> {
    let letter = if plan.topology.replicas_each > 0 { MASTER } else { "n" };
    (1..=plan.topology.masters()).map(|n| format!("{letter}{n}")).collect()
}
