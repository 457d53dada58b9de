//! The arguments of CLUSTER: nodes and slots.

use bytes::Bytes;

use crate::call::Call;
use crate::cluster::Cluster;
use crate::cluster::peer::Id;
use crate::cluster::slots::SLOTS;
use crate::frame::{Reply, integer};

/// The error if the node is in no cluster.
pub const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";
const NO_SLOT: &str = "ERR Invalid or out of range slot";

/// The node's cluster, updated with the node's own state.
pub fn cluster<'a>(call: &'a mut Call) -> Result<&'a mut Cluster, Reply> {
    call.node.cluster_now().ok_or(Reply::error(NO_CLUSTER))
}

/// An error with this text.
pub fn refusal(text: String) -> Reply {
    Reply::Error(text.into())
}

/// The id of the node named by this word.
pub fn named(cluster: &Cluster, word: &Bytes, unknown: &str) -> Result<Id, Reply> {
    let text = String::from_utf8_lossy(word);
    let found = cluster.nodes.get(&*text).map(|peer| peer.id.clone());
    found.ok_or_else(|| refusal(format!("ERR {unknown} {text}")))
}

/// The same for a master.
pub fn master_named(cluster: &Cluster, word: &Bytes, unknown: &str) -> Result<Id, Reply> {
    let id = named(cluster, word, unknown)?;
    match cluster.nodes[&id].master() {
        Some(_) => Err(Reply::error("ERR Target node is not a master")),
        None => Ok(id),
    }
}

/// The slot that a word denotes.
pub fn slot(word: &Bytes) -> Result<u16, Reply> {
    let slot = integer(word).and_then(|number| u16::try_from(number).ok());
    slot.filter(|slot| *slot < SLOTS).ok_or(Reply::error(NO_SLOT))
}
