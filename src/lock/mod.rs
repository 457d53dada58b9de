//! Locks: one file per algorithm, on one small RESP client.
//!
//! [`Lock`] is the trait that a user implements for a lock of their own. A lock knows its host and
//! its nodes; it knows nothing of histories, workloads, plans or runs.

use std::cell::Cell;
use std::rc::Rc;

use async_trait::async_trait;
use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, Nanos};
use serde::{Deserialize, Serialize};

pub mod answer;
pub mod catalogue;
pub mod check_then_set;
pub mod client;
pub mod contract;
pub mod defaults;
pub mod fenced;
pub mod join;
pub mod lease;
pub mod none;
pub mod owned_key;
pub mod promise;
pub mod px_constant;
pub mod redisson;
pub mod redlock;
pub mod route;
pub mod scripts;
pub mod setnx;
pub mod setnx_expire;
pub mod slot_map;
pub mod subscription;
pub mod switch_master;
pub mod token;
pub mod token_get_del;
pub mod token_lua;
pub mod token_lua_renewed;
pub mod wait_replicas;
pub mod wire;

/// A distributed lock as its caller sees it. One value serves one caller.
///
/// A timeout is *unknown*, never refused: the server may have executed the request.
///
/// The contract, of which [`Notice`] has the rest. A lock that breaks a line of it is detected
/// (`broken-contract`), and the line is reported:
///
/// 1. Lock: no call of a lock panics, and no task that it has spawned
/// 2. Lock: time passes: a process takes at most 100000 steps in one second
/// 3. Lock::acquire: a permit is below the number of holders
/// 6. Lock: chance, time and state come from the setting: one plan is one run
///
/// Everything else is up to the lock: two grants may have the same token, a deadline may be on any
/// clock at any reading, and a future of the lock may be dropped half-way.
#[async_trait(?Send)]
pub trait Lock {
    /// Acquires the lock once, with the algorithm's own number of tries.
    async fn acquire(&mut self) -> Acquired;
    /// Extends a grant by the lock's time to live.
    async fn extend(&mut self, grant: &Grant) -> Extended;
    /// Releases a grant; also one that an unknown acquire may have left.
    async fn release(&mut self, grant: &Grant) -> Released;
}

/// The result of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The caller owns the lock.
    Granted(Grant),
    /// The caller does not own it; nothing is left to be released.
    Refused(String),
    /// The outcome is unknown. The grant can be released.
    Unknown(Grant),
}

/// The result of an extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The grant is still the caller's; the new deadline.
    Kept(Option<Deadline>),
    /// The grant is no longer the caller's.
    Lost,
    /// The outcome is unknown.
    Unknown,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The caller's key was removed.
    Released,
    /// The caller had no key.
    NotMine,
    /// The outcome is unknown.
    Unknown,
}

/// A clock of the caller's host and the reading until which a grant is valid.
pub type Deadline = (Clock, Nanos);

/// A successful acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The owner value.
    pub token: String,
    /// The increasing number, if the lock gives one.
    pub fence: Option<u64>,
    /// The permit, for a lock with several.
    pub permit: Option<u32>,
    /// Until when it is valid; `None` if it never expires.
    pub deadline: Option<Deadline>,
    /// How often its owner currently holds it; 1 for a lock that is not re-entrant.
    pub depth: u32,
}

/// The setup of a lock: the `[lock]` table of a scenario. Lengths are in nanoseconds; `None` means
/// the algorithm's own default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LockConfig {
    /// The algorithm's name in the catalogue.
    pub algorithm: String,
    /// The key in Redis.
    pub key: String,
    /// Time to live of the lock's key.
    pub ttl: Option<Nanos>,
    /// Timeout of one request.
    pub timeout: Option<Nanos>,
    /// Nodes that have to grant; by default N/2+1.
    pub quorum: Option<u32>,
    /// The number of tries of one acquire.
    pub tries: Option<u32>,
    /// The maximum back-off between two tries.
    pub retry: Option<Nanos>,
    /// The time that the caller's work needs: a grant with less left is released at once.
    pub needs: Option<Nanos>,
    /// How often a renewed lock is extended.
    pub renew_every: Option<Nanos>,
    /// The time to live that a renewal sets.
    pub renew_ttl: Option<Nanos>,
    /// The start of the deadline: `send` (correct) or `reply` (a planted bug).
    pub deadline_from: DeadlineFrom,
    /// Whether a release compares the owner value.
    pub release: ReleaseShape,
    /// What an extend does if the key is not the caller's.
    pub extend: ExtendShape,
    /// The clock of its host that the client reads.
    pub clock: Option<Clock>,
    /// How many replicas have to acknowledge a grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<u32>,
    /// The maximum time that WAIT waits for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_timeout: Option<Nanos>,
    /// Whether a grant must also be on the node's own disk: WAITAOF instead of WAIT.
    #[serde(skip_serializing_if = "is_usual")]
    pub fsync: bool,
    /// When, and on which connection, WAIT is sent.
    #[serde(skip_serializing_if = "is_usual")]
    pub wait: WaitShape,
    /// How scripts are sent.
    #[serde(skip_serializing_if = "is_usual")]
    pub scripts: ScriptShape,
    /// How the client follows a master that Sentinels watch.
    #[serde(skip_serializing_if = "is_usual")]
    pub discovery: DiscoveryShape,
    /// How long an acquire waits for its turn, if waiters are notified of a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for: Option<Nanos>,
}

/// Whether a field has its default and need not be written, so that older plans keep their bytes.
pub fn is_usual<T: Default + PartialEq>(choice: &T) -> bool {
    *choice == T::default()
}

/// When, and on which connection, a lock that waits for replicas sends WAIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitShape {
    /// After each acquire and extend, on the connection that wrote.
    #[default]
    Own,
    /// Not after an extend (a planted bug): a failover restores the previous expiry.
    NotOnExtend,
    /// On another connection (a planted bug): it has written nothing, so every replica counts.
    OtherConnection,
}

/// How a lock sends its scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptShape {
    /// EVAL, with the whole text each time.
    #[default]
    Eval,
    /// SCRIPT LOAD once per process, EVALSHA from then on. A NOSCRIPT reply ends the task that sent
    /// the request, like an uncaught exception.
    Evalsha,
    /// As `Evalsha`, and EVAL after NOSCRIPT, as client libraries do.
    EvalshaOrEval,
}

/// How a client follows a master that Sentinels watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiscoveryShape {
    /// It queries the master when it opens a connection, and keeps that connection.
    #[default]
    AtConnect,
    /// It also subscribes to +switch-master at the Sentinels, and leaves a replaced master.
    SwitchMaster,
}

/// The start of a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineFrom {
    /// Before the request was sent.
    #[default]
    Send,
    /// At the arrival of the reply: too late by the reply's travel time.
    Reply,
}

/// How a release treats the owner value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseShape {
    /// As the algorithm specifies.
    #[default]
    Own,
    /// Deletes without a comparison.
    Blind,
}

/// How an extend treats a key that is not the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExtendShape {
    /// As the algorithm specifies.
    #[default]
    Own,
    /// Extends whatever key exists.
    Blind,
    /// Sets the key again if it is absent.
    Revive,
}

/// What a lock receives to work with.
#[derive(Clone)]
pub struct Setting {
    /// The machine that it runs on.
    pub host: Host,
    /// The names of the nodes to query; resolved at each connect, since a failover moves a name.
    pub nodes: Vec<String>,
    /// The setup.
    pub config: LockConfig,
    /// The caller's current operation.
    pub call: Rc<Cell<Call>>,
    /// Receives notices of what a lock does on its own, in background tasks.
    pub tell: Tell,
}

impl Setting {
    /// Extends a grant in the background, and has that recorded.
    pub async fn extending(
        &self,
        token: &str,
        extend: impl AsyncFnOnce(Call) -> Extended,
    ) -> Extended {
        let call = (self.tell)(Notice::Extending { token: token.to_owned() });
        let mut renewal = Renewal { tell: &self.tell, op: call.op, open: true };
        let result = extend(call).await;
        renewal.open = false;
        (self.tell)(Notice::Extended { op: call.op, result: result.clone() });
        result
    }
}

/// A pending renewal. One that is dropped half-way, as by a timeout around it, has no outcome.
struct Renewal<'a> {
    tell: &'a Tell,
    op: u32,
    open: bool,
}

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        if self.open {
            (self.tell)(Notice::Abandoned { op: self.op });
        }
    }
}

/// An operation of a caller, as identified by its requests and draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its number in the run. Requests carry it as their provenance.
    pub op: u32,
    /// Its number among the operations of its process, counted from 1. Draws and messages are
    /// addressed by it, so that other processes cannot move them.
    pub nth: u32,
}

impl Call {
    /// Its number in the run; `None` before the caller's first operation.
    pub fn operation(self) -> Option<u32> {
        (self.nth > 0).then_some(self.op)
    }
}

/// See [`Setting::tell`]. [`Notice::Extending`] returns the new operation; the result of the others
/// has no meaning.
pub type Tell = Rc<dyn Fn(Notice) -> Call>;

/// An action of a lock on its own.
///
/// The rest of the contract (see [`Lock`]):
///
/// 4. Notice: Extending and Lost name the token of a grant that the caller was given
/// 5. Notice: Extended and Abandoned end, once, a renewal that Extending has begun
///
/// A grant that an acquire is about to return counts, and so does the last one with that token even
/// after the caller released it. Of several grants with one token, the oldest that is held is
/// meant; a loss applies to all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A renewal of the grant with this token is about to be sent.
    Extending {
        /// The grant's token.
        token: String,
    },
    /// The renewal with this number (see [`Call::op`]) ended.
    Extended {
        /// The number that [`Notice::Extending`] returned.
        op: u32,
        /// Its result.
        result: Extended,
    },
    /// The renewal with this number was dropped before it had a reply: its outcome is unknown.
    /// [`Setting::extending`] sends this notice.
    Abandoned {
        /// The number that [`Notice::Extending`] returned.
        op: u32,
    },
    /// The caller is notified that the grant with this token is lost.
    Lost {
        /// The grant's token.
        token: String,
    },
}

/// The guarantees and assumptions of a lock, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// How many callers may hold it at once. If more than one, neither the guarded resource is
    /// judged, since its changes require one holder at a time, nor which caller changes whose key.
    pub holders: u32,
    /// Whether it notifies a running caller of the loss of the lock.
    pub tells_loss: bool,
    /// The model that its acquires and releases follow.
    pub model: Model,
    /// Its assumptions.
    pub assumes: Vec<Assumption>,
}

/// A sequential model of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// It promises no order.
    None,
    /// Held until released.
    Mutex,
    /// Held until released, or until the time to live has passed since the acquire.
    Lease,
}

/// One assumption of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumption {
    /// The bounded quantity.
    pub what: Bounded,
    /// The maximum that the lock tolerates, in the unit of [`Bounded`]; of a down time the minimum.
    pub bound: u64,
}

/// What an assumption bounds. A run that exceeds the bound breaches the assumption, whatever the
/// plan intended; a quantity that is not listed in a [`Promise`] is tolerated without a bound.
///
/// "In one hold" means from the call of an acquire until its release has returned, its refusal, its
/// loss or the death of its process; for nested grants, until that of the last. Pauses and late
/// accesses use up the same lease: a pause is judged together with the delays of the accesses of
/// its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounded {
    /// How long a client may be paused or suspended in one hold, plus its late accesses, ns.
    ClientPause,
    /// How many clients may die in a hold, count.
    ClientCrash,
    /// How far a node's wall clock may be shifted between any two moments, by steps in either
    /// direction and by the time for which it is frozen, ns.
    NodeClockStep,
    /// The same for a client's wall clock, ns.
    ClientClockStep,
    /// Relative rate error between any two nodes or clients at one moment, ppm.
    Drift,
    /// A node restarts without keys that it had acknowledged, with keys whose deletion it had
    /// acknowledged, or with an expiry that a renewal had extended: the down time from which on
    /// that is harmless, ns. A *shorter* down time breaches the assumption, a longer one does not.
    AmnesiacRestart,
    /// Failovers to a replica that may miss acknowledged keys, count: replicas that become master.
    Failover,
    /// Keys removed by eviction or FLUSHALL, count.
    KeyRemoval,
    /// How long a caller works under one grant without extending it, ns.
    Work,
    /// How long after the heal there is no master that could serve the lock's key, ns. Every lock
    /// assumes this implicitly: the bound is the time that the probe has in any case.
    Leaderless,
    /// How long after the heal a master still reports to clients that too few replicas have a
    /// write, ns: the time in which a lost replica is noticed, or a sender waits between two tries.
    /// Every lock assumes this implicitly: the bound is the time that the probe has in any case.
    Unreplicated,
    /// By how much the accesses of one hold reach the resource later than without faults, in total,
    /// ns.
    AccessDelay,
}
