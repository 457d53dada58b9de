//! The others that a node replicates with, as it sees them: its replicas, its master, and a
//! failover between them.

use std::net::{Ipv4Addr, SocketAddrV4};

/// A replica as its master sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The session that feeds it.
    pub session: u64,
    /// Its address as it announced it, else as it is seen; 0 for a port that it did not tell.
    pub address: SocketAddrV4,
    /// Whether it has all that came before, so that it counts.
    pub online: bool,
    /// The offset that it has acknowledged.
    pub acked: u64,
    /// The offset up to which it has synced its file, if it tells that.
    pub synced: u64,
    /// When it last said a word, in Unix seconds.
    pub acked_at_s: u64,
}

/// What REPLCONF told of a replica before it asked for anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Where it listens.
    pub port: u16,
    /// Its address, if not the one that is seen.
    pub ip: Option<Ipv4Addr>,
    /// Whether it wants to be told that the history's id has changed: `capa psync2`.
    pub psync2: bool,
}

/// How far a replica's link to its master is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// There is none; it will be tried.
    #[default]
    Connect,
    /// It is being opened.
    Connecting,
    /// It is open, and both say who they are.
    Handshake,
    /// The master's keys are under way.
    Sync,
    /// The stream is followed.
    Connected,
}

impl LinkState {
    /// The word of ROLE.
    pub fn word(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// A replica's link to its master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// How far it is.
    pub state: LinkState,
    /// When the master was last heard, in Unix seconds.
    pub heard_s: u64,
    /// Since when it is down, if it was ever up, in Unix seconds.
    pub down_since_s: Option<u64>,
    /// The database that the stream had selected, if the node's history can be gone on with.
    pub resumes_in: Option<usize>,
}

/// A FAILOVER under way. Writes wait meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// Who is to be the master; `None` is the first replica that has everything.
    pub to: Option<SocketAddrV4>,
    /// Until when the replica is waited for, in Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Whether it is made master then all the same.
    pub force: bool,
    /// Whether the node has turned to it.
    pub in_progress: bool,
}

impl Failover {
    /// The words of INFO.
    pub fn state(failover: Option<&Failover>) -> &'static str {
        match failover {
            None => "no-failover",
            Some(Failover { in_progress: false, .. }) => "waiting-for-sync",
            Some(_) => "failover-in-progress",
        }
    }
}
