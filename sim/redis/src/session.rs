//! What a connection has set for itself, and what waits to be sent to it.
//!
//! - `transaction`: what MULTI and WATCH have begun

pub mod transaction;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::{Bytes, BytesMut};

use crate::frame::word;
use crate::frame::{Arguments, Protocol, Reply};
use crate::keyspace::Key;
use crate::peers::Announced;
use crate::session::transaction::Transaction;
use crate::specification::Command;

/// One connection of a node, or what stands for one: its master, its file, a script.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its number, from 1.
    pub id: u64,
    /// The client's address, and the node's as the client sees it.
    pub addresses: [SocketAddrV4; 2],
    /// The node's wall clock when it connected, and when it last asked, in Unix milliseconds.
    pub since_ms: [u64; 2],
    /// The name that CLIENT SETNAME gave.
    pub name: Bytes,
    /// What its client library calls itself, and its version: CLIENT SETINFO.
    pub library: [Bytes; 2],
    /// The user that it speaks for; `None` before AUTH.
    pub user: Option<Bytes>,
    /// The selected database.
    pub db: usize,
    /// In which form it is answered.
    pub protocol: Protocol,
    /// Whether it is answered.
    pub answers: Answers,
    /// Whether CLIENT NO-EVICT protects it.
    pub stays: bool,
    /// The command that it asked last.
    pub last_command: Option<&'static Command>,
    /// What MULTI and WATCH have begun.
    pub transaction: Transaction,
    /// Whether ASKING stood before this request.
    pub asking: bool,
    /// Whether READONLY lets a replica of a cluster answer it.
    pub reads_here: bool,
    /// What it listens to.
    pub subscriptions: Subscriptions,
    /// Whether it sees all commands.
    pub monitors: bool,
    /// Why it waits, if it does.
    pub blocked: Option<Block>,
    /// What is to be sent to it.
    pub output: BytesMut,
    /// What it is told while EXEC runs: it stands before the reply of the command that runs.
    pub aside: Option<Vec<Reply>>,
    /// Whether it is to be closed, and how.
    pub closing: Option<Closing>,
    /// Whether its commands come from the node's master (or from its own file).
    pub from_master: bool,
    /// The offset after its last command (`woff`).
    pub last_write: u64,
    /// What a replica told of itself.
    pub announced: Announced,
    /// Set while a script's commands run: what the script may and did do.
    pub script: Option<ScriptRun>,
    /// What the server must do behind the reply.
    pub after: After,
}

impl Default for Session {
    fn default() -> Session {
        let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        Session {
            id: 0,
            addresses: [nowhere; 2],
            since_ms: [0; 2],
            name: Bytes::new(),
            library: [Bytes::new(), Bytes::new()],
            user: Some(word("default")),
            db: 0,
            protocol: Protocol::Two,
            answers: Answers::On,
            stays: false,
            last_command: None,
            transaction: Transaction::default(),
            asking: false,
            reads_here: false,
            subscriptions: Subscriptions::default(),
            monitors: false,
            blocked: None,
            output: BytesMut::new(),
            aside: None,
            closing: None,
            from_master: false,
            last_write: 0,
            announced: Announced::default(),
            script: None,
            after: After::Nothing,
        }
    }
}

impl Session {
    /// Puts a reply behind what waits to be sent, in the session's form.
    pub fn push(&mut self, reply: &Reply) {
        match &mut self.aside {
            Some(aside) => aside.push(reply.clone()),
            None => reply.encode_in(self.protocol, &mut self.output),
        }
    }

    /// Puts the reply to a request there, unless CLIENT REPLY said that it is not wanted.
    pub fn answer(&mut self, reply: &Reply) {
        match self.answers {
            Answers::On => self.push(reply),
            Answers::Off => {}
            Answers::Skip => self.answers = Answers::On,
            Answers::SkipNext => self.answers = Answers::Skip,
        }
    }

    /// Whether it may never wait: EXEC, or a script, runs its commands.
    pub fn may_not_wait(&self) -> bool {
        self.transaction.is_running() || self.script.is_some()
    }

    /// Whether it may use only the commands about subscriptions: RESP2 has no pushes.
    pub fn only_listens(&self) -> bool {
        self.protocol == Protocol::Two && !self.subscriptions.is_empty()
    }
}

/// What CLIENT REPLY chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// Every request is answered.
    #[default]
    On,
    /// None is.
    Off,
    /// The next one is not.
    SkipNext,
    /// The one that runs is not.
    Skip,
}

/// What a session listens to.
#[derive(Clone, Debug, Default)]
pub struct Subscriptions {
    /// Channels by their names.
    pub channels: BTreeSet<Bytes>,
    /// Channels by patterns.
    pub patterns: BTreeSet<Bytes>,
    /// Shard channels.
    pub shards: BTreeSet<Bytes>,
}

/// Kinds of channels.
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
    pub fn of(&mut self, kind: Channel) -> &mut BTreeSet<Bytes> {
        match kind {
            Channel::Plain => &mut self.channels,
            Channel::Pattern => &mut self.patterns,
            Channel::Shard => &mut self.shards,
        }
    }

    /// Whether it listens to nothing.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shards.is_empty()
    }
}

/// Why a session waits. Requests behind the one that waits are not looked at.
#[derive(Clone, Debug)]
pub enum Block {
    /// A blocking pop waits for one of its keys.
    Keys(Pop),
    /// CLIENT PAUSE holds this request back.
    Paused(Arguments),
    /// Its script comes to no end.
    Script,
    /// WAIT or WAITAOF waits for others to have what it wrote.
    Acknowledgement(Quorum),
}

/// What WAIT and WAITAOF ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The offset of the stream that is asked about.
    pub offset: u64,
    /// How many replicas must have it.
    pub replicas: usize,
    /// WAITAOF: they must have synced it, and if this says so, the node as well.
    pub synced: Option<bool>,
    /// How long they are waited for, in ms; 0 is for ever.
    pub timeout_ms: u64,
}

/// A blocking command that waits for keys.
#[derive(Clone, Debug)]
pub struct Pop {
    /// The request.
    pub args: Arguments,
    /// Its command.
    pub command: &'static Command,
    /// The database and the keys.
    pub db: usize,
    /// One of which must get what it wants.
    pub keys: Vec<Key>,
    /// Until when it waits, in Unix milliseconds of the node's clock; `None` is for ever.
    pub until_ms: Option<u64>,
    /// What it takes as soon as one of them has it.
    pub wanted: Wanted,
    /// The answer when its time is over.
    pub late: Reply,
}

/// What a blocking command waits for: how it is tried again for a key that was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
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

/// How a connection is ended by the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// At once, whatever waits to be sent.
    AtOnce,
    /// When everything is sent.
    AfterOutput,
}

/// A script while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptRun {
    /// Whether its head says `no-writes`, or it was called by a `_RO` form.
    pub read_only: bool,
    /// Whether it may write when memory is used up.
    pub allow_oom: bool,
    /// Whether it has written.
    pub wrote: bool,
    /// Whether all its keys have to be in one slot of a cluster.
    pub keeps_to_slot: bool,
    /// The slot of its first key.
    pub slot: Option<u16>,
}

/// What a replica asks for with PSYNC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Psync {
    /// The history that it has.
    pub id: Bytes,
    /// The first offset that it lacks.
    pub next: i64,
    /// Whether the node is to become a master first: its own master hands over.
    pub promotes: bool,
}

/// What the server must do behind a reply, or in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    #[default]
    Nothing,
    /// Answer when what a [`Quorum`] asks for is acknowledged.
    Wait,
    /// Follow another master, or none.
    Follow(Option<SocketAddrV4>),
    /// Feed a replica from now on.
    Feed(Psync),
    /// Turn to a replica when it has everything.
    FailOver,
    /// Give that up.
    AbortFailover,
    /// Hold the node for so many nanoseconds before the reply: DEBUG SLEEP.
    Sleep(u64),
    /// Begin an append-only file with what the node holds.
    BeginFile,
    /// Save all keys: at once before the reply, or in the background behind it.
    Save {
        /// Which of the two.
        in_background: bool,
    },
    /// Rewrite the append-only file in the background.
    Rewrite,
    /// Save or rewrite in the background when nothing else is under way.
    InTurn,
    /// Look at the save points from now on.
    WatchSaves,
    /// End the process, with or without a save before.
    ShutDown {
        /// Which of the two.
        saves: bool,
    },
}
