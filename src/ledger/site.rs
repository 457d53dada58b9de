//! The figures of a plan against which the ledger compares a history.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::promise::{Assumption, Bounded};

/// The figures of a plan against which the ledger compares a history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Every node, replicas included.
    pub nodes: Vec<String>,
    /// Every Sentinel.
    pub sentinels: Vec<String>,
    /// How many of the queried nodes have to grant.
    pub quorum: u32,
    /// How many nodes an acquire queries.
    pub queried: u32,
    /// The maximum time that one message takes without a fault, ns.
    pub message: Nanos,
    /// How long a caller works under one grant without extending it, ns.
    pub works: Nanos,
    /// Whether its callers do not heed the lock's answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub misuses: bool,
    /// The assumptions of the lock.
    pub assumes: Vec<Assumption>,
}

impl Site {
    /// Whether a host is one of the nodes.
    pub fn has_node(&self, host: &str) -> bool {
        self.nodes.iter().any(|node| node == host)
    }
}

/// The bound of an assumption, if the lock makes it.
pub fn bound_of(assumes: &[Assumption], what: Bounded) -> Option<u64> {
    assumes.iter().find(|assumption| assumption.what == what).map(|found| found.bound)
}
