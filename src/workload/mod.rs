//! What clients do under a lock, and the resource that the lock guards.
//!
//! - [`recorder`]: writes down every operation of a run
//! - [`caller`]: a lock whose calls are written down
//! - [`fence`]: which accesses a resource takes
//! - [`resource`]: the resource, a process on its own host
//! - [`round`]: one time under the lock, and the resource as it is reached from there
//! - [`counter`], [`stock`], [`ledger`]: what one round does
//! - [`client`], [`probe`]: the processes that want the lock

use std::cell::Cell;
use std::rc::Rc;

use lockstorm_sim::network::Latency;
use lockstorm_sim::time::Nanos;

use crate::lock::promise::Work;
use crate::lock::{Lock, LockConfig, Setting};
use crate::plan::{Links, Workload};
use crate::workload::recorder::Recorder;

pub mod caller;
pub mod client;
pub mod counter;
pub mod fence;
pub mod ledger;
pub mod probe;
pub mod recorder;
pub mod resource;
pub mod round;
pub mod stock;

/// The name of the host on which the resource runs.
pub const RESOURCE: &str = "resource";
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
    /// Where operations are written down.
    pub recorder: Recorder,
    /// Set when the workload is to stop.
    pub stop: Rc<Cell<bool>>,
}

/// Messages one after the other between the reply to an acquire and the last access: connect to
/// the resource, read, write, two each.
const MESSAGES: u64 = 6;

/// How long the work of one round takes when nothing goes wrong: what a lock's promise depends on.
/// Messages that `links` loses by themselves are not counted.
pub fn work(workload: &Workload, links: &Links) -> Work {
    let slowest = slowest_message(links);
    Work {
        lasts: workload.hold.saturating_add(slowest.saturating_mul(MESSAGES)),
        // What is late by less than this still arrives before the caller has given it up.
        patience: workload.timeout.saturating_sub(slowest),
    }
}

/// The longest that one message takes on any link of `links` when nothing goes wrong, ns.
pub fn slowest_message(links: &Links) -> Nanos {
    let longest = |latency: &Latency| latency.of(u64::MAX);
    links.named.values().chain([&links.latency]).map(longest).max().unwrap_or(0)
}
