//! The replication peers of a node, as it sees them: its replicas, its master, and a failover
//! between them.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::clients::Pause;
use crate::node::{Append, Node};
use crate::session::Quorum;

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
pub struct Link {
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
pub struct Failover {
    /// The replica that becomes master; `None` for the first one that has caught up.
    pub to: Option<SocketAddrV4>,
    /// The deadline for the replica to catch up, in Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Whether the replica becomes master even if it has not caught up by then.
    pub force: bool,
    /// Whether the node has already turned to the replica.
    pub in_progress: bool,
}

impl Failover {
    /// The state's name in INFO.
    pub fn state(failover: Option<&Failover>) -> &'static str {
        match failover {
            None => "no-failover",
            Some(Failover { in_progress: false, .. }) => "waiting-for-sync",
            Some(_) => "failover-in-progress",
        }
    }
}

impl Node {
    /// Whether it currently follows a master's stream.
    pub fn is_linked(&self) -> bool {
        self.link.state == LinkState::Connected
    }

    /// Becomes a replica, or follows another master. A former master requests a resynchronisation
    /// with its own history (`replicationSetMaster`).
    pub fn follow(&mut self, master: SocketAddrV4) {
        if self.master.is_none() {
            self.history.keep();
            self.propagates = true;
            self.link = Link { resumes_in: Some(0), ..Link::default() };
        }
        self.master = Some(master);
        self.lose_master();
        self.end_waits_by_role();
    }

    /// Becomes a master: from now on its data has another history (`replicationUnsetMaster`).
    pub fn lead(&mut self) {
        self.master = None;
        self.link = Link::default();
        let id = self.fresh_id();
        self.history.go_on_as(id);
        self.replicas.clear();
        self.recount_good_replicas();
    }

    /// Continues the history that the node's own file contains: a replica requests what it lacks
    /// from its master, a master gives that to replicas that are not ahead of the file.
    pub fn resume(&mut self, id: String, offset: u64, db: usize) {
        let own = self.history.id.clone();
        self.history.take_over(id, offset);
        if self.master.is_some() {
            self.link.resumes_in = Some(db);
        } else {
            self.history.go_on_as(own);
        }
        self.propagates = true;
    }

    /// Marks the link to the master as down.
    pub fn lose_master(&mut self) {
        if self.is_linked() {
            self.link.down_since_s = Some(self.now_ms / 1_000);
        }
        self.link.state = LinkState::Connect;
    }

    /// An id that no history has had: 40 hexadecimal digits.
    pub fn fresh_id(&mut self) -> String {
        (0..40).map(|_| char::from(b"0123456789abcdef"[self.draw(16)])).collect()
    }

    /// Adds bytes to the replication stream.
    pub fn stream(&mut self, bytes: &[u8]) {
        self.history.add(bytes, self.config.backlog_bytes);
    }

    /// Begins to count the stream for a first replica.
    pub fn begin_stream(&mut self) {
        self.propagates = true;
        if !self.history.is_kept() {
            let id = self.fresh_id();
            self.history.begin(id);
        }
    }

    /// What delays requests at present: CLIENT PAUSE, a failover, or both.
    pub fn pause(&self) -> Option<Pause> {
        let failover = self.failover.map(|_| Pause { until_ms: u64::MAX, all: false });
        let client = self.clients.pause().filter(|pause| pause.until_ms > self.now_ms);
        match (client, failover) {
            (Some(client), Some(failover)) => Some(Pause { all: client.all, ..failover }),
            (client, failover) => client.or(failover),
        }
    }

    /// The replica to which a failover may turn now.
    pub fn caught_up(&self, to: Option<SocketAddrV4>) -> Option<SocketAddrV4> {
        let mut replicas = self.replicas.iter().filter(|replica| replica.online);
        let up =
            |r: &&Replica| to.is_none_or(|to| r.address == to) && r.acked == self.history.offset;
        replicas.find(up).map(|replica| replica.address)
    }

    /// How many replicas have the stream up to the offset that a quorum requires.
    pub fn acknowledged(&self, quorum: &Quorum) -> usize {
        let has = |replica: &&Replica| {
            let offset = if quorum.synced.is_some() { replica.synced } else { replica.acked };
            replica.online && offset >= quorum.offset
        };
        self.replicas.iter().filter(has).count()
    }

    /// Whether the node's own file is synced up to an offset: `fsynced_reploff`.
    pub fn has_synced(&self, offset: u64) -> bool {
        self.config.append != Append::None && self.saving.synced >= offset
    }

    /// Counts the replicas whose last acknowledgement is recent enough, as `replicationCron` does.
    pub fn recount_good_replicas(&mut self) {
        let (now_s, lag) = (self.now_ms / 1_000, self.config.min_replicas_max_lag);
        let good = |r: &&Replica| r.online && now_s.saturating_sub(r.acked_at_s) <= lag;
        let count = self.replicas.iter().filter(good).count();
        self.good_replicas = u32::try_from(count).unwrap_or(u32::MAX);
    }
}
