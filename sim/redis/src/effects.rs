//! What a command leaves for the server to carry out: changes for the trace, and commands for
//! replicas and the append-only file.

use lockstorm_platform::trace::KeyChange;

use crate::frame::Arguments;
use crate::keyspace::Key;

/// Which commands are propagated, and in which unit of execution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Propagation {
    /// Whether [`Effects::commands`] has a consumer: a file, or a replica.
    pub is_consumed: bool,
    /// The number of units of execution: the commands that one unit propagates stay together.
    pub unit: u64,
}

/// One change of a key, for the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its database.
    pub(crate) db: usize,
    /// Which key.
    pub(crate) key: Key,
    /// What happened to it.
    pub(crate) change: KeyChange,
    /// Its expiry time now, in Unix milliseconds.
    pub(crate) until_ms: Option<u64>,
    /// Whether the node did it on its own (expiry), not the command.
    pub(crate) by_node: bool,
}

/// The effects of a command, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Changes of keys.
    pub changes: Vec<Change>,
    /// What is propagated to replicas and the append-only file.
    pub commands: Vec<PropagatedCommand>,
}

/// One propagated command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropagatedCommand {
    /// Its database.
    pub(crate) db: usize,
    /// The command, with absolute times.
    pub command: Arguments,
    /// Whether the node did it on its own (expiry), not the command.
    pub(crate) by_node: bool,
    /// The unit of execution that propagated it.
    pub(crate) unit: u64,
}

impl PropagatedCommand {
    /// Whether it is for replicas alone: PUBLISH is not kept on disk.
    pub fn is_publish(&self) -> bool {
        let name = &self.command[0];
        name.eq_ignore_ascii_case(b"PUBLISH") || name.eq_ignore_ascii_case(b"SPUBLISH")
    }
}

impl Effects {
    /// Whether there are no effects.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.commands.is_empty()
    }
}
