//! The state of a connection, and its output buffer.
//!
//! - `transaction`: what MULTI and WATCH have begun

pub(crate) mod transaction;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::{Bytes, BytesMut};

use crate::frame::word;
use crate::frame::{Arguments, Protocol, Reply};
use crate::keyspace::Key;
use crate::peers::Announced;
use crate::session::transaction::Transaction;
use crate::specification::Command;

/// One connection of a node, or a substitute for one: its master, its file, a script.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id, from 1.
    pub id: u64,
    /// The client at the other end.
    pub(crate) client: ClientIdentity,
    /// The user that it is authenticated as; `None` before AUTH.
    pub user: Option<Bytes>,
    /// The selected database.
    pub(crate) db: usize,
    /// Its replies and push messages.
    pub replies: Replies,
    /// Whether CLIENT NO-EVICT protects it.
    pub(crate) stays: bool,
    /// Its last command.
    pub(crate) last_command: Option<&'static Command>,
    /// What MULTI and WATCH have begun.
    pub(crate) transaction: Transaction,
    /// What it may do at a node of a cluster.
    pub(crate) routing: Routing,
    /// Its subscriptions.
    pub(crate) subscriptions: Subscriptions,
    /// Whether it is in MONITOR mode.
    pub(crate) monitors: bool,
    /// Why it is blocked, if it is.
    pub blocked: Option<Block>,
    /// Its part in replication.
    pub(crate) replication: SessionReplication,
    /// Set while a script's commands run: its permissions and what it did.
    pub(crate) script: Option<ScriptRun>,
    /// What the server must do after the reply.
    pub after: After,
}

impl Default for Session {
    fn default() -> Session {
        Session {
            id: 0,
            client: ClientIdentity::default(),
            user: Some(word("default")),
            db: 0,
            replies: Replies::default(),
            stays: false,
            last_command: None,
            transaction: Transaction::default(),
            routing: Routing::default(),
            subscriptions: Subscriptions::default(),
            monitors: false,
            blocked: None,
            replication: SessionReplication::default(),
            script: None,
            after: After::Nothing,
        }
    }
}

impl Session {
    /// A substitute for a connection: commands come from the node's master, or from its own file.
    pub(crate) fn of_master() -> Session {
        let replication = SessionReplication { from_master: true, ..SessionReplication::default() };
        Session { replication, ..Session::default() }
    }

    /// Whether it may never wait: EXEC, or a script, runs its commands.
    pub(crate) fn may_not_wait(&self) -> bool {
        self.transaction.is_running() || self.script.is_some()
    }

    /// Whether only the commands about subscriptions are allowed: RESP2 has no push messages.
    pub(crate) fn only_listens(&self) -> bool {
        self.replies.protocol == Protocol::Two && !self.subscriptions.is_empty()
    }
}

/// The client of a session, as CLIENT LIST shows it.
#[derive(Clone, Debug)]
pub(crate) struct ClientIdentity {
    /// The client's address, and the node's as the client sees it.
    pub(crate) addresses: [SocketAddrV4; 2],
    /// The node's wall clock when it connected, and at its last request, in Unix milliseconds.
    pub(crate) since_ms: [u64; 2],
    /// The name set by CLIENT SETNAME.
    pub(crate) name: Bytes,
    /// The name and version of its client library: CLIENT SETINFO.
    pub(crate) library: [Bytes; 2],
}

impl Default for ClientIdentity {
    fn default() -> ClientIdentity {
        let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let library = [Bytes::new(), Bytes::new()];
        ClientIdentity { addresses: [nowhere; 2], since_ms: [0; 2], name: Bytes::new(), library }
    }
}

/// What a session may do at a node of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Routing {
    /// Whether ASKING preceded this request.
    pub(crate) asking: bool,
    /// Whether READONLY allows a cluster's replica to reply to it.
    pub(crate) reads_here: bool,
}

/// The part of a session in replication.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionReplication {
    /// Whether its commands come from the node's master (or from its own file).
    pub(crate) from_master: bool,
    /// The replication offset after its last command (`woff`).
    pub(crate) last_write: u64,
    /// What a replica announced about itself.
    pub(crate) announced: Announced,
}

/// The replies and push messages of a session, on their way to the client.
#[derive(Clone, Debug)]
pub struct Replies {
    /// Their protocol.
    pub(crate) protocol: Protocol,
    /// Whether requests get replies.
    pub(crate) mode: ReplyMode,
    /// The output buffer.
    pub buffer: BytesMut,
    /// Push messages while EXEC runs: they precede the reply of the current command.
    pub(crate) aside: Option<Vec<Reply>>,
    /// Whether the connection is being closed, and how.
    pub closing: Option<Closing>,
}

impl Default for Replies {
    fn default() -> Replies {
        let (protocol, mode) = (Protocol::Two, ReplyMode::On);
        Replies { protocol, mode, buffer: BytesMut::new(), aside: None, closing: None }
    }
}

impl Replies {
    /// Appends a reply to the output buffer, in the session's protocol.
    pub fn push(&mut self, reply: &Reply) {
        match &mut self.aside {
            Some(aside) => aside.push(reply.clone()),
            None => reply.encode_in(self.protocol, &mut self.buffer),
        }
    }

    /// Appends the reply to a request, unless CLIENT REPLY suppresses it.
    pub(crate) fn answer(&mut self, reply: &Reply) {
        match self.mode {
            ReplyMode::On => self.push(reply),
            ReplyMode::Off => {}
            ReplyMode::Skip => self.mode = ReplyMode::On,
            ReplyMode::SkipNext => self.mode = ReplyMode::Skip,
        }
    }
}

/// The mode of CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    /// Every request gets a reply.
    #[default]
    On,
    /// No request gets a reply.
    Off,
    /// The next request gets no reply.
    SkipNext,
    /// The current request gets no reply.
    Skip,
}

/// The subscriptions of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    /// Channels.
    pub(crate) channels: BTreeSet<Bytes>,
    /// Patterns.
    pub(crate) patterns: BTreeSet<Bytes>,
    /// Shard channels.
    pub(crate) shards: BTreeSet<Bytes>,
}

/// Types of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// By name.
    Plain,
    /// By pattern.
    Pattern,
    /// By name, inside a shard.
    Shard,
}

impl Subscriptions {
    /// The channels of one kind.
    pub(crate) fn of(&mut self, kind: Channel) -> &mut BTreeSet<Bytes> {
        match kind {
            Channel::Plain => &mut self.channels,
            Channel::Pattern => &mut self.patterns,
            Channel::Shard => &mut self.shards,
        }
    }

    /// Whether there is no subscription.
    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shards.is_empty()
    }
}

/// Why a session is blocked. Its subsequent requests are not read meanwhile.
#[derive(Clone, Debug)]
pub enum Block {
    /// A blocking pop waits for one of its keys.
    Keys(Pop),
    /// CLIENT PAUSE delays this request.
    Paused(Arguments),
    /// Its script does not terminate.
    Script,
    /// WAIT or WAITAOF waits for the acknowledgement of its writes.
    Acknowledgement(Quorum),
}

/// What WAIT and WAITAOF require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The required replication offset.
    pub offset: u64,
    /// How many replicas must have it.
    pub(crate) replicas: usize,
    /// For WAITAOF: the replicas must have synced it and, if true, the node as well.
    pub(crate) synced: Option<bool>,
    /// The timeout in ms; 0 means none.
    pub timeout_ms: u64,
}

/// A blocking command that waits for keys.
#[derive(Clone, Debug)]
pub struct Pop {
    /// The request.
    pub(crate) args: Arguments,
    /// Its command.
    pub(crate) command: &'static Command,
    /// The database.
    pub(crate) db: usize,
    /// The keys, one of which must become ready.
    pub(crate) keys: Vec<Key>,
    /// The deadline in Unix milliseconds of the node's clock; `None` means none.
    pub(crate) until_ms: Option<u64>,
    /// What it takes from a key that is ready.
    pub(crate) wanted: Wanted,
    /// The reply at the timeout.
    pub(crate) late: Reply,
}

/// What a blocking command waits for, which decides how it is retried for a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// An element of a list: BLPOP, BRPOP.
    Element,
    /// Several: BLMPOP.
    Elements,
    /// An element for another list: BLMOVE, BRPOPLPUSH.
    Moved,
    /// A member of a sorted set: BZPOPMIN, BZPOPMAX.
    Member,
    /// Several: BZMPOP.
    Members,
}

/// How the node closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// At once; the output buffer is discarded.
    AtOnce,
    /// When the output buffer is sent.
    AfterOutput,
}

/// A running script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptRun {
    /// Whether its flags contain `no-writes`, or it was called by a `_RO` command.
    pub(crate) read_only: bool,
    /// Whether it may write beyond `maxmemory`.
    pub(crate) allow_oom: bool,
    /// Whether it has written.
    pub(crate) wrote: bool,
    /// Whether all its keys must be in one slot of a cluster.
    pub(crate) keeps_to_slot: bool,
    /// The slot of its first key.
    pub(crate) slot: Option<u16>,
}

/// What a replica requests with PSYNC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Psync {
    /// The id of its history.
    pub(crate) id: Bytes,
    /// The first offset that it lacks.
    pub(crate) next: i64,
    /// Whether the node must become a master first: its own master hands over to it.
    pub(crate) promotes: bool,
}

/// What the server must do after a reply, or instead of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    #[default]
    Nothing,
    /// Reply when what a [`Quorum`] requires is acknowledged.
    Wait,
    /// Follow another master, or none.
    Follow(Option<SocketAddrV4>),
    /// Feed a replica from now on.
    Feed(Psync),
    /// Fail over to a replica when it has caught up.
    FailOver,
    /// Abort the failover.
    AbortFailover,
    /// Hold the node for this many nanoseconds before the reply: DEBUG SLEEP.
    Sleep(u64),
    /// Begin an append-only file with all keys of the node.
    BeginFile,
    /// Save all keys: before the reply, or in the background after it.
    Save {
        /// Which of the two.
        in_background: bool,
    },
    /// Rewrite the append-only file in the background.
    Rewrite,
    /// Save or rewrite in the background when nothing else is under way.
    InTurn,
    /// Check the save points from now on.
    WatchSaves,
    /// Stop the process, with or without a save first.
    ShutDown {
        /// Which of the two.
        saves: bool,
    },
}
