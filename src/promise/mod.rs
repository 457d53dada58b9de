//! What a lock promises and assumes, as data. Code that judges a lock knows nothing else about it.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::default::is_default;

pub mod contract;

/// What a lock promises and assumes, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The maximum number of concurrent holders. If it is more than one, the guarded resource is
    /// judged in the workload `semaphore` only, since the others need one holder at a time. Which
    /// caller changes what another owns is judged by the members of the lock's key, if it is a
    /// collection in which the token of each grant is a member.
    pub holders: u32,
    /// Whether nothing keeps its callers apart: how many hold it at once is not judged then, but
    /// what becomes of the guarded resource is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unguarded: bool,
    /// Whether it notifies a running caller of the loss of the lock.
    pub reports_loss: bool,
    /// The model that its acquires and releases follow.
    pub model: Model,
    /// Its assumptions.
    pub assumes: Vec<Assumption>,
    /// How long after a grant its key may keep others out although it is released, by the clock of
    /// its caller, ns; 0 for a lock that is free once it is released.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kept: Nanos,
    /// The key of the queue in which its waiters stand, if it grants them the lock in the order in
    /// which they joined it: a list, a set, a sorted set or a hash with a member for each waiter.
    /// The member belongs to the acquire that added it, and is gone when that acquire returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

/// A sequential model of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// No order is promised.
    None,
    /// Held until released.
    Mutex,
    /// Held until released, or until the time to live has passed since the acquire.
    Lease,
}

/// An assumption of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumption {
    /// The bounded quantity.
    pub what: Bounded,
    /// The maximum that the lock tolerates, in the unit of [`Bounded`]; for a down time, the
    /// minimum.
    pub bound: u64,
}

/// The quantity that an assumption bounds. A run that exceeds the bound breaches the assumption,
/// whatever the plan intended. A lock tolerates any amount of what its [`Promise`] does not list.
///
/// "In one hold" means from the call of an acquire to the return of its release, its refusal, its
/// loss or the death of its process; for nested grants, to that of the last one. Pauses and late
/// accesses use up the same lease, so a pause is judged together with the delay of the accesses of
/// its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounded {
    /// How long a client may be paused or suspended in one hold, including the delay of its
    /// accesses, ns.
    ClientPause,
    /// The same from the first grant of a hold on: a lock that takes a grant without a look at what
    /// is left of its lease assumes nothing about pauses before it has the grant, ns.
    HoldPause,
    /// How many clients may die in a hold.
    ClientCrash,
    /// How far a node's wall clock may move off its course between any two moments, by steps in
    /// either direction and by the time for which it is frozen, ns.
    NodeClockStep,
    /// The same for a client's wall clock, ns.
    ClientClockStep,
    /// How far the wall clocks of any two nodes or clients, or one of them and true time, are apart
    /// at the start, ns. What moves them later counts as a step or as drift.
    Skew,
    /// Relative rate error between any two nodes or clients at one moment, or between one of them
    /// and true time, in which all other bounds are stated, ppm.
    Drift,
    /// A node restarts without keys that it had acknowledged, with keys that were deleted, or with
    /// the expiry before a renewal. The bound is the down time from which on that is harmless, ns.
    /// A *shorter* down time breaches the assumption, a longer one does not.
    AmnesiacRestart,
    /// Failovers to a replica that may lack acknowledged keys: the number of replicas that become
    /// masters.
    Failover,
    /// The number of keys removed by eviction or FLUSHALL.
    KeyRemoval,
    /// How long a caller works under one grant without extending it, ns.
    Work,
    /// How long after the heal no node that could serve the lock's key is a master, ns. Every lock
    /// assumes this implicitly: the bound is the time that the probe has in any case.
    Leaderless,
    /// How long after the heal a master still reports to clients that too few replicas have their
    /// writes, ns. This may take as long as a replica needs to notice that its connection is lost,
    /// or as a sender waits between two tries. Every lock assumes this implicitly: the bound is the
    /// time that the probe has in any case.
    Unreplicated,
    /// How often callers release what they were refused, or access the resource without a grant,
    /// or after the hold that it gave had ended for them. Every lock assumes this implicitly: the
    /// bound is zero, because no lock can keep out a caller that does not heed its answers.
    Misuse,
    /// The total delay of the accesses of one hold on their way to the resource, compared with a
    /// run without faults, ns.
    AccessDelay,
}

/// A caller's work under the lock, as far as a lock's promise depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The maximum time from the reply to the acquire until the resource decides on the last
    /// access, without faults, including round trips and connects, ns.
    pub lasts: Nanos,
    /// The part of `lasts` that is the caller's own work, without messages, ns.
    pub works: Nanos,
    /// The time within which a caller's requests are answered, without faults, ns: the maximum time
    /// of a request and its reply, or the median time of the first request, which has to find its
    /// node and to connect, if that is longer. [`Nanos::MAX`] if a client gives up the search for
    /// the node before it ends.
    pub reply: Nanos,
    /// The number of independent nodes that the lock may have to ask.
    pub nodes: u64,
    /// The number of calls to the lock within that time; each takes at most one request timeout.
    pub calls: u64,
    /// Whether the caller extends its grant: then this is the work between two extends, and the
    /// call before it may be an extend.
    pub extends: bool,
    /// By how much an access may be late before its caller gives up on it and releases the lock,
    /// ns.
    pub patience: Nanos,
    /// How late a caller may ask for the lock after the beginning of a period on its wall clock,
    /// ns; `None` if it asks at no particular time.
    pub fires_within: Option<Nanos>,
    /// Whether, without faults, every access arrives before its caller gives up on it. Otherwise no
    /// lock without a fence can keep it out of the next holder's time.
    pub arrives: bool,
}

/// The promise of a lock for one holder that notifies no caller of its loss.
pub fn exclusive(model: Model, assumes: Vec<Assumption>) -> Promise {
    let (holders, unguarded, reports_loss) = (1, false, false);
    Promise { holders, unguarded, reports_loss, model, assumes, kept: 0, queue: None }
}

/// One assumption.
pub fn bound(what: Bounded, bound: u64) -> Assumption {
    Assumption { what, bound }
}
