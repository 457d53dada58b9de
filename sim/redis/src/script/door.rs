//! The shared place through which a running script reaches its node.

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
    /// The function that executes a command; `None` while a library is loaded.
    pub execute: Option<Execute>,
}
