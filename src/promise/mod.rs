//! What a lock promises, and what it counts on, as data: all that judges of a lock know of it.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

pub mod contract;

/// What a lock promises, and what it counts on, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// How many may hold it at once. Where it is more than one, the guarded resource is not judged,
    /// since its changes ask for one holder at a time, nor who touches whose key.
    pub holders: u32,
    /// Whether it tells a running caller that the lock is lost.
    pub tells_loss: bool,
    /// The model that its acquires and releases follow.
    pub model: Model,
    /// What it counts on.
    pub assumes: Vec<Assumption>,
}

/// A sequential model of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// It promises no order at all.
    None,
    /// Held until released.
    Mutex,
    /// Held until released, or until the time to live has passed since the acquire.
    Lease,
}

/// Something that a lock counts on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumption {
    /// What is bounded.
    pub what: Bounded,
    /// The most that it withstands, in the unit of [`Bounded`]; of a down-time the least.
    pub bound: u64,
}

/// What an assumption bounds. A run that goes beyond the bound breaks the assumption, whatever the
/// plan had in mind; what is not listed in a [`Promise`] is withstood whatever its size.
///
/// "In one hold" means from the call of an acquire until its release has returned, its refusal,
/// its loss or the death of its process; of grants that nest, until that of the last.
/// Pauses and late accesses eat the same lease: a pause is judged together with what the accesses
/// of its hold are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounded {
    /// How long a client may be paused or suspended in one hold, its late accesses added, ns.
    ClientPause,
    /// How many clients may die in a hold, count.
    ClientCrash,
    /// How far a node's wall clock may be moved from its course between any two moments, by steps
    /// in either direction and by the time that it stands frozen, ns.
    NodeClockStep,
    /// The same of a client's wall clock, ns.
    ClientClockStep,
    /// Relative rate error between any two nodes or clients at one moment, ppm.
    Drift,
    /// A node restarts without keys that it had acknowledged, with keys whose deletion it had, or
    /// with an end that a renewal had put off: the down-time from which on that is harmless, ns. A
    /// *shorter* down-time breaks the assumption, a longer one does not.
    AmnesiacRestart,
    /// Failovers to a replica that may miss acknowledged keys, count: replicas that become master.
    Failover,
    /// Keys removed by eviction or FLUSHALL, count.
    KeyRemoval,
    /// How long a caller works under one grant without prolonging it, ns.
    Work,
    /// How long after the heal no node leads that could serve the lock's key, ns. Every lock counts
    /// on it without saying so: the bound is what the probe is given in any case.
    Leaderless,
    /// How long after the heal a master still tells clients that too few replicas have what was
    /// written, ns: as long as a lost replica takes to notice, or a sender waits between two tries.
    /// Every lock counts on it without saying so: the bound is what the probe is given in any case.
    Unreplicated,
    /// How much later than without faults the accesses of one hold reach the resource, taken
    /// together, ns.
    AccessDelay,
}

/// What a caller does under the lock, as far as a lock's promise depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The longest time from the reply to the acquire until the last access to the resource
    /// was decided on, when no fault strikes: round trips and connects included, ns.
    pub lasts: Nanos,
    /// The part of `lasts` that is the caller's own work, with no message in it, ns.
    pub works: Nanos,
    /// Calls to the lock within that, each of which takes a request's time-out at the most.
    pub calls: u64,
    /// How long the caller waits for one access before it gives up and releases the lock, ns.
    pub patience: Nanos,
}

/// The promise of a lock for one holder that tells nobody of its loss.
pub fn exclusive(model: Model, assumes: Vec<Assumption>) -> Promise {
    Promise { holders: 1, tells_loss: false, model, assumes }
}

/// One assumption.
pub fn bound(what: Bounded, bound: u64) -> Assumption {
    Assumption { what, bound }
}
