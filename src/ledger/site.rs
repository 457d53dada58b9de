//! What a history is held against.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::promise::Bounded;

use crate::promise::Assumption;

/// What a history is held against.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Every node, replicas included.
    pub nodes: Vec<String>,
    /// Every Sentinel.
    pub sentinels: Vec<String>,
    /// How many nodes have to grant, of those that are asked.
    pub quorum: u32,
    /// How many nodes an acquire asks.
    pub asked: u32,
    /// The longest that one message takes when nothing goes wrong, ns.
    pub message: Nanos,
    /// How long a caller works under one grant without prolonging it, ns.
    pub works: Nanos,
    /// What the lock counts on.
    pub assumes: Vec<Assumption>,
}

/// The bound of an assumption, if the lock makes it.
pub fn bound_of(assumes: &[Assumption], what: Bounded) -> Option<u64> {
    assumes.iter().find(|assumption| assumption.what == what).map(|found| found.bound)
}
