//! The base plan of a hunt that is given only a lock and a topology.

use std::collections::BTreeMap;

use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, SECOND};

use crate::lock::algorithm::{Algorithm, Nodes, latch, scheduled};
use crate::lock::catalogue::{self, ALGORITHMS};
use crate::lock::config::LockConfig;
use crate::lock::library::Library;
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::extend::Extend;
use crate::plan::shards::Shards;
use crate::plan::{
    FORMAT, FenceMode, FenceOn, Links, Plan, Sentinels, Topology, TopologyKind, Workload,
    WorkloadKind,
};
use crate::refusal::one_of;

/// Time to live of the lock's key: short, so that leases expire often in a short run.
const TTL: u64 = 3 * SECOND;
/// The same for a lock that renews its leases, and the work under it: longer, so that it does.
const RENEWED_TTL: u64 = SECOND;
const RENEWED_HOLD: u64 = 1_500 * MILLISECOND;

/// The number of clients of a lock with one or two holders.
const CLIENTS: u32 = 3;
/// The maximum number of holders for whom there is one client more: more than that may all hold it.
const MAX_HOLDERS: u32 = 10;
/// The period of a scheduled job.
const PERIOD: u64 = 2 * SECOND;

/// Masters of a cluster, each with one replica. They fail over quickly, since a run of a hunt is
/// short.
const MASTERS: u32 = 3;

/// When the faults of a hunt are healed.
const HEAL_AT: u64 = 12 * SECOND;
/// How long a run continues after the heal, in addition to the maximum time to live.
const PROBE_TIME: u64 = 10 * SECOND;

/// Sentinels that act quickly, since a run of a hunt is short.
const SENTINELS: Sentinels = Sentinels {
    count: 3,
    quorum: 2,
    down_after: SECOND,
    failover_timeout: 10 * SECOND,
    parallel_syncs: 1,
};

/// A plan without faults: clients that often acquire a lock of the catalogue, for a counter, or to
/// be inside at once if it has several holders.
///
/// # Panics
/// If the catalogue has no such lock: for a user's own there is [`base_plan_of`].
#[track_caller]
pub fn base_plan(lock: &str, topology: TopologyKind) -> Plan {
    let Some(algorithm) = catalogue::find(lock) else {
        let instead = one_of(lock, &ALGORITHMS.map(|lock| lock.name));
        panic!("the catalogue has no lock '{lock}' ({instead}; base_plan_of takes your own lock)");
    };
    base_plan_of(algorithm, topology)
}

/// Like [`base_plan`], with the options of a client library.
pub fn base_plan_of_library(library: &Library, topology: TopologyKind) -> Plan {
    let plan = base_plan(library.lock, topology);
    Plan { name: format!("hunt-{}", library.name), lock: library.of(plan.lock.clone()), ..plan }
}

/// The topology that a lock is made for.
pub fn home(lock: &Algorithm) -> TopologyKind {
    match (lock.nodes, lock.waits_for_replicas) {
        (Nodes::Quorum, _) => TopologyKind::Independent,
        (_, true) => TopologyKind::Replicated,
        _ => TopologyKind::Single,
    }
}

/// Like [`base_plan`], for a user's own lock.
pub fn base_plan_of(lock: &Algorithm, topology: TopologyKind) -> Plan {
    let ttl = lock.needs_ttl.then_some(if lock.renews { RENEWED_TTL } else { TTL });
    let nodes = match topology {
        TopologyKind::Single => 1,
        TopologyKind::Replicated | TopologyKind::Sentinel => 3,
        TopologyKind::Cluster => 2 * MASTERS,
        TopologyKind::Independent => 5,
    };
    let config = LockConfig {
        algorithm: lock.name.to_owned(),
        key: "lock".to_owned(),
        ttl,
        ..LockConfig::default()
    };
    Plan {
        format: FORMAT,
        name: format!("hunt-{}", lock.name),
        seed: 1,
        topology: Topology {
            sentinels: (topology == TopologyKind::Sentinel).then_some(SENTINELS),
            shards: (topology == TopologyKind::Cluster)
                .then_some(Shards { masters: MASTERS, node_timeout: SECOND }),
            ..Topology::plain(topology, nodes)
        },
        workload: workload(lock, &config),
        lock: config,
        links: Links {
            latency: Latency::Uniform { min: MILLISECOND, max: 5 * MILLISECOND },
            named: BTreeMap::new(),
            loss_per_million: 0,
        },
        clocks: BTreeMap::new(),
        faults: Vec::new(),
        is_drawn: false,
        draws: BTreeMap::new(),
        heal_at: HEAL_AT,
        until: HEAL_AT + ttl.unwrap_or(0) + PROBE_TIME,
    }
}

/// The work of a hunt. More clients than a lock has permits, so that they get in each other's way.
fn workload(lock: &Algorithm, config: &LockConfig) -> Workload {
    let holders = lock.holders(config);
    let is_scheduled = lock.name == scheduled::NAME;
    Workload {
        kind: match holders {
            1 if is_scheduled => WorkloadKind::Schedule,
            1 => WorkloadKind::Counter,
            _ if lock.name == latch::NAME => WorkloadKind::Latch,
            _ => WorkloadKind::Semaphore,
        },
        clients: if holders > MAX_HOLDERS { CLIENTS } else { CLIENTS.max(holders + 1) },
        callers: 1,
        rounds: 10,
        hold: if lock.renews { RENEWED_HOLD } else { 600 * MILLISECOND },
        rest: 300 * MILLISECOND,
        retry: 200 * MILLISECOND,
        fence: FenceMode::None,
        fence_on: FenceOn::All,
        check_validity: false,
        items: 10,
        segments: 0,
        window: 0,
        timeout: SECOND,
        period: if is_scheduled { PERIOD } else { 0 },
        // Parties that come one after the other: a latch that opens early is seen by the last.
        stagger: if lock.name == latch::NAME { SECOND } else { 20 * MILLISECOND },
        extend: Extend::Never,
        reenter: false,
        buggy_caller: BuggyCaller::None,
    }
}

#[cfg(test)]
mod tests {
    use super::base_plan;
    use crate::plan::TopologyKind;

    #[test]
    #[should_panic(expected = "has no lock 'redlok' (did you mean 'redlock'?; base_plan_of takes")]
    fn a_slip_in_the_name_of_a_lock_is_no_lock_without_a_lease() {
        let _ = base_plan("redlok", TopologyKind::Independent);
    }
}
