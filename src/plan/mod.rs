//! A plan: a scenario with every choice made. It is a value; once saved, it is the reproduction.

pub mod base_plan;
pub mod buggy_caller;
pub mod contradiction;
pub mod extend;
pub mod fault_contradiction;
pub mod host_name;
pub mod json;
pub mod lack;
pub mod lock_contradiction;
pub mod shards;
pub mod validity;
pub mod workload_kind;

use std::collections::BTreeMap;

use lockstorm_platform::fault::Fault;
use lockstorm_platform::network::Latency;
use lockstorm_platform::rng::DrawKey;
use lockstorm_platform::time::{ClockSetting, Nanos, SECOND};
use lockstorm_redis::compat::Compat;
use lockstorm_redis::node::{Append, NodeConfig};
use serde::{Deserialize, Serialize};

use crate::default::{is_default, is_one, one};
use crate::history::RESOURCE;
use crate::lock::config::LockConfig;
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::extend::Extend;
use crate::plan::host_name::is_client;
use crate::plan::shards::{Shards, in_turn};

pub use crate::plan::workload_kind::WorkloadKind;

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// Everything that determines one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The format's number.
    pub format: u32,
    /// The scenario's name, or the name that a hunt gives.
    pub name: String,
    /// The source of all draws.
    pub seed: u64,
    /// The nodes.
    pub topology: Topology,
    /// The lock under test.
    pub lock: LockConfig,
    /// What the clients do.
    pub workload: Workload,
    /// The network.
    pub links: Links,
    /// The initial settings of the hosts' clocks, by host name.
    #[serde(default)]
    pub clocks: BTreeMap<String, ClockSetting>,
    /// The faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Whether a hunt drew the faults, so that nobody chose them individually.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_drawn: bool,
    /// Draws that are fixed by hand.
    #[serde(default)]
    pub draws: BTreeMap<DrawKey, u64>,
    /// When faults end, the workload stops and the probe starts, ns.
    pub heal_at: Nanos,
    /// When the run ends, ns.
    pub until: Nanos,
}

impl Plan {
    /// The names of the nodes: `n1`, `n2`, ...
    pub fn nodes(&self) -> Vec<String> {
        self.topology.node_names()
    }

    /// The names of the Sentinels: `s1`, `s2`, ...
    pub fn sentinels(&self) -> Vec<String> {
        self.topology.sentinel_names()
    }

    /// The names of the clients: `c1`, `c2`, ...
    pub fn clients(&self) -> Vec<String> {
        (1..=self.workload.clients).map(|n| format!("c{n}")).collect()
    }

    /// The names of every host that a fault or a clock setting may name.
    pub fn hosts(&self) -> Vec<String> {
        let mut hosts = self.nodes();
        hosts.extend(self.sentinels());
        hosts.extend(self.clients());
        hosts.push(RESOURCE.to_owned());
        hosts
    }

    /// The maximum time to live of any key of the lock; 0 if its keys do not expire.
    pub fn longest_ttl(&self) -> Nanos {
        self.lock.ttl.max(self.lock.renew_ttl).unwrap_or(0)
    }
}

/// Redis's default save points.
const DEFAULT_SAVE_POINTS: &str = "3600 1 300 100 60 10000";

/// The nodes of a plan: `n1`, `n2`, ...
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// How they are connected.
    pub kind: TopologyKind,
    /// The number of nodes. `replicated`, `sentinel`: `n1` is the (first) master, the others are
    /// its replicas. `cluster`, `independent`: the masters come first, then their replicas: see
    /// [`Topology::master_of`].
    pub nodes: u32,
    /// The number of replicas of each master, in an `independent` topology.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas_each: u32,
    /// What each node keeps on disk.
    #[serde(default)]
    pub persistence: Persistence,
    /// The settings of its files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: Files,
    /// Whether nodes that are down at the heal stay down.
    #[serde(default)]
    pub keep_down: bool,
    /// The server whose behaviour each node has. The default is not written, so that plans of
    /// earlier versions keep their bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compat: Compat,
    /// When a master rejects writes for lack of replicas; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<MinReplicas>,
    /// `replica-priority` of nodes, by name, where it is not [`PRIORITY`]: only in a `sentinel`
    /// topology.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub priorities: BTreeMap<String, u32>,
    /// The Sentinels that watch the master: only in a `sentinel` topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinels: Option<Sentinels>,
    /// How the slots are served: only in a `cluster` topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
}

impl Topology {
    /// The names of the nodes: `n1`, `n2`, ...
    pub fn node_names(&self) -> Vec<String> {
        (1..=self.nodes).map(|n| format!("n{n}")).collect()
    }

    /// The names of the Sentinels: `s1`, `s2`, ...
    pub fn sentinel_names(&self) -> Vec<String> {
        let count = self.sentinels.as_ref().map_or(0, |sentinels| sentinels.count);
        (1..=count).map(|n| format!("s{n}")).collect()
    }

    /// This many nodes with default settings.
    pub fn plain(kind: TopologyKind, nodes: u32) -> Topology {
        Topology {
            kind,
            nodes,
            replicas_each: 0,
            persistence: Persistence::None,
            files: Files::default(),
            keep_down: false,
            compat: Compat::default(),
            min_replicas: None,
            priorities: BTreeMap::new(),
            sentinels: None,
            shards: None,
        }
    }
}

/// Redis's default of `replica-priority`. A Sentinel promotes a replica with the smallest number,
/// and none with 0.
pub const PRIORITY: u32 = 100;

/// Redis's default of `min-replicas-max-lag`, ns.
pub const MAX_LAG: Nanos = 10 * SECOND;

/// When a master rejects writes: `min-replicas-to-write` and `min-replicas-max-lag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MinReplicas {
    /// The minimum number of good replicas.
    pub to_write: u32,
    /// The maximum age of a good replica's last message, ns; whole seconds.
    pub max_lag: Nanos,
}

/// The Sentinels of a plan: `s1`, `s2`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sentinels {
    /// The number of Sentinels.
    pub count: u32,
    /// How many of them must consider the master down.
    pub quorum: u32,
    /// The time without a valid reply after which the master counts as down, ns.
    pub down_after: Nanos,
    /// The time after which a failover is abandoned, ns.
    pub failover_timeout: Nanos,
    /// How many replicas are reconfigured at a time to follow the new master.
    pub parallel_syncs: u32,
}

impl Sentinels {
    /// This many Sentinels with a majority as the quorum and Redis's default times.
    pub fn by_default(count: u32) -> Sentinels {
        Sentinels {
            count,
            quorum: count / 2 + 1,
            down_after: 30 * SECOND,
            failover_timeout: 180 * SECOND,
            parallel_syncs: 1,
        }
    }
}

impl Topology {
    /// The number of masters at the start.
    pub fn masters(&self) -> u32 {
        match self.kind {
            TopologyKind::Single => self.nodes,
            TopologyKind::Independent => self.nodes / self.replicas_each.saturating_add(1),
            TopologyKind::Replicated | TopologyKind::Sentinel => 1,
            TopologyKind::Cluster => self.shards.map_or(self.nodes, |shards| shards.masters),
        }
    }

    /// The number of replicas of each master at the start.
    pub fn replicas(&self) -> u32 {
        (self.nodes / self.masters().max(1)).saturating_sub(1)
    }

    /// The number of the master that the nth node follows at the start; `None` for a master. With
    /// three masters `n4` and `n7` follow `n1`, `n5` and `n8` follow `n2`.
    pub fn master_of(&self, nth: u32) -> Option<u32> {
        in_turn(nth, self.masters())
    }

    /// The setup of its nth node, apart from address, master and cluster.
    pub fn node(&self, nth: u32) -> NodeConfig {
        let save = match (self.persistence, &self.files.save[..]) {
            (Persistence::Rdb, "") => DEFAULT_SAVE_POINTS,
            (_, save) => save,
        };
        NodeConfig {
            append: match self.persistence {
                Persistence::None | Persistence::Rdb => Append::None,
                Persistence::AofAlways => Append::Always,
                Persistence::AofEverysec => Append::Everysec,
                Persistence::AofNo => Append::No,
            },
            save: save.to_owned(),
            save_time: self.files.save_time,
            load_time: self.files.load_time,
            truncates_torn_file: !self.files.refuse_torn,
            compat: self.compat,
            replica_priority: self.priorities.get(&format!("n{nth}")).copied().unwrap_or(PRIORITY),
            min_replicas_to_write: self.min_replicas.map_or(0, |least| least.to_write),
            min_replicas_max_lag: self.min_replicas.map_or(MAX_LAG, |least| least.max_lag) / SECOND,
            ..NodeConfig::default()
        }
    }
}

/// The settings of a node's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// When all keys are saved: pairs of seconds and changes, as in Redis. If empty, `rdb` has the
    /// default pairs.
    #[serde(default)]
    pub save: String,
    /// How long a background save takes, ns.
    #[serde(default)]
    pub save_time: Nanos,
    /// How long a node reads its file at the start before it serves clients, ns.
    #[serde(default)]
    pub load_time: Nanos,
    /// Whether a node refuses to start with a torn append-only file (`aof-load-truncated no`).
    #[serde(default)]
    pub refuse_torn: bool,
}

/// How nodes are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyKind {
    /// One node.
    Single,
    /// A master and its replicas. The name `master` resolves to the master; a failover needs a
    /// command.
    Replicated,
    /// A master, its replicas, and Sentinels that fail over on their own; clients query the
    /// Sentinels.
    Sentinel,
    /// Masters that share the slots, and their replicas, which fail over on their own.
    Cluster,
    /// Masters without knowledge of each other.
    Independent,
}

/// What a node keeps on its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Nothing.
    #[default]
    None,
    /// Append-only file, synced before each reply.
    AofAlways,
    /// Append-only file, synced once a second.
    AofEverysec,
    /// Append-only file, synced when the kernel decides.
    AofNo,
    /// Snapshots of all keys at the save points.
    Rdb,
}

/// What the clients `c1`, `c2`, ... do under the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The kind of the guarded resource.
    pub kind: WorkloadKind,
    /// The number of clients.
    pub clients: u32,
    /// The number of callers in the process of each client, as threads have it.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub callers: u32,
    /// The maximum number of rounds of each caller.
    pub rounds: u32,
    /// How long a client works between its read and its write, ns.
    pub hold: Nanos,
    /// The maximum rest between two rounds (drawn), ns.
    pub rest: Nanos,
    /// The maximum wait before a retry after a refusal (drawn), ns.
    pub retry: Nanos,
    /// How the resource checks fences.
    pub fence: FenceMode,
    /// Which accesses carry the fence and are checked.
    pub fence_on: FenceOn,
    /// Whether the client checks its deadline before each guarded access, and stops once it has
    /// passed.
    pub check_validity: bool,
    /// Items in stock, for the forms of `stock`; for others, the limit of what is counted.
    pub items: i64,
    /// The number of segments over which the items are spread, for `stock-segments`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub segments: u32,
    /// How long the counter of a rate limit lives, ns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub window: Nanos,
    /// Timeout of one access to the resource, ns.
    pub timeout: Nanos,
    /// The length of a period, for `schedule`, ns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub period: Nanos,
    /// The time between the starts of consecutive clients, ns.
    pub stagger: Nanos,
    /// Whether, and how often, a working client extends its grant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extend: Extend,
    /// Whether a client re-enters the lock while it works, and releases that grant half-way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reenter: bool,
    /// What every caller does wrong with the lock's answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub buggy_caller: BuggyCaller,
}

impl Workload {
    /// The number of callers of all clients.
    pub fn all_callers(&self) -> u32 {
        self.clients.saturating_mul(self.callers)
    }

    /// The items of the nth segment, counted from 1: where they cannot be equal, the first segments
    /// have one more.
    pub fn items_of(&self, nth: u32) -> i64 {
        let (segments, nth) = (i64::from(self.segments.max(1)), i64::from(nth));
        self.items / segments + i64::from(nth <= self.items % segments)
    }

    /// When the last of them starts, ns.
    pub fn last_start(&self) -> Nanos {
        self.stagger.saturating_mul(Nanos::from(self.all_callers().saturating_sub(1)))
    }
}

/// How the resource checks the fence of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FenceMode {
    /// It ignores the fence.
    #[default]
    None,
    /// It rejects a fence smaller than the largest seen.
    RejectSmaller,
    /// It rejects a fence not larger than that of the last accepted write: each grant has one
    /// write.
    RejectSmallerOrEqual,
    /// It accepts a write only if the value is still the one that its caller read.
    CompareAndSet,
}

/// Which accesses carry a fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FenceOn {
    /// Reads and writes: a read raises the mark.
    #[default]
    All,
    /// Writes only.
    Writes,
}

/// The network of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// The latency of a link that is not named.
    pub latency: Latency,
    /// The latencies of named links: `from -> to`.
    #[serde(default)]
    pub named: BTreeMap<String, Latency>,
    /// Lost tries per million on every link.
    #[serde(default)]
    pub loss_per_million: u32,
}

impl Links {
    /// The latency of the link from one host to another.
    pub(crate) fn between(&self, from: &str, to: &str) -> Latency {
        self.named.get(&format!("{from} -> {to}")).copied().unwrap_or(self.latency)
    }

    /// The latencies of the links between callers and such hosts. Links between nodes, between
    /// Sentinels, and between nodes and Sentinels carry no message of a caller.
    pub(crate) fn of_callers(
        &self,
        counts: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &Latency> {
        let joins = move |link: &str| {
            let Some((from, to)) = link.split_once(" -> ") else { return false };
            is_client(from) && counts(to) || is_client(to) && counts(from)
        };
        let named = self.named.iter().filter(move |(link, _)| joins(link));
        [&self.latency].into_iter().chain(named.map(|(_, latency)| latency))
    }
}

#[cfg(test)]
mod tests {
    use super::Workload;
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::base_plan;

    #[test]
    fn the_items_are_spread_over_the_segments() {
        let plan = base_plan("token-lua", TopologyKind::Single);
        let stock = |items, segments| {
            let stock = Workload { items, segments, ..plan.workload.clone() };
            (1..=segments).map(|nth| stock.items_of(nth)).collect::<Vec<_>>()
        };
        assert_eq!(stock(8, 3), [3, 3, 2]);
        assert_eq!(stock(1, 2), [1, 0]);
        assert_eq!(stock(0, 2), [0, 0]);
    }
}
