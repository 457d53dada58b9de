//! The door between a script and its node: what stands there while it runs.

use crate::call::Execute;
use crate::node::Node;
use crate::session::Session;

/// Node and session of the running script.
#[derive(Default)]
pub struct Running {
    /// The node.
    pub node: Node,
    /// The session that represents the script's connection.
    pub session: Session,
    /// What executes a command; nobody does while a library is loaded.
    pub execute: Option<Execute>,
}
