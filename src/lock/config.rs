//! How a lock is set up, and the planted bugs that a set-up may ask for.

use lockstorm_platform::time::{Clock, Nanos};
use serde::{Deserialize, Serialize};

use crate::default::is_default;

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
    #[serde(skip_serializing_if = "is_default")]
    pub fsync: bool,
    /// When, and on which connection, WAIT is sent.
    #[serde(skip_serializing_if = "is_default")]
    pub wait: WaitShape,
    /// How scripts are sent.
    #[serde(skip_serializing_if = "is_default")]
    pub scripts: ScriptShape,
    /// How a master that Sentinels watch is followed.
    #[serde(skip_serializing_if = "is_default")]
    pub discovery: DiscoveryShape,
    /// How long an acquire waits for its turn, where waiters are told of a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for: Option<Nanos>,
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
