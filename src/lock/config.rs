//! The configuration of a lock, and the planted bugs that it can request.

use lockstorm_platform::time::{Clock, Nanos};
use serde::{Deserialize, Serialize};

use crate::default::is_default;

/// The configuration of a lock: the `[lock]` table of a scenario. Lengths are in nanoseconds;
/// `None` selects the algorithm's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LockConfig {
    /// The algorithm's name in the catalogue.
    pub algorithm: String,
    /// The client library whose preset this is, and its version: for reports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// The key in Redis: one owner at a time. Waiters and counters belong in keys of their own,
    /// because a change of this key by another client counts as one of the lock.
    pub key: String,
    /// Time to live of the lock's key.
    pub ttl: Option<Nanos>,
    /// Timeout of one request.
    pub timeout: Option<Nanos>,
    /// How many nodes must grant; N/2+1 by default.
    pub quorum: Option<u32>,
    /// Whether an acquire or an extend waits for all nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub replies: RepliesShape,
    /// How long a released key is kept at least, from its acquire on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Nanos>,
    /// The number of tries of one acquire.
    pub tries: Option<u32>,
    /// The maximum back-off between two tries.
    pub retry: Option<Nanos>,
    /// The time that the caller's work needs: a grant with less validity left is released at once.
    pub needs: Option<Nanos>,
    /// The interval of renewals.
    pub renew_every: Option<Nanos>,
    /// The time to live that a renewal sets.
    pub renew_ttl: Option<Nanos>,
    /// Whether a release drops a renewal that is under way. Its request may still be executed.
    #[serde(skip_serializing_if = "is_default")]
    pub cancel_renewal: bool,
    /// The start of the lease: `send` (correct) or `reply` (a planted bug).
    pub deadline_from: DeadlineFrom,
    /// Whether a release compares the owner value.
    pub release: ReleaseShape,
    /// What an extend does if the key is not the caller's.
    pub extend: ExtendShape,
    /// The clock of its host that the client reads.
    pub clock: Option<Clock>,
    /// Which acquires have the same owner value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenScope>,
    /// What an acquire does with a key that has its own owner value.
    #[serde(skip_serializing_if = "is_default")]
    pub acquire: AcquireShape,
    /// The unit in which the time to live is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<LeaseUnit>,
    /// The deduction from the lease for clocks with different rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Nanos>,
    /// Whether a grant that is over before its caller has it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validity: Option<bool>,
    /// The order in which several nodes are asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<AskOrder>,
    /// The nodes of which a quorum must grant.
    #[serde(skip_serializing_if = "is_default")]
    pub quorum_of: QuorumOf,
    /// The minimum back-off between two tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_from: Option<Nanos>,
    /// How often the client sends a request again that had no reply.
    #[serde(skip_serializing_if = "is_default")]
    pub resend: u32,
    /// What an acquire that had no reply leaves its caller.
    #[serde(skip_serializing_if = "is_default")]
    pub no_reply: NoReply,
    /// What becomes of the keys of a try that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_try: Option<AfterTry>,
    /// What becomes of the keys of a grant whose extend failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_extend: Option<AfterExtend>,
    /// Whether a lock that renews reports the loss of a grant to its caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_loss: Option<bool>,
    /// How many replicas must acknowledge a grant; for Redisson's locks, how many of those that are
    /// connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<u32>,
    /// The maximum time that WAIT waits for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_timeout: Option<Nanos>,
    /// Whether the node's own disk must have the grant as well: WAITAOF instead of WAIT.
    #[serde(skip_serializing_if = "is_default")]
    pub fsync: bool,
    /// When, and on which connection, WAIT is sent.
    #[serde(skip_serializing_if = "is_default")]
    pub wait: WaitShape,
    /// How scripts are sent.
    #[serde(skip_serializing_if = "is_default")]
    pub scripts: ScriptShape,
    /// How the client follows a master that Sentinels watch.
    #[serde(skip_serializing_if = "is_default")]
    pub discovery: DiscoveryShape,
    /// How long an acquire waits for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for: Option<Nanos>,
    /// How many callers may hold a semaphore at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// Whose clock decides which permits of a semaphore are over.
    #[serde(skip_serializing_if = "is_default")]
    pub reclaim_by: ReclaimShape,
    /// How many parties have to count down before a latch opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parties: Option<u32>,
    /// What a latch counts.
    #[serde(skip_serializing_if = "is_default")]
    pub count: CountShape,
    /// How long a waiter keeps its place at the head of a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_wait: Option<Nanos>,
    /// Where a caller gets the fence of its grant.
    #[serde(skip_serializing_if = "is_default")]
    pub fence_from: FenceFrom,
    /// Whether an acquire takes a mutex of its process before it asks a node.
    #[serde(skip_serializing_if = "is_default")]
    pub local_lock: bool,
}

impl LockConfig {
    /// The configuration of another lock in the place of this one: with the settings that all locks
    /// have, and no options of its own.
    pub fn in_place(&self, algorithm: &str) -> LockConfig {
        LockConfig {
            algorithm: algorithm.to_owned(),
            key: self.key.clone(),
            ttl: self.ttl,
            timeout: self.timeout,
            clock: self.clock,
            discovery: self.discovery,
            ..LockConfig::default()
        }
    }

    /// The keys of which callers acquire groups, if the lock takes groups.
    pub fn group_keys(&self) -> Vec<String> {
        self.keys(3)
    }

    /// So many keys, each of which is a lock of its own.
    pub fn keys(&self, count: u32) -> Vec<String> {
        (1..=count).map(|n| format!("{}:{n}", self.key)).collect()
    }
}

/// Which replies an acquire or an extend of several nodes waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepliesShape {
    /// Those of all nodes, or their timeouts.
    #[default]
    All,
    /// The first ones that decide: a quorum that granted, or so many others that none is left.
    Quorum,
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
    /// EVAL with the whole text each time.
    #[default]
    Eval,
    /// SCRIPT LOAD once per process, then EVALSHA. A NOSCRIPT reply ends the requesting task, as an
    /// uncaught exception does.
    Evalsha,
    /// Like `Evalsha`, with EVAL after NOSCRIPT, as client libraries do.
    EvalshaOrEval,
}

/// How a client follows a master that Sentinels watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiscoveryShape {
    /// Queries Sentinels for the master when it opens a connection, and keeps that connection.
    #[default]
    AtConnect,
    /// Also subscribes to +switch-master at the Sentinels, and leaves a replaced master.
    SwitchMaster,
}

/// Which acquires have the same owner value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenScope {
    /// None: each try draws a value of its own.
    Try,
    /// The tries of one acquire.
    Acquisition,
    /// Those of one caller.
    Thread,
    /// Those of the callers that have one number in their processes, as a thread id alone is:
    /// threads of two machines have the same value.
    ThreadId,
    /// Those of one process.
    Process,
    /// All.
    Constant,
}

/// What an acquire does with a key that has its own owner value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcquireShape {
    /// It is refused, as by any other key.
    #[default]
    Absent,
    /// It is granted, with a fresh time to live: a lost reply does no harm to one that asks again.
    AbsentOrOwn,
}

/// The unit in which a time to live is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseUnit {
    /// Whole seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Whole milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
}

/// The order in which several nodes are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskOrder {
    /// All at the same time.
    Parallel,
    /// One after the other.
    Sequential,
}

/// The nodes of which a quorum must grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuorumOf {
    /// All nodes that are configured.
    #[default]
    All,
    /// Those that could be reached (a planted bug): two halves of a partition have a quorum each.
    Connected,
}

/// What an acquire that had no reply leaves its caller, if it may have set the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoReply {
    /// The owner value, so that the caller can release what may be left.
    #[default]
    Token,
    /// Nothing: the call throws, and the caller has no lock that it could release.
    Nothing,
}

/// What becomes of the keys of a try that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterTry {
    /// They stay until their time to live is over.
    Keep,
    /// They are deleted, wherever they may be.
    Release,
    /// They are deleted once no try of the acquire was granted.
    ReleaseAtEnd,
}

/// What becomes of the keys of a grant whose extend failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterExtend {
    /// They stay until their time to live is over.
    Keep,
    /// They are deleted, wherever they may be.
    Release,
}

/// The start of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineFrom {
    /// Before the request is sent.
    #[default]
    Send,
    /// When the reply arrives: this is too late by the time that the reply travelled.
    Reply,
}

/// How a release treats the owner value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseShape {
    /// As the algorithm prescribes.
    #[default]
    Own,
    /// Deletes without a comparison.
    Blind,
}

/// What an extend does with a key that is not the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExtendShape {
    /// As the algorithm prescribes.
    #[default]
    Own,
    /// Extends whatever key exists.
    Blind,
    /// Sets the key again if it is absent.
    Revive,
}

/// Whose wall clock says when a permit of a semaphore is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimShape {
    /// That of the node: one clock for all permits.
    #[default]
    Node,
    /// That of the client which asks for a permit (a planted bug): it is compared with the clock of
    /// the client that set the deadline.
    Client,
}

/// Where a caller gets the fence of its grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FenceFrom {
    /// From the step that granted it.
    #[default]
    Grant,
    /// From the counter, which it reads afterwards: another one may have drawn meanwhile.
    Counter,
}

/// What a latch counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountShape {
    /// The names of the parties that have counted down: a request that is sent again adds none.
    #[default]
    Names,
    /// How many are left, with DECR (a planted bug): a request that is sent again counts twice.
    Decr,
}
