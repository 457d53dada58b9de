//! What clients do under a lock, and the resource that the lock guards.
//!
//! - [`recorder`]: records every operation of a run
//! - [`caller`]: a lock with recorded calls
//! - [`guard`]: keeps an untrusted lock from stopping the run
//! - [`progress`]: which runs are active, for an outside observer
//! - [`fence`]: which accesses a resource accepts
//! - [`resource`]: the resource, a process on its own host
//! - [`round`]: one round under the lock, with its accesses to the resource
//! - [`counter`], [`stock`], [`ledger`]: the work of one round
//! - [`client`], [`probe`]: the processes that want the lock

use std::cell::Cell;
use std::rc::Rc;

use lockstorm_platform::network::Latency;
use lockstorm_platform::time::Nanos;

use crate::lock::config::LockConfig;
use crate::lock::{Lock, Setting};
use crate::plan::extend::Extend;
use crate::plan::{Links, Workload};
use crate::promise::Work;
use crate::workload::progress::Pulse;
use crate::workload::recorder::Recorder;

pub mod caller;
pub mod client;
pub mod counter;
pub mod fence;
pub mod guard;
pub mod ledger;
pub mod probe;
pub mod progress;
pub mod recorder;
pub mod resource;
pub mod round;
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
    /// How many may hold the lock at once.
    pub holders: u32,
    /// Where operations are recorded.
    pub recorder: Recorder,
    /// Set when the workload is to stop.
    pub stop: Rc<Cell<bool>>,
    /// Counts each poll of the lock.
    pub pulse: Pulse,
}

/// Sequential messages between the reply to an acquire and the last access: connect to the
/// resource, read, write, two each.
const MESSAGES: u64 = 6;

/// How long the work of one round takes without disturbance: a lock's promise depends on it.
/// Messages that `links` loses without a fault do not count.
pub fn work(workload: &Workload, links: &Links, ttl: Option<Nanos>) -> Work {
    let slowest = slowest_message(links);
    let works = stretch(workload, ttl);
    Work {
        lasts: works.saturating_add(slowest.saturating_mul(MESSAGES)),
        works,
        round_trip: slowest.saturating_mul(2),
        calls: u64::from(workload.reenter),
        extends: workload.extend != Extend::Never,
        // A message that is delayed by less than this still arrives before the caller gives up.
        patience: workload.timeout.saturating_sub(slowest),
    }
}

/// The maximum time of one message on any link of `links` without disturbance, ns.
pub fn slowest_message(links: &Links) -> Nanos {
    let longest = |latency: &Latency| latency.of(u64::MAX);
    links.named.values().chain([&links.latency]).map(longest).max().unwrap_or(0)
}

/// The maximum time for which a caller works under one grant without extending it, ns.
pub fn stretch(workload: &Workload, ttl: Option<Nanos>) -> Nanos {
    let again = if workload.reenter { reentry(workload, ttl) } else { 0 };
    let whole = workload.hold.saturating_add(again);
    let Some((rhythm, ttl)) = workload.extend.rhythm().zip(ttl) else { return whole };
    // It stops in time, whatever its extends returned.
    let most = ttl.saturating_sub(rhythm.reserve(ttl));
    let endless = workload.extend == Extend::UntilLost;
    if endless || whole > rhythm.due(ttl) { most } else { whole }
}

/// How long a caller waits for a lock that it already holds, ns.
pub fn reentry(workload: &Workload, ttl: Option<Nanos>) -> Nanos {
    ttl.map_or(workload.timeout, |ttl| workload.timeout.min(ttl / 4))
}
