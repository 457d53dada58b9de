//! The scripts of a node: its caches, and the script that holds it.

pub mod flags;
pub mod libraries;

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::chance::ScriptDice;
use crate::frame::Arguments;
use crate::script_state::libraries::Libraries;

/// What a node knows of scripts.
#[derive(Clone, Debug, Default)]
pub struct ScriptState {
    /// The Lua script cache: bodies by their SHA1 in lower case. Neither replicated nor kept on
    /// disk.
    pub cache: BTreeMap<Bytes, Bytes>,
    /// Libraries of functions, which are replicated and kept on disk.
    pub libraries: Libraries,
    /// The generator behind `math.random`, as in Redis.
    pub dice: ScriptDice,
    /// The script that holds the node.
    pub busy: Option<Busy>,
}

/// A script that holds its node: it does not terminate, or a fault makes it slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// When it began, in Unix milliseconds.
    pub since_ms: u64,
    /// The session that called it.
    pub session: u64,
    /// Whether it has written: then it cannot be killed.
    pub wrote: bool,
    /// The caller's reply when it is killed.
    pub killed: Bytes,
    /// Whether it does not terminate; a slow one has not begun yet.
    pub endless: bool,
    /// The function, if it is one.
    pub function: Option<FunctionCall>,
}

/// The function that holds its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCall {
    /// Its name.
    pub name: Bytes,
    /// The request that called it.
    pub command: Arguments,
}
