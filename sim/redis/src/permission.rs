//! Restrictions that currently apply to every caller, whether a request or a script.
//!
//! - `access`: the restrictions of a session's user
//! - `redirect`: requests that another node of the cluster must serve

pub(crate) mod access;
pub mod redirect;

use bytes::Bytes;

use crate::frame::Reply;
use crate::node::Node;
use crate::session::Session;

const READONLY: &str = "READONLY You can't write against a read only replica.";
/// The error for a write without enough good replicas.
pub(crate) const NOREPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
/// The error beyond `maxmemory`.
pub(crate) const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// The error of a replica that must not serve data until its link to the master is up.
pub(crate) const MASTERDOWN: Reply = Reply::Error(Bytes::from_static(
    b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
));
/// Whether the node is a replica that must not serve data until its link to the master is up.
pub(crate) fn is_stale(node: &Node) -> bool {
    node.peers.master.is_some()
        && !node.peers.is_linked()
        && !node.settings.is_on("replica-serve-stale-data")
}

/// Refuses a write on a replica, or without enough good replicas.
pub(crate) fn check_write(node: &Node, session: &Session) -> Result<(), Reply> {
    if session.replication.from_master {
        return Ok(());
    }
    if let Some(error) = node.disk_error() {
        return Err(Reply::error(error));
    }
    let config = &node.config;
    let is_limited = node.peers.master.is_none() && config.min_replicas_max_lag > 0;
    if is_limited && node.peers.good_replicas < config.min_replicas_to_write {
        return Err(Reply::error(NOREPLICAS));
    }
    if node.peers.master.is_some() && node.settings.is_on("replica-read-only") {
        return Err(Reply::error(READONLY));
    }
    Ok(())
}
