//! What a search may draw besides faults: the names of it.

use std::collections::BTreeSet;

use proptest::prelude::{BoxedStrategy, Just, Strategy};
use serde::{Deserialize, Serialize};

/// A parameter that may be drawn besides faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// How long a client works.
    Hold,
    /// The length of a lease.
    Ttl,
    /// The number of nodes.
    Nodes,
    /// The number of clients.
    Clients,
    /// The number of callers in the process of each client.
    Callers,
    /// The timeout of the lock's requests.
    Timeout,
    /// Whether a client extends its grant.
    Extend,
    /// Whether a client re-enters the lock while it holds it.
    Reenter,
    /// Whether a client checks its deadline.
    CheckValidity,
    /// What the nodes write to their disks.
    Persistence,
    /// After how long without a sign of a master others replace it.
    DownAfter,
    /// How many Sentinels have to agree on that.
    SentinelQuorum,
    /// How many replicas a master needs.
    MinReplicas,
    /// Which replica Sentinels promote first.
    Priority,
    /// The rates of the clocks from the start.
    ClockRate,
    /// What the wall clocks show at the start.
    WallOffset,
}

impl Parameter {
    /// Every parameter.
    pub fn all() -> BTreeSet<Parameter> {
        use Parameter::{Callers, CheckValidity, Clients, Extend, Hold, Nodes, Reenter, Timeout};
        use Parameter::{ClockRate, DownAfter, MinReplicas, Persistence, Priority, SentinelQuorum};
        use Parameter::{Ttl, WallOffset};
        let of_use = [Hold, Ttl, Clients, Callers, Timeout, Extend, Reenter, CheckValidity];
        let of_nodes = [Nodes, Persistence, DownAfter, SentinelQuorum, MinReplicas, Priority];
        let of_clocks = [ClockRate, WallOffset];
        of_use.into_iter().chain(of_nodes).chain(of_clocks).collect()
    }
}

/// The value of the base plan, or another value in one of three cases.
pub fn maybe<S>(free: bool, other: S) -> BoxedStrategy<Option<S::Value>>
where
    S: Strategy + 'static,
    S::Value: Clone + 'static,
{
    if !free {
        return Just(None).boxed();
    }
    proptest::prop_oneof![2 => Just(None), 1 => other.prop_map(Some)].boxed()
}
