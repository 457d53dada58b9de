//! Blocked clients: on keys, and by a pause.

use bytes::Bytes;

use crate::command::Call;
use crate::command::replication::{NO_FILE, acknowledgement};
use crate::frame::{Arguments, Reply};
use crate::keyspace::Key;
use crate::node::Node;
use crate::session::{Block, Closing, Quorum, Session};

impl Node {
    /// Runs after every request: marks watchers, serves sessions blocked on new keys.
    pub fn settle(&mut self) {
        if !self.clients.touched.is_empty() {
            self.clients.mark_watchers();
        }
        while !self.clients.ready.is_empty() {
            for (db, key) in std::mem::take(&mut self.clients.ready) {
                for id in self.clients.waiting.get(&(db, key.clone())).cloned().unwrap_or_default()
                {
                    self.serve_waiting(id, &key);
                }
            }
            self.clients.mark_watchers();
        }
    }

    /// Retries a blocked session's command for a key.
    fn serve_waiting(&mut self, id: u64, key: &Key) {
        let Some(slot) = self.clients.sessions.get_mut(&id) else { return };
        let Some(mut session) = slot.take() else { return };
        let Some(Block::Keys(pop)) = session.blocked.clone() else {
            self.clients.sessions.insert(id, Some(session));
            return;
        };
        let db = std::mem::replace(&mut session.db, pop.db);
        let mut call =
            Call { node: self, session: &mut session, args: &pop.args, command: pop.command };
        call.node.unit += 1;
        let served = (pop.serve)(&mut call, key);
        session.db = db;
        if let Some(reply) = &served {
            session.answer(reply);
        }
        self.clients.sessions.insert(id, Some(session));
        if served.is_some() {
            self.clients.unblock(id);
        }
    }

    /// Ends waits at their timeout, and the pause at its end.
    pub fn end_waits(&mut self) {
        if self.clients.pause.is_some_and(|pause| pause.until_ms <= self.now_ms) {
            self.clients.pause = None;
            self.resume_paused();
        }
        let now = self.now_ms;
        let late = |session: &&Session| match &session.blocked {
            Some(Block::Keys(pop)) => pop.until_ms.is_some_and(|until| until <= now),
            _ => false,
        };
        let late: Vec<u64> = self.clients.iter().filter(late).map(|session| session.id).collect();
        for id in late {
            self.end_wait(id);
        }
        let is_idle = |session: &&Session| {
            self.clients.idle_until_ms(session).is_some_and(|until| until <= now)
        };
        let idle: Vec<u64> = self.clients.iter().filter(is_idle).map(|s| s.id).collect();
        for id in idle {
            self.clients.close(id, Closing::AtOnce);
        }
    }

    /// Ends a blocking command as if it had timed out; whether there was one.
    pub fn end_wait(&mut self, id: u64) -> bool {
        let blocked = self.clients.get(id).and_then(|session| session.blocked.as_ref());
        let reply = match blocked {
            Some(Block::Keys(pop)) => pop.late.clone(),
            Some(Block::Acknowledgement(quorum)) => acknowledgement(self, quorum).0,
            _ => return false,
        };
        self.clients.answer_blocked(id, &reply)
    }

    /// Sends the reply to a session whose quorum is reached, or has timed out. Returns the quorum
    /// that it still waits for.
    pub fn look_for_quorum(&mut self, id: u64, is_late: bool) -> Option<Quorum> {
        let session = self.clients.get(id).filter(|session| session.closing.is_none())?;
        let Some(Block::Acknowledgement(quorum)) = session.blocked else { return None };
        let (reply, is_there) = acknowledgement(self, &quorum);
        if !is_there && !is_late {
            return Some(quorum);
        }
        let session = self.clients.get_mut(id)?;
        session.blocked = None;
        session.answer(&reply);
        None
    }

    /// Unblocks the sessions that wait for the append-only file, because the node no longer has
    /// one.
    pub fn end_waits_for_file(&mut self) {
        let waits = |session: &&Session| match session.blocked {
            Some(Block::Acknowledgement(quorum)) => quorum.synced == Some(true),
            _ => false,
        };
        let ids: Vec<u64> = self.clients.iter().filter(waits).map(|session| session.id).collect();
        for id in ids {
            self.clients.answer_blocked(id, &Reply::error(NO_FILE));
        }
    }

    /// Executes the requests that a pause delayed.
    pub fn resume_paused(&mut self) {
        for id in std::mem::take(&mut self.clients.held) {
            let waits = |session: &Session| matches!(session.blocked, Some(Block::Paused(_)));
            if !self.clients.get(id).is_some_and(waits) {
                continue;
            }
            if let Some(Block::Paused(args)) = self.clients.unblock(id) {
                self.request(id, &args);
            }
        }
    }

    /// Ends every wait with Redis's error for a node that became a replica.
    pub fn end_waits_by_role(&mut self) {
        let ids: Vec<u64> = self.clients.iter().map(|session| session.id).collect();
        for id in ids {
            let reply = Reply::error(
                "UNBLOCKED force unblock from blocking operation, instance state changed \
                 (master -> replica?)",
            );
            if self.clients.answer_blocked(id, &reply) {
                self.clients.close(id, Closing::AfterOutput);
            }
        }
    }
}

/// Delays a request for CLIENT PAUSE.
pub fn hold_back(session: &mut Session, args: &[Bytes]) -> Reply {
    let args: Arguments = args.to_vec();
    session.blocked = Some(Block::Paused(args));
    Reply::SILENCE
}
