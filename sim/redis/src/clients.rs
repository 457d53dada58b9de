//! The clients of a node: connections, subscriptions, sessions blocked on keys, and push messages.
//!
//! A session is taken out of the map while its request runs; messages to others are appended to
//! their output buffers, and the server learns which sessions to wake.

pub(crate) mod channels;
pub(crate) mod waits;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lockstorm_platform::trace::KeyChange;

use crate::frame::Reply;
use crate::keyspace::Key;
use crate::session::{Closing, Session};

/// All clients of a node.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// By id; `None` while the session's request runs.
    sessions: BTreeMap<u64, Option<Box<Session>>>,
    last: u64,
    /// Subscribers of a channel, in order of subscription.
    channels: BTreeMap<Bytes, Vec<u64>>,
    patterns: BTreeMap<Bytes, Vec<u64>>,
    shards: BTreeMap<Bytes, Vec<u64>>,
    /// Sessions in MONITOR mode.
    pub(crate) monitors: BTreeSet<u64>,
    /// Sessions that watch a key.
    pub(crate) watchers: BTreeMap<(usize, Key), Vec<u64>>,
    /// Sessions blocked on a key, in order of arrival.
    waiting: BTreeMap<(usize, Key), Vec<u64>>,
    /// Those of these keys that exist: to overwrite one unblocks no session.
    present: BTreeSet<(usize, Key)>,
    /// Keys that were created while sessions are blocked on them.
    ready: Vec<(usize, Key)>,
    /// Watched keys that the current request modified.
    touched: Vec<(usize, Key)>,
    /// Push messages to a running script's own session: they precede the script's reply.
    said: Vec<Reply>,
    /// MONITOR lines for the running session: they follow the reply.
    seen: Vec<Reply>,
    /// Whether push messages to it follow the reply too, instead of preceding it.
    hears_behind: bool,
    /// The current CLIENT PAUSE.
    pause: Option<Pause>,
    /// The sessions whose requests it delays, in order of arrival.
    held: Vec<u64>,
    /// Sessions with new output since the server last looked.
    woken: BTreeSet<u64>,
    /// Whether a session was blocked, or a deadline changed, since then.
    new_wait: bool,
    /// After how many seconds without a request a connection is closed; 0 means never.
    idle_s: u64,
}

/// The mode of CLIENT PAUSE, and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Its end in Unix milliseconds.
    pub until_ms: u64,
    /// Whether it delays all requests, or only those that may change keys.
    pub all: bool,
}

impl Clients {
    /// No clients yet; `hears_behind` is whether push messages to a session follow the reply of the
    /// command that it is running.
    pub(crate) fn new(hears_behind: bool) -> Clients {
        Clients { hears_behind, ..Clients::default() }
    }

    /// Sessions in order of id, except one whose request runs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().flatten().map(Box::as_ref)
    }

    /// A session whose request is not running.
    pub fn get(&self, id: u64) -> Option<&Session> {
        self.sessions.get(&id)?.as_deref()
    }

    /// A session whose request is not running, to change it.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Session> {
        self.sessions.get_mut(&id)?.as_deref_mut()
    }

    /// Registers a connection under a new id, which is returned. If `most` others are connected, it
    /// is refused and closed.
    pub(crate) fn connect(&mut self, session: Session, most: usize) -> u64 {
        self.last += 1;
        let id = self.last;
        let mut session = Session { id, ..session };
        if self.sessions.len() >= most {
            session.replies.push(&Reply::error("ERR max number of clients reached"));
            session.replies.closing = Some(Closing::AfterOutput);
        }
        self.new_wait |= self.idle_s > 0;
        debug_assert!(!self.sessions.contains_key(&id), "ids of sessions are never reused");
        // A refused client is registered too: its error is sent before the close.
        self.sessions.insert(id, Some(Box::new(session)));
        id
    }

    /// Removes a connection.
    pub fn disconnect(&mut self, id: u64) {
        debug_assert!(
            !matches!(self.sessions.get(&id), Some(None)),
            "no request of a closed connection runs"
        );
        // Before the removal: `unblock` reads from the session which keys it is queued for.
        self.unblock(id);
        let Some(Some(mut session)) = self.sessions.remove(&id) else { return };
        self.forget_interests(&mut session);
        self.woken.remove(&id);
    }

    /// Takes a session out while its request runs; `None` if a request of it is running already, or
    /// there is no such session.
    pub(crate) fn take(&mut self, id: u64) -> Option<Box<Session>> {
        self.sessions.get_mut(&id)?.take()
    }

    /// Puts back a session that was taken out.
    pub(crate) fn put_back(&mut self, session: Box<Session>) {
        let slot = self.sessions.insert(session.id, Some(session));
        debug_assert!(matches!(slot, Some(None)), "it was taken out, and nobody put it back");
    }

    /// The number of connected clients.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// How many clients have connected so far.
    pub(crate) fn received(&self) -> u64 {
        self.last
    }

    /// Takes the sessions that the server must check: those with new output, and those to be
    /// closed.
    pub fn take_woken(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.woken)
    }

    /// The current pause.
    pub fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// Whether [`Clients::take_woken`] would return any.
    pub(crate) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Closes connections that are idle for longer than this many seconds; 0 closes none:
    /// `timeout`.
    pub(crate) fn close_idle_after(&mut self, idle_s: u64) {
        self.idle_s = idle_s;
        self.new_wait = true;
    }

    /// When a session has been idle for too long, in Unix milliseconds: never one that is blocked,
    /// subscribed or already closing, and never the master or a replica.
    pub(crate) fn idle_until_ms(&self, session: &Session) -> Option<u64> {
        let is_spared = session.blocked.is_some()
            || session.replies.closing.is_some()
            || session.replication.from_master
            || session.monitors
            || session.replication.announced.port > 0
            || !session.subscriptions.is_empty();
        // Redis counts whole seconds, and closes only when there are more than allowed.
        let used_s = session.client.since_ms[1] / 1000;
        let until_s = used_s.saturating_add(self.idle_s).saturating_add(1);
        (self.idle_s > 0 && !is_spared).then(|| until_s.saturating_mul(1000))
    }

    /// Starts or ends a pause.
    pub(crate) fn set_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
        self.new_wait = true;
    }

    /// Whether a session was blocked, or a deadline changed, since the last call.
    pub(crate) fn take_new_wait(&mut self) -> bool {
        std::mem::take(&mut self.new_wait)
    }

    /// Makes the server check a session.
    pub(crate) fn wake(&mut self, id: u64) {
        self.woken.insert(id);
    }

    /// Closes a connection from the node's side.
    pub(crate) fn close(&mut self, id: u64, how: Closing) {
        if let Some(session) = self.get_mut(id) {
            session.replies.closing = Some(how);
            self.wake(id);
        }
    }

    /// Sends a push message to a session.
    fn send_push(&mut self, id: u64, running: &mut Session, reply: &Reply) {
        if running.id == id && self.hears_behind {
            self.seen.push(reply.clone());
        } else if running.id == id && running.script.is_some() {
            self.said.push(reply.clone());
        } else if running.id == id {
            running.replies.push(reply);
        } else if let Some(session) = self.get_mut(id) {
            session.replies.push(reply);
            self.wake(id);
        }
    }

    /// Sends a line to all sessions in MONITOR mode.
    pub(crate) fn show(&mut self, running: &mut Session, line: &Reply) {
        for id in self.monitors.clone() {
            if running.id == id {
                self.seen.push(line.clone());
            } else {
                self.send_push(id, running, line);
            }
        }
    }

    /// Takes the push messages to the session of the script that has ended.
    pub(crate) fn take_said(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.said)
    }

    /// Takes what the running session sees as push messages after its reply.
    pub(crate) fn take_seen(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.seen)
    }

    /// Notes that a key was changed, for sessions that watch it, and whether it was created, for
    /// sessions blocked on it.
    pub(crate) fn note(&mut self, db: usize, key: &Key, change: KeyChange) {
        if self.watchers.is_empty() && self.waiting.is_empty() {
            return;
        }
        let place = (db, Key::clone(key));
        if self.watchers.contains_key(&place) {
            self.touched.push(place.clone());
        }
        if !self.waiting.contains_key(&place) {
            return;
        }
        match change {
            KeyChange::Set if self.present.insert(place.clone()) => self.ready.push(place),
            KeyChange::Deleted | KeyChange::Expired | KeyChange::Evicted => {
                // From now on a change creates the key, and that unblocks.
                self.present.remove(&place);
            }
            _ => {}
        }
    }

    /// Notes that a key is about to be recreated, whatever its previous value: sessions blocked on
    /// it check again.
    pub(crate) fn renew(&mut self, db: usize, key: &Key) {
        if !self.present.is_empty() {
            self.present.remove(&(db, Key::clone(key)));
        }
    }

    /// Marks the sessions that watch keys modified since the last call: their EXEC will refuse.
    pub(crate) fn mark_watchers(&mut self) {
        for place in std::mem::take(&mut self.touched) {
            for id in self.watchers.get(&place).cloned().unwrap_or_default() {
                if let Some(session) = self.get_mut(id) {
                    session.transaction.touch();
                }
            }
        }
    }

    /// Removes all watched keys of a session.
    pub(crate) fn unwatch(&mut self, session: &mut Session) {
        for watched in session.transaction.unwatch() {
            let place = (watched.db, watched.key);
            debug_assert!(self.watchers.contains_key(&place), "what a session watches is indexed");
            if let Some(ids) = self.watchers.get_mut(&place) {
                ids.retain(|id| *id != session.id);
                if ids.is_empty() {
                    self.watchers.remove(&place);
                }
            }
        }
    }
}
