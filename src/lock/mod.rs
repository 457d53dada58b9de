//! Locks: a file an algorithm, on one small RESP client.
//!
//! [`Lock`] is what a user implements for a lock of their own. A lock knows its host and its
//! nodes; it knows nothing of histories, workloads, plans or runs.

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
/// A time-out is *unknown*, never refused: the server may have done what was asked.
///
/// The contract, of which [`Notice`] has the rest. A lock that breaks a line of it is found out
/// (`broken-contract`), and the line is reported:
///
/// 1. Lock: no call of a lock panics, and no task that it has spawned
/// 2. Lock: time passes: a process takes at most 100000 steps in one second
/// 3. Lock::acquire: a permit is below the number of holders
/// 6. Lock: chance, time and state come from the setting: one plan is one run
///
/// Anything else is the lock's own business: two grants may have the same token, a deadline may
/// lie on any clock at any reading, and a future of the lock may be dropped half-way.
#[async_trait(?Send)]
pub trait Lock {
    /// Asks for the lock once, with the algorithm's own number of tries.
    async fn acquire(&mut self) -> Acquired;
    /// Prolongs a grant by the lock's time to live.
    async fn extend(&mut self, grant: &Grant) -> Extended;
    /// Gives a grant back; also one that an unknown acquire may have left.
    async fn release(&mut self, grant: &Grant) -> Released;
}

/// What an acquire came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The caller owns the lock.
    Granted(Grant),
    /// It does not; nothing is left to be released.
    Refused(String),
    /// Nobody knows. The grant can be released.
    Unknown(Grant),
}

/// What an extend came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extended {
    /// Still the caller's; the new deadline.
    Kept(Option<Deadline>),
    /// No longer the caller's.
    Lost,
    /// Nobody knows.
    Unknown,
}

/// What a release came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The caller's key was removed.
    Released,
    /// There was no key of the caller's.
    NotMine,
    /// Nobody knows.
    Unknown,
}

/// A clock of the caller's host and the reading until which a grant may be counted on.
pub type Deadline = (Clock, Nanos);

/// One success of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The owner value.
    pub token: String,
    /// The increasing number, if the lock gives one.
    pub fence: Option<u64>,
    /// Which permit, for a lock with several.
    pub permit: Option<u32>,
    /// Until when it may be counted on; `None` if it never ends by itself.
    pub deadline: Option<Deadline>,
    /// How often its owner holds it now; 1 for a lock that is not re-entrant.
    pub depth: u32,
}

/// How a lock is set up: the `[lock]` table of a scenario. Lengths are in nanoseconds; what is
/// `None` is the algorithm's own default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LockConfig {
    /// The algorithm's name in the catalogue.
    pub algorithm: String,
    /// The key in Redis.
    pub key: String,
    /// Time to live of the lock's key.
    pub ttl: Option<Nanos>,
    /// Time-out of one request.
    pub timeout: Option<Nanos>,
    /// Nodes that have to grant; by default N/2+1.
    pub quorum: Option<u32>,
    /// How often one acquire tries.
    pub tries: Option<u32>,
    /// The longest back-off between two tries.
    pub retry: Option<Nanos>,
    /// What the caller's work needs: a grant with less left is given back at once.
    pub needs: Option<Nanos>,
    /// How often a renewed lock is prolonged.
    pub renew_every: Option<Nanos>,
    /// The time to live that a renewal sets.
    pub renew_ttl: Option<Nanos>,
    /// From when the deadline counts: `send` (right) or `reply` (a planted bug).
    pub deadline_from: DeadlineFrom,
    /// Whether a release compares the owner value.
    pub release: ReleaseShape,
    /// What an extend does when the key is not the caller's.
    pub extend: ExtendShape,
    /// Which clock of its host the client reads.
    pub clock: Option<Clock>,
    /// How many replicas have to acknowledge a grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<u32>,
    /// How long WAIT waits for them at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_timeout: Option<Nanos>,
    /// Whether the node's own disk has to have a grant too: WAITAOF in the place of WAIT.
    #[serde(skip_serializing_if = "is_usual")]
    pub fsync: bool,
    /// When, and on which connection, WAIT is sent.
    #[serde(skip_serializing_if = "is_usual")]
    pub wait: WaitShape,
    /// How scripts are sent.
    #[serde(skip_serializing_if = "is_usual")]
    pub scripts: ScriptShape,
    /// How a master that Sentinels watch is followed.
    #[serde(skip_serializing_if = "is_usual")]
    pub discovery: DiscoveryShape,
    /// How long an acquire waits for its turn, where waiters are told of a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for: Option<Nanos>,
}

/// What a plan need not say, so that plans of before stay the same bytes.
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
    /// Not after an extend (a planted bug): a failover brings the old end back.
    NotOnExtend,
    /// On another connection (a planted bug): it has written nothing, so every replica counts.
    OtherConnection,
}

/// How a lock sends its scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptShape {
    /// EVAL, each time the whole text.
    #[default]
    Eval,
    /// SCRIPT LOAD once a process, EVALSHA from then on. An answer of NOSCRIPT ends the task that
    /// asked, as an exception that nobody catches does.
    Evalsha,
    /// As `Evalsha`, and EVAL after NOSCRIPT, as client libraries do.
    EvalshaOrEval,
}

/// How a client follows a master that Sentinels watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiscoveryShape {
    /// It asks for the master when it opens a connection, and keeps that.
    #[default]
    AtConnect,
    /// It listens to +switch-master at the Sentinels too, and leaves a master that was replaced.
    SwitchMaster,
}

/// From when a deadline is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineFrom {
    /// From before the request was sent.
    #[default]
    Send,
    /// From the arrival of the reply: too late by the reply's way.
    Reply,
}

/// How a release treats the owner value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseShape {
    /// As the algorithm says.
    #[default]
    Own,
    /// Deletes without a look.
    Blind,
}

/// How an extend treats a key that is not the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExtendShape {
    /// As the algorithm says.
    #[default]
    Own,
    /// Prolongs whatever is there.
    Blind,
    /// Sets the key again when it is absent.
    Revive,
}

/// What a lock is given to work with.
#[derive(Clone)]
pub struct Setting {
    /// The machine that it runs on.
    pub host: Host,
    /// The names of the nodes to ask; resolved at each connect, since a failover moves a name.
    pub nodes: Vec<String>,
    /// How it is set up.
    pub config: LockConfig,
    /// The operation that the caller is in now.
    pub call: Rc<Cell<Call>>,
    /// Where a lock tells of what it does by itself, in background tasks.
    pub tell: Tell,
}

impl Setting {
    /// Prolongs a grant in the background, and has that written down.
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

/// A renewal under way. One that is dropped half-way, as by a time-out around it, has no answer.
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

/// An operation of a caller, as its requests and draws know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its number in the run. Requests carry it as their provenance.
    pub op: u32,
    /// Its number among the operations of its process, counted from 1. Draws and messages are
    /// addressed by it, so that nothing that other processes do moves them.
    pub nth: u32,
}

impl Call {
    /// Its number in the run; none before the caller's first.
    pub fn operation(self) -> Option<u32> {
        (self.nth > 0).then_some(self.op)
    }
}

/// See [`Setting::tell`]. [`Notice::Extending`] is answered with the new operation; what the others
/// are answered with means nothing.
pub type Tell = Rc<dyn Fn(Notice) -> Call>;

/// What a lock does by itself.
///
/// The rest of the contract (see [`Lock`]):
///
/// 4. Notice: Extending and Lost name the token of a grant that the caller was given
/// 5. Notice: Extended and Abandoned end, once, a renewal that Extending has begun
///
/// A grant that an acquire is about to give counts, and so does the last one with that token,
/// though the caller has given it back. Of several grants with one token the oldest that is held
/// is meant; a loss is that of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A renewal of the grant with this token is about to be sent.
    Extending {
        /// The grant's token.
        token: String,
    },
    /// The renewal with this number (see [`Call::op`]) came to an end.
    Extended {
        /// The number that [`Notice::Extending`] was answered with.
        op: u32,
        /// What it came to.
        result: Extended,
    },
    /// The renewal with this number was dropped before it had an answer: nobody knows.
    /// [`Setting::extending`] sends it.
    Abandoned {
        /// The number that [`Notice::Extending`] was answered with.
        op: u32,
    },
    /// The caller is told that the grant with this token is lost.
    Lost {
        /// The grant's token.
        token: String,
    },
}

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
