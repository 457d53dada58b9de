//! The node's master and replicas: changes of role, and acknowledgements.

use std::net::SocketAddrV4;

use crate::frame::Reply;
use crate::node::{Append, Node};
use crate::peers::{LinkState, MasterLink, Replica};
use crate::session::{Block, Quorum};

impl Node {
    /// Becomes a replica, or follows another master. A former master requests a resynchronisation
    /// with its own history (`replicationSetMaster`).
    pub fn follow(&mut self, master: SocketAddrV4) {
        if self.peers.master.is_none() {
            self.history.keep();
            self.propagation.is_consumed = true;
            self.peers.link = MasterLink { resumes_in: Some(0), ..MasterLink::default() };
        }
        self.peers.master = Some(master);
        self.lose_master();
        // Blocking pops and WAIT are commands for a master.
        self.clients.end_waits_by_role();
    }

    /// Becomes a master: from now on its data has another history (`replicationUnsetMaster`).
    pub fn lead(&mut self) {
        self.peers.master = None;
        self.peers.link = MasterLink::default();
        let id = self.fresh_id();
        self.history.go_on_as(id);
        self.peers.replicas.clear();
        // At once: the periodic count would let writes pass for up to a second.
        self.recount_good_replicas();
    }

    /// Continues the history that the node's own file contains: a replica requests what it lacks
    /// from its master, a master gives that to replicas that are not ahead of the file.
    pub fn resume(&mut self, id: String, offset: u64, db: usize) {
        let own = self.history.id.clone();
        self.history.take_over(id, offset);
        if self.peers.master.is_some() {
            self.peers.link.resumes_in = Some(db);
        } else {
            // The file's id becomes the previous one: replicas of that history may continue up to
            // here.
            self.history.go_on_as(own);
        }
        self.propagation.is_consumed = true;
    }

    /// Marks the link to the master as down.
    pub fn lose_master(&mut self) {
        debug_assert!(self.peers.master.is_some(), "a master has no link to lose");
        if self.peers.is_linked() {
            self.peers.link.down_since_s = Some(self.clock.now_ms / 1_000);
        }
        self.peers.link.state = LinkState::Connect;
    }

    /// A fresh id of a history: 40 hexadecimal digits.
    pub fn fresh_id(&mut self) -> String {
        (0..40).map(|_| char::from(b"0123456789abcdef"[self.dice.draw(16)])).collect()
    }

    /// Adds bytes to the replication stream.
    pub fn stream(&mut self, bytes: &[u8]) {
        self.history.add(bytes, self.config.backlog_bytes);
    }

    /// Begins to count the stream for the first replica.
    pub fn begin_stream(&mut self) {
        self.propagation.is_consumed = true;
        if !self.history.is_kept() {
            let id = self.fresh_id();
            self.history.begin(id);
        }
    }

    /// The replica to which a failover may turn now.
    pub fn caught_up(&self, to: Option<SocketAddrV4>) -> Option<SocketAddrV4> {
        let mut replicas = self.peers.replicas.iter().filter(|replica| replica.online);
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
        self.peers.replicas.iter().filter(has).count()
    }

    /// Whether the node's own file is synced up to an offset: `fsynced_reploff`.
    pub fn has_synced(&self, offset: u64) -> bool {
        self.config.append != Append::None && self.saving.synced >= offset
    }

    /// Counts the replicas whose last acknowledgement is recent enough, as `replicationCron` does.
    pub fn recount_good_replicas(&mut self) {
        let (now_s, lag) = (self.clock.now_ms / 1_000, self.config.min_replicas_max_lag);
        let good = |r: &&Replica| r.online && now_s.saturating_sub(r.acked_at_s) <= lag;
        let count = self.peers.replicas.iter().filter(good).count();
        self.peers.good_replicas = u32::try_from(count).unwrap_or(u32::MAX);
    }

    /// The current reply of WAIT or WAITAOF, and whether the quorum is reached.
    pub fn acknowledgement(&self, quorum: &Quorum) -> (Reply, bool) {
        let replicas = self.acknowledged(quorum);
        let count = Reply::Integer(i64::try_from(replicas).unwrap_or(i64::MAX));
        let enough = replicas >= quorum.replicas;
        let Some(local) = quorum.synced else { return (count, enough) };
        let own = self.has_synced(quorum.offset);
        (Reply::Array(vec![Reply::Integer(i64::from(own)), count]), enough && (own || !local))
    }

    /// Ends a blocking command as if it had timed out; whether there was one.
    pub fn end_wait(&mut self, id: u64) -> bool {
        let blocked = self.clients.get(id).and_then(|session| session.blocked.as_ref());
        let reply = match blocked {
            Some(Block::Keys(pop)) => pop.late.clone(),
            Some(Block::Acknowledgement(quorum)) => self.acknowledgement(quorum).0,
            _ => return false,
        };
        self.clients.answer_blocked(id, &reply)
    }

    /// Sends the reply to a session whose quorum is reached, or has timed out. Returns the quorum
    /// that it still waits for.
    pub fn look_for_quorum(&mut self, id: u64, is_late: bool) -> Option<Quorum> {
        let session = self.clients.get(id).filter(|session| session.replies.closing.is_none())?;
        let Some(Block::Acknowledgement(quorum)) = session.blocked else { return None };
        let (reply, is_there) = self.acknowledgement(&quorum);
        if !is_there && !is_late {
            return Some(quorum);
        }
        let session = self.clients.get_mut(id)?;
        session.blocked = None;
        session.replies.answer(&reply);
        None
    }
}
