//! What clients do under a lock, and the resource that the lock guards.
//!
//! - [`recorder`]: writes down every operation of a run
//! - [`caller`]: a lock whose calls are written down
//! - [`guard`]: what keeps a lock that nobody has read from bringing the run down
//! - [`progress`]: which runs are under way, for somebody outside
//! - [`fence`]: which accesses a resource takes
//! - [`resource`]: the resource, a process on its own host
//! - [`round`]: one time under the lock, and the resource as it is reached from there
//! - [`counter`], [`stock`], [`ledger`]: what one round does
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

/// What every client of a run is given.
#[derive(Clone)]
pub struct Job {
    /// What it does under the lock.
    pub workload: Workload,
    /// Makes a lock for one caller.
    pub lock: Rc<dyn Fn(Setting) -> Box<dyn Lock>>,
    /// How the lock is set up.
    pub config: LockConfig,
    /// The names of the nodes that the lock asks.
    pub nodes: Vec<String>,
    /// How many may hold the lock at once.
    pub holders: u32,
    /// Where operations are written down.
    pub recorder: Recorder,
    /// Set when the workload is to stop.
    pub stop: Rc<Cell<bool>>,
    /// What each poll of the lock beats.
    pub pulse: Pulse,
}

/// Messages one after the other between the reply to an acquire and the last access: connect to
/// the resource, read, write, two each.
const MESSAGES: u64 = 6;

/// How long the work of one round takes when nothing goes wrong: what a lock's promise depends on.
/// Messages that `links` loses by themselves are not counted.
pub fn work(workload: &Workload, links: &Links, ttl: Option<Nanos>) -> Work {
    let slowest = slowest_message(links);
    let works = stretch(workload, ttl);
    Work {
        lasts: works.saturating_add(slowest.saturating_mul(MESSAGES)),
        works,
        calls: u64::from(workload.reenter),
        // What is late by less than this still arrives before the caller has given it up.
        patience: workload.timeout.saturating_sub(slowest),
    }
}

/// The longest that one message takes on any link of `links` when nothing goes wrong, ns.
pub fn slowest_message(links: &Links) -> Nanos {
    let longest = |latency: &Latency| latency.of(u64::MAX);
    links.named.values().chain([&links.latency]).map(longest).max().unwrap_or(0)
}

/// How long a caller works under one grant without prolonging it, at the most, ns.
pub fn stretch(workload: &Workload, ttl: Option<Nanos>) -> Nanos {
    let again = if workload.reenter { reentry(workload, ttl) } else { 0 };
    let whole = workload.hold.saturating_add(again);
    let Some((rhythm, ttl)) = workload.extend.rhythm().zip(ttl) else { return whole };
    // It stops in time, whatever its extends came to.
    let most = ttl.saturating_sub(rhythm.reserve(ttl));
    let endless = workload.extend == Extend::UntilLost;
    if endless || whole > rhythm.due(ttl) { most } else { whole }
}

/// How long a caller waits for a lock that it holds already, ns.
pub fn reentry(workload: &Workload, ttl: Option<Nanos>) -> Nanos {
    ttl.map_or(workload.timeout, |ttl| workload.timeout.min(ttl / 4))
}
