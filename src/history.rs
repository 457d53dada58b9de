//! The record of a run, as far as a checker may see it: plain data, no world.
//!
//! Instants are trace positions in the order of their `seq`; intervals are half-open. Breaches of a
//! lock's contract are recorded when they are noticed; otherwise a history contains no judgement.

use std::collections::BTreeMap;

use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, Instant, Line, Nanos, SECOND, Stamp};
use lockstorm_platform::trace::{KeyChange, Leg, Sight};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::default::is_default;
use crate::name::Name;
use crate::promise::contract::Clause;

pub mod words;

/// The process that tries to acquire the lock after the heal.
pub const PROBE: &str = "probe";
/// The host of the guarded resource, and the name of what is accessed there.
pub const RESOURCE: &str = "resource";
/// The name of the nth segment of a guarded resource, counted from 1.
pub fn segment(nth: u32) -> String {
    format!("{RESOURCE}:{nth}")
}

/// How long the probe may take beyond the maximum time to live, ns, from the heal or the last hold.
pub const PROBE_MARGIN: Nanos = 5 * SECOND;

/// Number of an operation in its history.
pub type OpId = u32;

/// Everything that one run recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct History {
    /// Operations in the order of their ids; a complete history has every id from 0 on.
    pub ops: Vec<Op>,
    /// Changes of keys on nodes, in order.
    pub keys: Vec<Key>,
    /// Fault intervals on hosts and links, in order of their beginnings.
    pub fault_intervals: Vec<FaultInterval>,
    /// The accesses that the guarded resource received, in its order.
    pub accesses: Vec<Access>,
    /// Requests from clients to nodes and to the resource with their progress, in order of sending.
    pub requests: Vec<Request>,
    /// The clocks of every host, piece by piece, in order of the beginnings.
    pub clocks: Vec<ClockPiece>,
    /// The keys that requests name, by the index of the request, if the lock takes groups of keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<usize, Vec<String>>,
    /// Changes of nodes' roles, and views of masters by Sentinels and cluster nodes, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sightings: Vec<Sighting>,
    /// Breaches of the contract of locks, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breaches: Vec<ContractBreach>,
    /// How many messages did not arrive at the first try; `None` if not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// Whether callers could take the lock in shared mode; whether one did, its operations say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares: bool,
    /// When the faults were healed, the workload was stopped and the probe was started.
    pub healed: Option<Instant>,
    /// When the run ended.
    pub end: Instant,
}

impl History {
    /// The first request of an operation, with its place.
    pub fn first_request(&self, op: OpId) -> Option<(usize, &Request)> {
        self.requests.iter().enumerate().find(|(_, request)| request.op == op)
    }

    /// The same for one key of a group: a request that names only other keys of it is none of this
    /// key.
    pub fn of_key(&self, key: &str) -> History {
        let mut history = self.clone();
        for (index, keys) in &self.named {
            history.requests[*index].other_keys = keys.iter().all(|name| name != key);
        }
        history
    }
}

/// Messages that did not arrive at the first try, between any hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Tries that were lost; each is retransmitted.
    pub lost: u64,
    /// Messages on a link that a fault had cut.
    pub cut: u64,
}

/// A clause of the contract that a lock did not keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractBreach {
    /// When.
    pub at: Instant,
    /// The host whose process runs the lock.
    pub process: String,
    /// The current or last operation of its caller, if there is one.
    pub op: Option<OpId>,
    /// The clause.
    pub clause: Clause,
    /// The details, in words.
    pub details: String,
}

impl ContractBreach {
    /// The clause, and the details.
    pub fn text(&self) -> String {
        format!("{}; {}", self.clause.line(), self.details)
    }
}

/// One operation of one caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Its number.
    pub id: OpId,
    /// The host whose process made the call: `c1`, `probe`.
    pub process: String,
    /// The thread of control within the process; by default the process's name.
    pub caller: String,
    /// Its object: the lock's key, or the resource's name.
    pub object: String,
    /// When it was invoked.
    pub call: Stamp,
    /// When it returned; `None` if it never did.
    pub ret: Option<Stamp>,
    /// What was requested.
    pub kind: OpKind,
    /// The result.
    pub outcome: Outcome,
    /// The owner value with which it may have taken the lock, if its outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_with: Option<String>,
    /// Whether it acquires the lock in shared mode.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: bool,
    /// The keys that it acquires at once, in its order, if the lock takes groups of keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

impl Op {
    /// Whether it acquires this key: its object, or one of its group.
    pub fn is_on(&self, key: &str) -> bool {
        self.object == key || self.keys.iter().any(|own| own == key)
    }

    /// The acquire to which it belongs: itself, or the one that it names.
    pub fn grant(&self) -> Option<OpId> {
        match self.kind {
            OpKind::Acquire => Some(self.id),
            OpKind::Extend { grant, .. } | OpKind::Release { grant } | OpKind::Lost { grant } => {
                Some(grant)
            }
            _ => self.kind.access_grant(),
        }
    }

    /// Whether it ended without an answer, or never returned.
    pub fn has_no_answer(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown | Outcome::Pending)
    }

    /// Whether it was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused { .. })
    }

    /// Whether it is an acquire of the probe that was refused.
    pub(crate) fn is_refused_to_probe(&self) -> bool {
        self.process == PROBE && self.kind == OpKind::Acquire && self.is_refused()
    }

    /// The owner value of its grant, if it was granted the lock.
    pub fn token(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Granted { token, .. } => Some(token),
            _ => None,
        }
    }

    /// The owner value of the keys that it set, if it was granted the lock or may have been.
    pub fn owner_value(&self) -> Option<&str> {
        self.token().or(self.tried_with.as_deref())
    }
}

/// What an operation requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpKind {
    /// Acquire the lock.
    Acquire,
    /// Extend the grant of an acquire.
    Extend {
        /// The acquire.
        grant: OpId,
        /// Whether the lock extends by itself: its caller does not receive the result.
        #[serde(default, skip_serializing_if = "is_default")]
        background: bool,
    },
    /// Release the grant of an acquire.
    Release {
        /// The acquire.
        grant: OpId,
    },
    /// The loss of a grant became visible to its caller. Call and return coincide.
    Lost {
        /// The acquire.
        grant: OpId,
    },
    /// Read the resource.
    Read {
        /// The acquire under which it happens, if any.
        grant: Option<OpId>,
    },
    /// Write the resource.
    Write {
        /// The acquire under which it happens, if any.
        grant: Option<OpId>,
        /// The value that is written.
        value: i64,
    },
    /// Append to the resource's log.
    Append {
        /// The acquire under which it happens, if any.
        grant: Option<OpId>,
    },
    /// Add to the resource's value, in one step.
    Add {
        /// The acquire under which it happens, if any.
        grant: Option<OpId>,
        /// What is added.
        by: i64,
    },
    /// Let the resource's value end after some time.
    Expire {
        /// The acquire under which it happens, if any.
        grant: Option<OpId>,
    },
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It has not returned.
    Pending,
    /// It is unknown whether it took effect: a timeout, a broken connection.
    Unknown,
    /// The lock was granted.
    Granted {
        /// The owner value.
        token: String,
        /// The increasing number, if the lock gives one.
        fence: Option<u64>,
        /// Until when the grant is valid, on the named clock of the caller's host.
        deadline: Option<(Clock, Nanos)>,
    },
    /// The lock was refused, or the resource refused the access.
    Refused {
        /// Why, in the lock's or the resource's words.
        why: String,
    },
    /// The grant was extended.
    Kept {
        /// The new deadline.
        deadline: Option<(Clock, Nanos)>,
    },
    /// The grant could not be extended: it is no longer the caller's.
    Lost,
    /// The lock was released.
    Released,
    /// The caller had nothing to release.
    NotMine,
    /// The resource was read, or something was added to it.
    Value {
        /// Its value.
        value: i64,
    },
    /// The resource accepted the write, the entry or the end of its value.
    Accepted,
}

/// A change of a key on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The node's name.
    pub node: Name,
    /// The key; of a member of a collection, the member.
    pub key: Name,
    /// The key of the collection of which it is a member: a field of a hash, a member of a set, an
    /// element of a list. Recorded for the lock's key if several callers may hold the lock, and for
    /// the queue of its waiters, where it has also changed if a command moved it behind another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// When.
    pub at: Instant,
    /// What happened to it.
    pub change: KeyChange,
    /// The key's expiry after the change, on the node's wall clock in Unix milliseconds.
    pub until_ms: Option<u64>,
    /// The operation that caused it, by whichever path it reached this node.
    pub by: Option<OpId>,
    /// Whether a start undid only changes after the node's last reply: the key is as it was then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unacknowledged: bool,
}

impl Key {
    /// Whether one command made both changes: all that a command does on a node happens at one
    /// time.
    pub(crate) fn is_one_command_with(&self, other: &Key) -> bool {
        self.node == other.node && self.by == other.by && self.at.at == other.at.at
    }
}

/// A fault interval on a host or a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultInterval {
    /// The fault's number in the plan.
    pub fault: u32,
    /// What it did, with its figures.
    pub verb: Verb,
    /// The host or links that it acted on.
    pub target: Target,
    /// When it struck.
    pub from: Instant,
    /// When it ended; for a momentary fault, `from`; `None` if it lasted to the end of the run.
    pub to: Option<Instant>,
    /// How many messages, tasks, keys or other things it touched; `None` if not counted.
    #[serde(default)]
    pub met: Option<u64>,
    /// The effects of its command on its target, in order: removals of keys, or the promotion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<Instant>,
}

impl FaultInterval {
    /// Whether its target is this host, or links of this host.
    pub fn touches(&self, host: &str) -> bool {
        self.target.hosts().contains(&host)
    }

    /// Whether its target is this host, and not a link.
    pub fn strikes(&self, host: &str) -> bool {
        matches!(&self.target, Target::Host(target) if target == host)
    }

    /// Its end, in a run that ended at `end`.
    pub fn until(&self, end: Instant) -> Instant {
        self.to.unwrap_or(end)
    }
}

/// An access that reached the guarded resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// When the resource decided on it.
    pub at: Instant,
    /// The operation that it belongs to.
    pub op: OpId,
    /// The caller.
    pub caller: String,
    /// The acquire under which it was sent, if any.
    pub grant: Option<OpId>,
    /// What it did.
    pub kind: AccessKind,
    /// The fence that it carried.
    pub fence: Option<u64>,
    /// The value that was read, or is to be written; after an addition, the resource's own; of the
    /// entry of a buyer who is turned away, what all segments still have; 0 for others.
    pub value: i64,
    /// Whether the resource accepted it.
    pub accepted: bool,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// Reads the value.
    Read,
    /// Replaces the value.
    Write,
    /// Appends an entry.
    Append,
    /// Adds to the value.
    Add,
    /// Sets when the value ends.
    Expire,
}

/// The legs that a request reached, in order: hardly ever more than four.
pub type Legs = SmallVec<[(Leg, Instant); 4]>;

/// A request of an operation to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The operation.
    pub op: OpId,
    /// The client's host.
    pub from: Name,
    /// The node's host.
    pub to: Name,
    /// The command in upper case.
    pub command: Name,
    /// Its progress. The first leg is `Sent`, or `Unsent` as the only one.
    pub legs: Legs,
    /// Whether the node replied with an error: READONLY, LOADING, MOVED, NOSCRIPT, ...
    #[serde(default, skip_serializing_if = "is_default")]
    pub declined: bool,
    /// The first word of that error, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Name>,
    /// Whether it names keys, and none of them is the lock's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_keys: bool,
}

impl Request {
    /// When it reached a leg, if it did.
    pub fn at(&self, leg: Leg) -> Option<Instant> {
        self.legs.iter().find(|(reached, _)| *reached == leg).map(|(_, at)| *at)
    }

    /// Whether a reply came, even if it was an error.
    pub fn is_answered(&self) -> bool {
        self.at(Leg::Delivered).is_some()
    }

    /// Whether it waits for acknowledgements of what was written before.
    pub fn waits_for_replicas(&self) -> bool {
        matches!(self.command.as_str(), "WAIT" | "WAITAOF")
    }

    /// Whether it may change keys although the command's name does not say so.
    pub fn is_script(&self) -> bool {
        matches!(self.command.as_str(), "EVAL" | "EVALSHA" | "FCALL" | "EXEC")
    }
}

/// A change of a node's role, or an observer's view of a master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// When.
    pub at: Instant,
    /// The node whose role changed, or the observer: a node, a Sentinel.
    pub by: String,
    /// What happened.
    pub what: Seen,
    /// The master in question.
    pub master: String,
}

/// The content of a [`Sighting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// It is a master from now on.
    Leads,
    /// It follows the master from now on.
    Follows,
    /// Its process exited on its own.
    Exited,
    /// A Sentinel saw its clock jump and takes no action for 30 s: TILT, in its documentation.
    Tilted,
    /// It reported to a client that too few replicas have the client's writes.
    Unreplicated,
    /// An observer's view of the master.
    #[serde(untagged)]
    Watched(Sight),
}

/// One clock of one host from an instant on, until the next piece of the same clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPiece {
    /// The host.
    pub host: String,
    /// Which of its clocks.
    pub clock: Clock,
    /// The beginning of the piece.
    pub from: Instant,
    /// The line that it follows.
    pub line: Line,
}
