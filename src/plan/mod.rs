//! A plan: a scenario with every choice made. A value; saved, it is the reproduction.

pub mod contradiction;
pub mod extend;
pub mod fault_contradiction;
pub mod json;
pub mod lock_contradiction;
pub mod validity;

use std::collections::BTreeMap;

use lockstorm_platform::fault::Fault;
use lockstorm_platform::network::Latency;
use lockstorm_platform::rng::DrawKey;
use lockstorm_platform::time::{ClockSetting, Nanos, SECOND};
use lockstorm_redis::cluster::slots::SLOTS;
use lockstorm_redis::compat::Compat;
use lockstorm_redis::node::{Append, NodeConfig};
use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::history::RESOURCE;
use crate::lock::config::LockConfig;
use crate::plan::extend::Extend;

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// Everything that one run is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The format's number.
    pub format: u32,
    /// The scenario's name, or what a hunt calls it.
    pub name: String,
    /// Where every draw comes from.
    pub seed: u64,
    /// The nodes.
    pub topology: Topology,
    /// The lock under test.
    pub lock: LockConfig,
    /// What the clients do.
    pub workload: Workload,
    /// The network.
    pub links: Links,
    /// How hosts' clocks are set at the start, by host name.
    #[serde(default)]
    pub clocks: BTreeMap<String, ClockSetting>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Whether a hunt drew the faults, and nobody chose them one by one.
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

/// Fields that count something.
const COUNTS: [&str; 13] = [
    "acks",
    "clients",
    "count",
    "items",
    "masters",
    "nodes",
    "parallel_syncs",
    "quorum",
    "replicas_each",
    "rounds",
    "seed",
    "to_write",
    "tries",
];
/// Whether a field of a plan's JSON, or a path that ends with it, counts something: every other
/// number is a length in nanoseconds, or says its unit.
pub fn is_count(path: &str) -> bool {
    path.rsplit('.').next().is_some_and(|field| COUNTS.contains(&field))
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

    /// The longest time to live that any key of the lock can have; 0 if it has none.
    pub fn longest_ttl(&self) -> Nanos {
        self.lock.ttl.max(self.lock.renew_ttl).unwrap_or(0)
    }
}

/// Redis's own save points.
const USUAL_SAVE_POINTS: &str = "3600 1 300 100 60 10000";

/// The nodes of a plan: `n1`, `n2`, ...
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// How they belong together.
    pub kind: TopologyKind,
    /// How many there are. `replicated`, `sentinel`: `n1` is the (first) master, the others are its
    /// replicas. `cluster`, `independent`: the masters come first, then their replicas: see
    /// [`Topology::master_of`].
    pub nodes: u32,
    /// How many replicas each of the masters has, in an `independent` topology.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas_each: u32,
    /// What each keeps on disk.
    #[serde(default)]
    pub persistence: Persistence,
    /// What their files are like.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: Files,
    /// Whether nodes that are down at the heal stay down.
    #[serde(default)]
    pub keep_down: bool,
    /// Which server each answers like. The usual one is not written: plans of before have none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compat: Compat,
    /// When a master refuses writes for want of replicas; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<MinReplicas>,
    /// Who watches the master: in a `sentinel` topology, and there alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinels: Option<Sentinels>,
    /// How the slots are served: in a `cluster` topology, and there alone.
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

    /// So many nodes of the usual kind.
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
            sentinels: None,
            shards: None,
        }
    }
}

/// When a master refuses writes: `min-replicas-to-write` and `min-replicas-max-lag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MinReplicas {
    /// With fewer good replicas than these.
    pub to_write: u32,
    /// How old a good one's last word may be, ns; whole seconds.
    pub max_lag: Nanos,
}

/// The Sentinels of a plan: `s1`, `s2`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sentinels {
    /// How many there are.
    pub count: u32,
    /// How many of them have to take the master for down.
    pub quorum: u32,
    /// After how long without a valid answer it is down, ns.
    pub down_after: Nanos,
    /// After how long a failover is given up, ns.
    pub failover_timeout: Nanos,
    /// How many replicas are told at a time to follow the new master.
    pub parallel_syncs: u32,
}

impl Sentinels {
    /// So many, a majority of which has to agree, with the times of Redis.
    pub fn usual(count: u32) -> Sentinels {
        Sentinels {
            count,
            quorum: count / 2 + 1,
            down_after: 30 * SECOND,
            failover_timeout: 180 * SECOND,
            parallel_syncs: 1,
        }
    }
}

/// The slots of a cluster: even shares of masters that all nodes know from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shards {
    /// How many masters there are: `n1` has the first slots.
    pub masters: u32,
    /// After how long without an answer a node is suspected: `cluster-node-timeout`, ns.
    pub node_timeout: Nanos,
}

impl Shards {
    /// `cluster-node-timeout` where nothing is said.
    pub const NODE_TIMEOUT: Nanos = 15 * SECOND;

    /// See [`Topology::master_of`].
    pub fn master_of(&self, nth: u32) -> Option<u32> {
        in_turn(nth, self.masters)
    }

    /// The first and the last slot of the nth node, which is a master.
    pub fn slots_of(&self, nth: u32) -> (u16, u16) {
        let from = |nth: u32| u32::from(SLOTS) * nth / self.masters;
        let slot = |slot: u32| u16::try_from(slot).unwrap_or(SLOTS - 1);
        (slot(from(nth - 1)), slot(from(nth) - 1))
    }
}

/// Whom the nth node follows, if replicas come behind all masters and follow them in turn.
fn in_turn(nth: u32, masters: u32) -> Option<u32> {
    (nth > masters).then(|| (nth - 1) % masters.max(1) + 1)
}

impl Topology {
    /// How many masters there are at the start.
    pub fn masters(&self) -> u32 {
        match self.kind {
            TopologyKind::Single => self.nodes,
            TopologyKind::Independent => self.nodes / self.replicas_each.saturating_add(1),
            TopologyKind::Replicated | TopologyKind::Sentinel => 1,
            TopologyKind::Cluster => self.shards.map_or(self.nodes, |shards| shards.masters),
        }
    }

    /// How many replicas each master has at the start.
    pub fn replicas(&self) -> u32 {
        (self.nodes / self.masters().max(1)).saturating_sub(1)
    }

    /// The number of the master whom the nth node follows at the start; `None` for a master. With
    /// three masters `n4` and `n7` follow `n1`, `n5` and `n8` follow `n2`.
    pub fn master_of(&self, nth: u32) -> Option<u32> {
        in_turn(nth, self.masters())
    }

    /// How each of its nodes is set up, apart from its address, its master and its cluster.
    pub fn node(&self) -> NodeConfig {
        let save = match (self.persistence, &self.files.save[..]) {
            (Persistence::Rdb, "") => USUAL_SAVE_POINTS,
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
            mends_torn_file: !self.files.refuse_torn,
            compat: self.compat,
            min_replicas_to_write: self.min_replicas.map_or(0, |least| least.to_write),
            min_replicas_max_lag: self.min_replicas.map_or(10, |least| least.max_lag / SECOND),
            ..NodeConfig::default()
        }
    }
}

/// What a node's files are like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// When all keys are saved: pairs of seconds and changes, as in Redis. Without any, the
    /// usual ones hold for `rdb`.
    #[serde(default)]
    pub save: String,
    /// How long a save in the background takes, ns.
    #[serde(default)]
    pub save_time: Nanos,
    /// How long a node reads its file at the start before it serves anybody, ns.
    #[serde(default)]
    pub load_time: Nanos,
    /// Whether a node does not start with a torn append-only file (`aof-load-truncated no`).
    #[serde(default)]
    pub refuse_torn: bool,
}

/// How nodes belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyKind {
    /// One node.
    Single,
    /// A master and its replicas; `master` names the master, failover is by command.
    Replicated,
    /// A master, its replicas, and Sentinels that fail over by themselves; clients ask these.
    Sentinel,
    /// Masters that share the slots, and their replicas, which fail over by themselves.
    Cluster,
    /// Masters that know nothing of each other.
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
    /// Append-only file, synced when the kernel likes.
    AofNo,
    /// All keys now and then, as the save points ask.
    Rdb,
}

/// What the clients `c1`, `c2`, ... do under the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What is guarded.
    pub kind: WorkloadKind,
    /// How many clients there are.
    pub clients: u32,
    /// How often each client takes the lock, at the most.
    pub rounds: u32,
    /// How long it works between its read and its write, ns.
    pub hold: Nanos,
    /// How long it rests between two rounds, at the most (drawn), ns.
    pub rest: Nanos,
    /// How long it waits before it asks again after a refusal, at the most (drawn), ns.
    pub retry: Nanos,
    /// How the resource treats fences.
    pub fence: FenceMode,
    /// Which accesses carry the fence and are checked.
    pub fence_on: FenceOn,
    /// Whether the client looks at its deadline before each guarded access, and gives up if passed.
    pub check_validity: bool,
    /// Items in stock, for `stock`.
    pub items: i64,
    /// Time-out of one access to the resource, ns.
    pub timeout: Nanos,
    /// When each client starts after the one before it, ns.
    pub stagger: Nanos,
    /// Whether, and how often, a client that works prolongs its grant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extend: Extend,
    /// Whether a client takes the lock again while it works, and gives that back half-way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reenter: bool,
}

/// What is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Read, wait, write back plus one.
    Counter,
    /// Read, if there is any wait, write back minus one.
    Stock,
    /// Append an entry, wait, append another.
    Ledger,
}

/// How the resource treats the fence of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FenceMode {
    /// Does not look at it.
    #[default]
    None,
    /// Refuses one smaller than the largest seen.
    RejectSmaller,
    /// Refuses one not larger than that of the last accepted write: one write a grant.
    RejectSmallerOrEqual,
    /// Accepts a write only if the value is still the one that its caller read.
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
    /// How long a message takes on a link that is not named.
    pub latency: Latency,
    /// Links with a latency of their own: `from -> to`.
    #[serde(default)]
    pub named: BTreeMap<String, Latency>,
    /// Lost tries in a million on every link.
    #[serde(default)]
    pub loss_per_million: u32,
}

#[cfg(test)]
mod tests {
    use super::Shards;

    #[test]
    fn masters_share_the_slots_evenly_and_replicas_follow_them_in_turn() {
        let shards = Shards { masters: 3, node_timeout: Shards::NODE_TIMEOUT };
        let slots = [1, 2, 3].map(|nth| shards.slots_of(nth));
        assert_eq!(slots, [(0, 5460), (5461, 10921), (10922, 16383)]);
        let masters = [1, 3, 4, 5, 6, 7, 9].map(|nth| shards.master_of(nth));
        assert_eq!(masters, [None, None, Some(1), Some(2), Some(3), Some(1), Some(3)]);
        let one = Shards { masters: 1, ..shards };
        assert_eq!((one.slots_of(1), one.master_of(2)), ((0, 16383), Some(1)));
    }
}
