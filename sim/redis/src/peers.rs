//! The replication peers of a node, as it sees them: its replicas, its master, and a failover
//! between them.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The peers of a node.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    /// The master that it follows.
    pub master: Option<SocketAddrV4>,
    /// The link to that master.
    pub link: MasterLink,
    /// The replicas that it feeds, in order of arrival.
    pub replicas: Vec<Replica>,
    /// The FAILOVER under way.
    pub failover: Option<ManualFailover>,
    /// How many replicas are good, recounted once a second.
    pub good_replicas: u32,
}

impl Peers {
    /// Whether the node currently follows its master's stream.
    pub fn is_linked(&self) -> bool {
        self.link.state == LinkState::Connected
    }
}

/// A replica as its master sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The session that feeds it.
    pub session: u64,
    /// Its announced address, otherwise the one of its connection; port 0 if it announced none.
    pub address: SocketAddrV4,
    /// Whether it has received all earlier data, so that it counts.
    pub online: bool,
    /// The offset that it has acknowledged.
    pub acked: u64,
    /// The offset up to which it has synced its file, if it reports that.
    pub synced: u64,
    /// When it last sent an acknowledgement, in Unix seconds.
    pub acked_at_s: u64,
}

/// What REPLCONF announced about a replica before PSYNC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// The port on which it listens.
    pub port: u16,
    /// Its address, if not the one of its connection.
    pub ip: Option<Ipv4Addr>,
    /// Whether it supports a change of the history's id: `capa psync2`.
    pub psync2: bool,
}

/// The state of a replica's link to its master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// Not connected; a connection will be tried.
    #[default]
    Connect,
    /// Connecting.
    Connecting,
    /// Connected; the handshake is under way.
    Handshake,
    /// The master is sending its keys.
    Sync,
    /// The replica follows the stream.
    Connected,
}

impl LinkState {
    /// Its name in ROLE.
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
pub struct MasterLink {
    /// Its state.
    pub state: LinkState,
    /// When the master last sent something, in Unix seconds.
    pub heard_s: u64,
    /// Since when it has been down, if it was ever up, in Unix seconds.
    pub down_since_s: Option<u64>,
    /// The database that the stream had selected, if the node's history can be continued.
    pub resumes_in: Option<usize>,
}

/// A FAILOVER under way. Writes wait meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualFailover {
    /// The replica that becomes master; `None` for the first one that has caught up.
    pub to: Option<SocketAddrV4>,
    /// The deadline for the replica to catch up, in Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Whether the replica becomes master even if it has not caught up by then.
    pub force: bool,
    /// Whether the node has already turned to the replica.
    pub in_progress: bool,
}

impl ManualFailover {
    /// The state's name in INFO.
    pub fn state(failover: Option<&ManualFailover>) -> &'static str {
        match failover {
            None => "no-failover",
            Some(ManualFailover { in_progress: false, .. }) => "waiting-for-sync",
            Some(_) => "failover-in-progress",
        }
    }
}
