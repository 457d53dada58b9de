//! Blocked sessions: on keys, on acknowledgements, by a pause.

use crate::clients::Clients;
use crate::frame::{Arguments, Reply};
use crate::keyspace::{Key, Keyspace};
use crate::session::{Block, Closing, Pop, Session};

impl Clients {
    /// Registers what a session is blocked on after the request that it has just made.
    pub fn begin_wait(&mut self, session: &Session, keyspace: &Keyspace) {
        match &session.blocked {
            None | Some(Block::Script | Block::Acknowledgement(_)) => {}
            Some(Block::Keys(pop)) => self.enqueue(session.id, pop, keyspace),
            Some(Block::Paused(_)) => self.held.push(session.id),
        }
    }

    /// Blocks a session on its keys.
    fn enqueue(&mut self, id: u64, pop: &Pop, keyspace: &Keyspace) {
        self.new_wait = true;
        for key in &pop.keys {
            if keyspace.db(pop.db).get(key).is_some() {
                self.present.insert((pop.db, Key::clone(key)));
            }
            let ids = self.waiting.entry((pop.db, Key::clone(key))).or_default();
            // A request may repeat a key, and is served only once.
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        debug_assert!(self.present.len() <= self.waiting.len(), "only awaited keys are tracked");
    }

    fn dequeue(&mut self, id: u64, pop: &Pop) {
        debug_assert!(
            pop.keys.iter().all(|key| self.waiting.contains_key(&(pop.db, Key::clone(key)))),
            "a blocked session is queued for each of its keys"
        );
        for key in &pop.keys {
            let place = (pop.db, Key::clone(key));
            if let Some(ids) = self.waiting.get_mut(&place) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.waiting.remove(&place);
                    self.present.remove(&place);
                }
            }
        }
    }

    /// Unblocks a session; returns what it was blocked on.
    pub fn unblock(&mut self, id: u64) -> Option<Block> {
        let block = self.get_mut(id)?.blocked.take()?;
        if let Block::Keys(pop) = &block {
            self.dequeue(id, pop);
        }
        self.wake(id);
        Some(block)
    }

    /// Ends a blocking command with this reply; whether there was one.
    pub fn answer_blocked(&mut self, id: u64, reply: &Reply) -> bool {
        let by_command =
            |block: &Block| matches!(block, Block::Keys(_) | Block::Acknowledgement(_));
        let waits = self.get(id).is_some_and(|s| s.blocked.as_ref().is_some_and(by_command));
        if waits {
            self.unblock(id);
            if let Some(session) = self.get_mut(id) {
                session.replies.answer(reply);
            }
        }
        waits
    }

    /// Sends the reply to the caller of a killed script.
    pub fn answer_script(&mut self, id: u64, reply: &Reply) {
        if self.get(id).is_some_and(|session| matches!(session.blocked, Some(Block::Script))) {
            self.unblock(id);
            if let Some(session) = self.get_mut(id) {
                session.replies.push(reply);
            }
        }
    }

    /// The next timeout of a blocked session, in Unix milliseconds.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let until = |session: &Session| match &session.blocked {
            Some(Block::Keys(pop)) => pop.until_ms,
            _ => None,
        };
        let pause = self.pause.map(|pause| pause.until_ms);
        let idle = self.iter().filter_map(|session| self.idle_until_ms(session));
        self.iter().filter_map(until).chain(pause).chain(idle).min()
    }

    /// Keys that were created while sessions are blocked on them.
    pub fn take_ready(&mut self) -> Vec<(usize, Key)> {
        std::mem::take(&mut self.ready)
    }

    /// Sessions blocked on a key, in order of arrival.
    pub fn waiting_for(&self, place: &(usize, Key)) -> Vec<u64> {
        self.waiting.get(place).cloned().unwrap_or_default()
    }

    /// Sessions whose wait for keys has timed out by now, in Unix milliseconds.
    pub fn late(&self, now_ms: u64) -> Vec<u64> {
        let late = |session: &&Session| match &session.blocked {
            Some(Block::Keys(pop)) => pop.until_ms.is_some_and(|until| until <= now_ms),
            _ => false,
        };
        self.iter().filter(late).map(|session| session.id).collect()
    }

    /// Closes the connections that have been idle for too long.
    pub fn close_idle(&mut self, now_ms: u64) {
        let is_idle =
            |session: &&Session| self.idle_until_ms(session).is_some_and(|until| until <= now_ms);
        let idle: Vec<u64> = self.iter().filter(is_idle).map(|session| session.id).collect();
        for id in idle {
            self.close(id, Closing::AtOnce);
        }
    }

    /// Ends the pause at its deadline; returns whether it has ended.
    pub fn end_pause(&mut self, now_ms: u64) -> bool {
        let is_over = self.pause.is_some_and(|pause| pause.until_ms <= now_ms);
        if is_over {
            self.pause = None;
        }
        is_over
    }

    /// Takes the sessions whose requests a pause has delayed, in order of arrival.
    pub fn take_held(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.held)
    }

    /// Takes the delayed request of a session, which is no longer blocked.
    pub fn release(&mut self, id: u64) -> Option<Arguments> {
        let waits = |session: &Session| matches!(session.blocked, Some(Block::Paused(_)));
        self.get(id).filter(|session| waits(session))?;
        match self.unblock(id) {
            Some(Block::Paused(args)) => Some(args),
            _ => None,
        }
    }

    /// The node no longer has an append-only file: ends every WAITAOF that requires it, with an
    /// error.
    pub fn end_waits_for_file(&mut self, reply: &Reply) {
        let waits = |session: &&Session| match session.blocked {
            Some(Block::Acknowledgement(quorum)) => quorum.synced == Some(true),
            _ => false,
        };
        let ids: Vec<u64> = self.iter().filter(waits).map(|session| session.id).collect();
        for id in ids {
            self.answer_blocked(id, reply);
        }
    }

    /// Ends every wait with Redis's error for a node that became a replica.
    pub fn end_waits_by_role(&mut self) {
        let ids: Vec<u64> = self.iter().map(|session| session.id).collect();
        for id in ids {
            let reply = Reply::error(
                "UNBLOCKED force unblock from blocking operation, instance state changed \
                 (master -> replica?)",
            );
            if self.answer_blocked(id, &reply) {
                self.close(id, Closing::AfterOutput);
            }
        }
    }
}
