//! What clients do under a lock, and the resource that the lock guards.
//!
//! - [`recorder`]: records every operation of a run
//! - [`caller`]: a lock with recorded calls
//! - [`guard`]: keeps an untrusted lock from stopping the run
//! - [`progress`]: which runs are active, for an outside observer
//! - [`fence`]: which accesses a resource accepts
//! - [`resource`]: the resource, a process on its own host
//! - [`round`]: one round under the lock, with its accesses to the resource
//! - [`addition`]: what changes the resource in one step
//! - [`critical_section`]: the work of one round; [`counter`], [`stock`], [`check_then_incr`],
//!   [`rate_limit`], [`append_log`], [`semaphore`], [`latch`], [`schedule`] are the built-in ones,
//!   and [`sections`] finds them by name
//! - [`firing`]: when callers ask that follow a clock
//! - [`client`], [`probe`]: the processes that acquire the lock

use std::cell::Cell;
use std::rc::Rc;

use lockstorm_platform::host::HostMutex;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::Nanos;

use crate::history::{PROBE, RESOURCE};
use crate::lock::client::{route, slot_map};
use crate::lock::config::LockConfig;
use crate::lock::{Lock, Setting};
use crate::plan::extend::Extend;
use crate::plan::host_name::is_node;
use crate::plan::{Links, Plan, TopologyKind, Workload, WorkloadKind};
use crate::promise::Work;
use crate::workload::progress::Pulse;
use crate::workload::recorder::Recorder;

pub mod addition;
pub mod append_log;
pub mod caller;
pub mod check_then_incr;
pub mod client;
pub mod counter;
pub mod critical_section;
pub mod fence;
pub mod firing;
pub mod guard;
pub mod latch;
pub mod probe;
pub mod progress;
pub mod rate_limit;
pub mod recorder;
pub mod resource;
pub mod round;
pub mod schedule;
pub mod sections;
pub mod semaphore;
pub mod stock;

/// The port on which the resource listens.
pub const RESOURCE_PORT: u16 = 7000;

/// What every client of a run receives.
#[derive(Clone)]
pub struct Job {
    /// Its work under the lock.
    pub workload: Workload,
    /// Makes a lock for one caller.
    pub lock: Rc<dyn Fn(Setting) -> Box<dyn Lock>>,
    /// The configuration of the lock.
    pub config: LockConfig,
    /// The names of the nodes that the lock queries.
    pub nodes: Vec<String>,
    /// Whether callers acquire the lock in either mode.
    pub shares: bool,
    /// The keys that are locks of their own: of which callers acquire groups, or one segment's
    /// after another. Empty if there is only the lock's key.
    pub keys: Vec<String>,
    /// Whether callers acquire groups of those keys.
    pub takes_groups: bool,
    /// Where operations are recorded.
    pub recorder: Recorder,
    /// Set when the workload is to stop.
    pub stop: Rc<Cell<bool>>,
    /// The mutex of the host on which the client runs: each host has one.
    pub mutex: HostMutex,
    /// Counts each poll of the lock.
    pub pulse: Pulse,
}

/// Sequential messages between the reply to an acquire and the last access: connect to the
/// resource, read, write, two each.
const MESSAGES: u64 = 6;

/// Sequential messages until a first access arrives: two for the connect, and the request.
const FIRST_ACCESS: u64 = 3;

/// How long the work of one round takes without disturbance: a lock's promise depends on it.
/// Messages that `links` loses without a fault do not count.
pub fn work(plan: &Plan) -> Work {
    let (workload, links) = (&plan.workload, &plan.links);
    let slowest = slowest_access(links);
    let works = stretch(workload, plan.lock.ttl);
    Work {
        lasts: works.saturating_add(slowest.saturating_mul(MESSAGES)),
        works,
        reply: reply(plan),
        nodes: u64::from(plan.topology.masters()),
        calls: u64::from(workload.reenter),
        extends: workload.extend != Extend::Never,
        fires_within: (workload.kind == WorkloadKind::Schedule).then_some(firing::MAX_LATE),
        // An access that is delayed by no more than this arrives before its caller's timeout.
        patience: workload.timeout.saturating_sub(slowest.saturating_mul(FIRST_ACCESS)),
        arrives: slowest.saturating_mul(FIRST_ACCESS) <= workload.timeout,
    }
}

/// The maximum time of one message between a caller and the resource without disturbance, ns.
pub fn slowest_access(links: &Links) -> Nanos {
    slowest_of(links.of_callers(|host| host == RESOURCE))
}

/// The maximum time of one message between a caller and a node or a Sentinel without disturbance,
/// ns.
pub fn slowest_request(links: &Links) -> Nanos {
    slowest_of(links.of_callers(|host| host != RESOURCE))
}

fn slowest_of<'a>(latencies: impl Iterator<Item = &'a Latency>) -> Nanos {
    latencies.map(|latency| latency.of(u64::MAX)).max().unwrap_or(0)
}

/// See [`Work::reply`].
fn reply(plan: &Plan) -> Nanos {
    if !finds_node(plan) {
        return Nanos::MAX;
    }
    let slowest = slowest_of(plan.links.of_callers(is_node));
    let first = median_message(&plan.links).saturating_mul(first_request(plan));
    slowest.saturating_mul(2).max(first)
}

/// The median time of one message between a caller and a node, on the slowest of these links, ns.
pub fn median_message(links: &Links) -> Nanos {
    links.of_callers(is_node).map(Latency::median).max().unwrap_or(0)
}

/// The messages of a connect, and of a request with its reply.
const ROUND: u64 = 4;

/// The maximum number of sequential messages of a caller's first request: it may have to subscribe
/// to Sentinels, query one for the master and query that for its role, or query one node of a
/// cluster for the slots and be redirected by another.
pub fn first_request(plan: &Plan) -> u64 {
    match plan.topology.kind {
        TopologyKind::Sentinel => 3 * ROUND + 2,
        TopologyKind::Cluster => 3 * ROUND,
        TopologyKind::Single | TopologyKind::Independent | TopologyKind::Replicated => ROUND,
    }
}

/// Whether every caller usually reaches one of the hosts that know its node before its client turns
/// to the next host: the client connects, and queries that host.
pub(crate) fn finds_node(plan: &Plan) -> bool {
    let (hosts, patience) = match plan.topology.kind {
        TopologyKind::Sentinel => (plan.sentinels(), route::PATIENCE),
        TopologyKind::Cluster => (plan.nodes(), slot_map::PATIENCE),
        TopologyKind::Single | TopologyKind::Replicated | TopologyKind::Independent => return true,
    };
    let median = |from: &str, to: &str| plan.links.between(from, to).median();
    let takes = |caller: &str, host: &str| 2 * (median(caller, host) + median(host, caller));
    let mut callers = plan.clients().into_iter().chain([PROBE.to_owned()]);
    callers.all(|caller| hosts.iter().any(|host| takes(&caller, host) <= patience))
}

/// The maximum time for which a caller works under one grant without extending it, ns.
pub fn stretch(workload: &Workload, ttl: Option<Nanos>) -> Nanos {
    let again = if workload.reenter { reentry(workload, ttl) } else { 0 };
    let whole = workload.hold.saturating_add(again);
    let Some((rhythm, ttl)) = workload.extend.rhythm().zip(ttl) else { return whole };
    // The caller stops in time, whatever its extends returned.
    let most = ttl.saturating_sub(rhythm.reserve(ttl));
    let endless = workload.extend == Extend::UntilLost;
    if endless || whole > rhythm.due(ttl) { most } else { whole }
}

/// How long a caller waits for a lock that it already holds, ns.
pub fn reentry(workload: &Workload, ttl: Option<Nanos>) -> Nanos {
    ttl.map_or(workload.timeout, |ttl| workload.timeout.min(ttl / 4))
}
