//! The events of a world in order, and the rolling hash over them.
//!
//! There are two kinds of records. *Happenings* of the machinery (deliveries with their bytes,
//! timers, draws, task runs) only feed the hash. *Events* feed the hash and are kept: they are the
//! evidence for histories, anchors and reports.

pub mod exchange;
mod fields;
mod text;

use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::time::{Instant, Nanos, Readings, Stamp};
use crate::trace::exchange::Exchange;

/// A machine, by its number in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u16);

/// A connection: its two ends, the connecting one first. It is unique until a port is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// The end that connected.
    pub client: SocketAddrV4,
    /// The end that listened.
    pub server: SocketAddrV4,
}

/// The nth request on a connection, counted from 0. Both ends count alike, so the client's
/// knowledge of a request (its operation) and the node's (its effect) can be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The connection that carries it.
    pub connection: Connection,
    /// Its number on the connection.
    pub nth: u32,
}

/// A key of a node. The name is shared because every change of a key is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName {
    /// The number of its database.
    pub db: u16,
    /// Its name there.
    pub name: Rc<[u8]>,
}

impl KeyName {
    /// A key of a node's database.
    ///
    /// # Panics
    /// If `db` exceeds the number of databases that a node can have.
    pub fn new(db: usize, name: Rc<[u8]>) -> KeyName {
        KeyName { db: u16::try_from(db).expect("a node has 16 databases"), name }
    }
}

/// The progress of a request and its reply.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Leg {
    /// The client has written the request.
    Sent,
    /// The node has executed the request; no byte of the reply is written.
    Applied,
    /// The node has written the reply.
    Replied,
    /// The client has read the reply.
    Delivered,
    /// The client gave up before it wrote the request: no connection was established in time.
    Unsent,
}

/// The cause of a change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client's request on this node.
    Request(Request),
    /// The replication stream: the end of the command in the history that the node follows.
    Replication {
        /// The history, by the number of its id.
        history: u64,
        /// Offset after the command.
        offset: u64,
    },
    /// The node itself: expiry, eviction, load.
    Node,
}

/// What happened to a key on one node.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum KeyChange {
    /// Created, or overwritten by a command that sets.
    Set,
    /// The value changed in place (INCR, HINCRBY, APPEND and the like).
    Changed,
    /// The time to live was set, extended, shortened or removed.
    Extended,
    /// Deleted by a command.
    Deleted,
    /// Removed because its time to live had passed.
    Expired,
    /// Removed to free memory.
    Evicted,
    /// Present before the node went down, absent after its start.
    LostAtRestart,
    /// Present before a full resynchronisation, absent after it.
    LostAtFailover,
}

impl KeyChange {
    /// Whether the key is there afterwards.
    pub fn leaves_key(self) -> bool {
        matches!(self, KeyChange::Set | KeyChange::Changed | KeyChange::Extended)
    }
}

/// The beginning or the end of a fault.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Edge {
    /// The fault strikes.
    Start,
    /// The fault ends.
    End,
}

/// A record that is kept and to which a fault can be anchored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A lock's code passed a named point.
    Step {
        /// The point's name.
        label: &'static str,
    },
    /// An operation was invoked or returned at its caller.
    Outcome {
        /// Number of the operation.
        op: u32,
        /// `acquire`, `acquired`, `refused`, `unknown`, `release`, `released`, ...
        what: &'static str,
    },
    /// A request or its reply made progress.
    Message {
        /// The request.
        request: Request,
        /// Its progress.
        leg: Leg,
        /// The command, in upper case.
        command: &'static str,
        /// The client's operation that it serves; known only on the client's legs.
        op: Option<u32>,
    },
    /// A client wanted to send a request, but no connection was established in time.
    Unreached {
        /// The node's address.
        to: SocketAddrV4,
        /// The command, in upper case.
        command: &'static str,
        /// The client's operation that it serves.
        op: u32,
    },
    /// A key changed on this node.
    Key {
        /// The key.
        key: KeyName,
        /// What happened to it.
        change: KeyChange,
        /// The cause.
        origin: Origin,
        /// The expiry on the node's wall clock, in Unix milliseconds, if the key has one.
        until_ms: Option<u64>,
    },
    /// A master wrote a command to its replication stream.
    Propagated {
        /// The history to which the stream belongs, by the number of its id.
        history: u64,
        /// Offset after the command.
        offset: u64,
        /// The cause.
        origin: Origin,
    },
    /// A node has started and holds these keys, or a resynchronisation emptied and filled it.
    Loaded {
        /// The keys that it now holds.
        keys: Vec<KeyName>,
        /// The connection over which a resynchronisation filled it; `None` after a start.
        resync: Option<Connection>,
        /// What it read at its start, where known.
        file: Option<Place>,
    },
    /// A master took a snapshot of its keys for the replica on this connection.
    Snapshot {
        /// The replica's connection.
        connection: Connection,
    },
    /// A node captured all its current keys for a file. A remark, as [`Event::Saw`] is: the mark of
    /// the file is the number of the next record.
    Dumped {
        /// How many key changes a load produces, if it begins an append-only file. `None`: it is a
        /// snapshot, to which nothing is appended.
        appends: Option<u64>,
    },
    /// A history continues under another id: a replica became a master, or a master started from a
    /// file. Up to an offset, its content is that of the previous history. A remark.
    Continued {
        /// Its number from now on.
        history: u64,
        /// Its previous number.
        earlier: u64,
        /// The last offset of the previous history.
        to: u64,
    },
    /// A node became master (`None`) or replica of an address.
    Role {
        /// The master that it follows.
        master: Option<SocketAddrV4>,
    },
    /// A fault struck or ended.
    Fault {
        /// The fault's number in the plan.
        id: u32,
        /// Which end of it.
        edge: Edge,
    },
    /// A line of prose, for the trace alone.
    Note {
        /// The text.
        text: String,
    },
    /// The content of a request that changed keys or tried to: recorded before the changes, and
    /// only if [`crate::host::Host::keeps_words`].
    Words {
        /// The request.
        request: Request,
        /// The database that was selected before it.
        db: u16,
        /// Its command and arguments; those of a transaction one after the other.
        words: Vec<Bytes>,
        /// The value of each key that it changed, in the order of the changes.
        values: Vec<Option<Bytes>>,
    },
    /// A connection from outside the world was closed.
    Ended {
        /// The connection.
        connection: Connection,
    },
    /// A node replies to this request with an error. A remark: other records hold the bytes.
    Declined {
        /// The request.
        request: Request,
        /// The first word of the error: `READONLY`.
        word: String,
    },
    /// The members of a collection after the changes just before, a start or a resync. A remark.
    Members {
        /// The collection.
        key: KeyName,
        /// Each member with its value, or with the bits of its score.
        members: Vec<(Bytes, Bytes)>,
        /// Whether the node has just loaded them.
        is_loaded: bool,
    },
    /// What a key holds after the changes just before, a start or a resync. A remark.
    Content {
        /// The key.
        key: KeyName,
        /// The same for equal values.
        digest: u64,
    },
    /// A node executed a request; this went over the connection. A remark, where it is wanted.
    Exchanged(Request, Exchange),
    /// A client sends a request that names these keys; left out if its lock's is one. A remark.
    Names {
        /// The request.
        request: Request,
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// The operator sends the commands of a fault over this connection. A remark.
    Ordered {
        /// The fault's number in the plan.
        fault: u32,
        /// The connection.
        connection: Connection,
    },
    /// A master reports too few replicas: WAIT after its timeout, or NOREPLICAS. A remark.
    Unreplicated,
    /// A node's process exits on its own. A remark.
    Exited,
    /// A Sentinel sees its clock jump and only monitors for a while: TILT. A remark.
    Tilted,
    /// A Sentinel or a cluster node changes its view of a master. A remark.
    Saw {
        /// What it sees.
        sight: Sight,
        /// The master in question.
        master: SocketAddrV4,
    },
}

/// How much of a node's work a file contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The mark of the beginning of the file; 0 if it began empty or there is none.
    pub mark: u64,
    /// How many key changes loading its commands produces.
    pub changes: u64,
}

/// An observer's view of a master.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Sight {
    /// It does not reply to this observer: a Sentinel's +sdown.
    Suspected,
    /// Enough other observers agree: a Sentinel's +odown, FAIL in a cluster.
    Down,
    /// It is the master from now on: a Sentinel's +switch-master.
    Named,
}

/// An event with its position, its host and the readings of that host's clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Position and clock readings.
    pub stamp: Stamp,
    /// Where it happened.
    pub host: HostId,
    /// What happened.
    pub event: Event,
}

/// A record that only feeds the hash, unless the trace is kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// Bytes arrived at one end of a connection (`a` connection, `b` side).
    Delivery,
    /// A timer fired (`a` host, `b` task).
    Timer,
    /// A draw was made (`a` purpose, `b` low half of the ordinal, payload value).
    Draw,
    /// A task ran (`a` task, `b` its nth wake-up, payload its priority).
    Run,
    /// A connection was established, closed or reset (`a` connection, `b` what).
    Connection,
    /// A process started, stopped, was paused or resumed (`a` host, `b` what).
    Process,
}

/// One line of a trace that is kept whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Position in the trace.
    pub instant: Instant,
    /// What happened, rendered.
    pub text: String,
}

/// The hash after a number of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The number of records covered.
    pub records: u64,
    /// The hash over them.
    pub(crate) digest: u128,
}

/// Bytes gathered before they are hashed; the digest does not depend on this size.
const BUFFER: usize = 4096;

/// The trace of one run.
pub struct Trace {
    hash: Xxh3,
    buffer: Vec<u8>,
    records: u64,
    entries: Vec<Entry>,
    lines: Option<Vec<TraceLine>>,
    hashes: bool,
}

impl Trace {
    /// An empty trace. `whole` keeps a rendered line for every record, to compare two runs.
    pub fn new(whole: bool) -> Trace {
        Trace {
            hash: Xxh3::new(),
            buffer: Vec::with_capacity(BUFFER + 256),
            records: 0,
            entries: Vec::new(),
            lines: whole.then(Vec::new),
            hashes: true,
        }
    }

    /// A trace without a hash, for worlds that cannot be run again.
    pub fn unhashed() -> Trace {
        Trace { hashes: false, ..Trace::new(false) }
    }

    /// Takes the kept events out, in order; they replace the content of `into`, whose room serves
    /// the next ones. An endless world must do this from time to time.
    pub fn drain(&mut self, into: &mut Vec<Entry>) {
        into.clear();
        std::mem::swap(&mut self.entries, into);
    }

    /// Records a happening of the machinery at true time `at`.
    pub fn happen(&mut self, at: Nanos, kind: Happening, a: u32, b: u32, payload: &[u8]) {
        self.assert_in_order(at);
        if self.hashes {
            self.write(at, kind as u8, a, b, payload);
        }
        if let Some(lines) = &mut self.lines {
            let text = format!("{kind:?} {a} {b} {}", payload.escape_ascii());
            lines.push(TraceLine { instant: Instant { seq: self.records, at }, text });
        }
        self.close_record();
    }

    /// Records and keeps an event. Returns its position.
    pub fn record(&mut self, at: Nanos, readings: Readings, host: HostId, event: Event) -> Stamp {
        self.assert_in_order(at);
        let stamp = Stamp::new(Instant { seq: self.records, at }, readings);
        if event.is_remark() {
            self.entries.push(Entry { stamp, host, event });
            return stamp;
        }
        if self.hashes {
            self.write_event(at, host, &event);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(TraceLine { instant: stamp.instant(), text: format!("{host:?} {event:?}") });
        }
        self.entries.push(Entry { stamp, host, event });
        self.close_record();
        stamp
    }

    /// The position of the next record.
    pub fn next_instant(&self, at: Nanos) -> Instant {
        Instant { seq: self.records, at }
    }

    /// The kept events, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Every record as a line, if the trace is kept whole.
    pub fn lines(&self) -> Option<&[TraceLine]> {
        self.lines.as_deref()
    }

    /// The number of records, and the hash over all of them.
    pub fn digest(&self) -> Digest {
        let mut hash = self.hash.clone();
        hash.update(&self.buffer);
        Digest { records: self.records, digest: hash.digest128() }
    }

    fn assert_in_order(&self, at: Nanos) {
        let last = self.entries.last();
        debug_assert!(last.is_none_or(|last| last.stamp.at <= at), "true time never runs back");
    }

    fn close_record(&mut self) {
        self.records += 1;
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.hash.update(&self.buffer);
        self.buffer.clear();
    }
}

/// The XXH3 hash of some bytes, for names of plans and digests of strings.
pub fn hash_of(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests;
