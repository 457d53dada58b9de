//! What happened, as far as a checker may know: plain data, no world.
//!
//! Instants are trace positions; the order of two things is the order of their `seq`. Intervals
//! are half-open. What a lock broke of its contract is written down as it was noticed; of the rest
//! a history says nothing about right or wrong.

use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, Instant, Line, Nanos, SECOND, Stamp};
use lockstorm_platform::trace::{KeyChange, Leg, Sight};
use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::promise::contract::Clause;

/// The process that wants the lock once all is healed.
pub const PROBE: &str = "probe";
/// The host that guards what the lock is for, and what is accessed there.
pub const RESOURCE: &str = "resource";
/// How much longer than the longest time to live the probe may take, counted from the heal or from
/// when nobody holds any more, ns.
pub const PROBE_MARGIN: Nanos = 5 * SECOND;

/// Number of an operation in its history.
pub type OpId = u32;

/// Everything that one run left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct History {
    /// Operations in the order of their ids; a history that was recorded whole has each from 0 on.
    pub ops: Vec<Op>,
    /// Changes of keys on nodes, in order.
    pub keys: Vec<Key>,
    /// What was done to hosts and links, in order of their beginning.
    pub conditions: Vec<Condition>,
    /// What the guarded resource saw, in the order in which it saw it.
    pub accesses: Vec<Access>,
    /// Requests from clients to nodes and to the resource, and how far each came, in order of
    /// sending.
    pub requests: Vec<Request>,
    /// Every host's clocks, piece by piece, in order of their beginning.
    pub clocks: Vec<ClockPiece>,
    /// What nodes became, and what Sentinels and nodes of a cluster saw of masters, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sightings: Vec<Sighting>,
    /// Where a lock broke the contract of locks, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breaches: Vec<Breach>,
    /// How many messages did not arrive at once; `None` where nobody counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// When the faults were healed, the workload was told to stop and the probe was started.
    pub healed: Option<Instant>,
    /// When the run ended.
    pub end: Instant,
}

/// Messages that did not arrive when they were sent first, between any hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Tries that were lost; each is sent again.
    pub lost: u64,
    /// Messages that met a link which a fault had cut.
    pub cut: u64,
}

/// A line of the contract that a lock did not keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// When.
    pub at: Instant,
    /// The host whose process runs the lock.
    pub process: String,
    /// The operation that its caller was in, or was in last, if there is one.
    pub op: Option<OpId>,
    /// The line.
    pub clause: Clause,
    /// What was found, in words.
    pub details: String,
}

impl Breach {
    /// The line, and what was found.
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
    /// What it is about: the lock's key, or the resource's name.
    pub object: String,
    /// When it was invoked.
    pub call: Stamp,
    /// When it returned; `None` if it never did.
    pub ret: Option<Stamp>,
    /// What was asked.
    pub kind: OpKind,
    /// What came back.
    pub outcome: Outcome,
}

/// What an operation asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpKind {
    /// Ask for the lock.
    Acquire,
    /// Prolong the grant of that acquire.
    Extend {
        /// The acquire.
        grant: OpId,
        /// Whether the lock does so by itself: its caller is not told what comes of it.
        #[serde(default, skip_serializing_if = "is_default")]
        background: bool,
    },
    /// Give back the grant of that acquire.
    Release {
        /// The acquire.
        grant: OpId,
    },
    /// The loss of that acquire's grant became visible to its caller. Call and return are one.
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
}

/// What an operation was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It has not returned.
    Pending,
    /// Nobody knows whether it took effect: a time-out, a broken connection.
    Unknown,
    /// The lock was granted.
    Granted {
        /// The owner value.
        token: String,
        /// The increasing number, if the lock gives one.
        fence: Option<u64>,
        /// Until when the grant may be counted on, on the named clock of the caller's host.
        deadline: Option<(Clock, Nanos)>,
    },
    /// The lock was refused, or the resource refused the access.
    Refused {
        /// Why, in the lock's or the resource's words.
        why: String,
    },
    /// The grant was prolonged.
    Kept {
        /// The new deadline.
        deadline: Option<(Clock, Nanos)>,
    },
    /// The grant could not be prolonged: it is no longer the caller's.
    Lost,
    /// The lock was given back.
    Released,
    /// There was nothing of the caller's to give back.
    NotMine,
    /// The resource was read.
    Value {
        /// What it held.
        value: i64,
    },
    /// The resource took the write or the entry.
    Accepted,
}

/// A change of a key on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The node's name.
    pub node: String,
    /// The key.
    pub key: String,
    /// When.
    pub at: Instant,
    /// What happened to it.
    pub change: KeyChange,
    /// When the key ends after the change, on the node's wall clock in Unix milliseconds.
    pub until_ms: Option<u64>,
    /// The operation that caused it, however it came to this node.
    pub by: Option<OpId>,
}

/// Something that was done to a host or a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The fault's number in the plan.
    pub fault: u32,
    /// What it did, with its figures.
    pub verb: Verb,
    /// To whom.
    pub target: Target,
    /// When it struck.
    pub from: Instant,
    /// When it was over; `None` if it lasted to the end, and for what acts in one instant
    /// the same as `from`.
    pub to: Option<Instant>,
    /// How many messages, tasks, commands, writes, keys or other things it touched; 0: it struck
    /// nothing. `None`: nobody has counted.
    #[serde(default)]
    pub met: Option<u64>,
}

impl Condition {
    /// Whether it names this host as its target, or as an end of its links.
    pub fn touches(&self, host: &str) -> bool {
        self.target.hosts().contains(&host)
    }

    /// Whether it is that host, and no link, that it happened to.
    pub fn strikes(&self, host: &str) -> bool {
        matches!(&self.target, Target::Host(target) if target == host)
    }

    /// When it was over in a run that ended then.
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
    /// What was read, or is to be written; 0 for an entry.
    pub value: i64,
    /// Whether the resource took it.
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
}

/// A request of an operation to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The operation.
    pub op: OpId,
    /// The client's host.
    pub from: String,
    /// The node's host.
    pub to: String,
    /// The command in upper case.
    pub command: String,
    /// How far it came, and when. The first is `Sent`, or `Unsent` and the only one.
    pub legs: Vec<(Leg, Instant)>,
    /// Whether the node answered with an error: READONLY, LOADING, MOVED, NOSCRIPT, ...
    #[serde(default, skip_serializing_if = "is_default")]
    pub declined: bool,
    /// The first word of that error, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// What a node became, or what somebody saw of a master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// When.
    pub at: Instant,
    /// Who became something, or saw it: a node, a Sentinel.
    pub by: String,
    /// What.
    pub what: Seen,
    /// The master that is meant.
    pub master: String,
}

/// What is told in a [`Sighting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// It is a master from now on.
    Leads,
    /// It follows the master from now on.
    Follows,
    /// Its process ended by itself.
    Exited,
    /// A Sentinel saw its clock jump and acts on nothing for 30 s: TILT, in the documentation of
    /// Sentinel.
    Tilted,
    /// It told a client that too few replicas have what was written to it.
    Unreplicated,
    /// The master, by who watches it.
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
    /// From when on.
    pub from: Instant,
    /// The line that it follows.
    pub line: Line,
}

/// The words for what operations ask and are told: the events that an anchor may wait for.
pub const WORDS: [&str; 18] = [
    "acquire",
    "acquired",
    "refused",
    "unknown",
    "release",
    "released",
    "not-mine",
    "extend",
    "kept",
    "lost",
    "told",
    "reading",
    "read",
    "writing",
    "wrote",
    "appending",
    "appended",
    "refused-access",
];

impl OpKind {
    /// The word for the invocation.
    pub fn asked(&self) -> &'static str {
        match self {
            OpKind::Acquire => "acquire",
            OpKind::Extend { .. } => "extend",
            OpKind::Release { .. } => "release",
            OpKind::Lost { .. } => "told",
            OpKind::Read { .. } => "reading",
            OpKind::Write { .. } => "writing",
            OpKind::Append { .. } => "appending",
        }
    }
}

impl Outcome {
    /// The word for the return from an operation of this kind.
    ///
    /// # Panics
    /// If it has not returned.
    pub fn told(&self, kind: &OpKind) -> &'static str {
        match (self, kind) {
            (Outcome::Pending, _) => unreachable!("what returned is not pending"),
            (Outcome::Unknown, _) => "unknown",
            (Outcome::Granted { .. }, _) => "acquired",
            (Outcome::Refused { .. }, OpKind::Acquire) => "refused",
            (Outcome::Refused { .. }, _) => "refused-access",
            (Outcome::Kept { .. }, _) => "kept",
            (Outcome::Lost, _) => "lost",
            (Outcome::Released, _) => "released",
            (Outcome::NotMine, _) => "not-mine",
            (Outcome::Value { .. }, _) => "read",
            (Outcome::Accepted, OpKind::Append { .. }) => "appended",
            (Outcome::Accepted, _) => "wrote",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OpKind, Outcome, WORDS};

    #[test]
    fn every_word_of_an_operation_can_be_waited_for() {
        let kinds = [
            OpKind::Acquire,
            OpKind::Extend { grant: 0, background: false },
            OpKind::Release { grant: 0 },
            OpKind::Lost { grant: 0 },
            OpKind::Read { grant: None },
            OpKind::Write { grant: None, value: 0 },
            OpKind::Append { grant: None },
        ];
        let outcomes = [
            Outcome::Unknown,
            Outcome::Granted { token: String::new(), fence: None, deadline: None },
            Outcome::Refused { why: String::new() },
            Outcome::Kept { deadline: None },
            Outcome::Lost,
            Outcome::Released,
            Outcome::NotMine,
            Outcome::Value { value: 0 },
            Outcome::Accepted,
        ];
        let mut used: Vec<&str> = kinds.iter().map(OpKind::asked).collect();
        for kind in &kinds {
            used.extend(outcomes.iter().map(|outcome| outcome.told(kind)));
        }
        for word in WORDS {
            assert!(used.contains(&word), "'{word}' never happens");
        }
        assert!(used.iter().all(|word| WORDS.contains(word)));
    }
}
