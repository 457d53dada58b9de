//! The clients of a node: connections, subscriptions, sessions blocked on keys, and push messages.
//!
//! A session is taken out of the map while its request runs; messages to others are appended to
//! their output buffers, and the server learns which sessions to wake.

pub mod channels;
pub mod told;
pub mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;

use bytes::Bytes;
use lockstorm_platform::trace::KeyChange;

use crate::clients::channels::{Channel, own_channels};
use crate::command::admission::apply;
use crate::command::word;
use crate::frame::Reply;
use crate::keyspace::{Key, Keyspace};
use crate::node::Node;
use crate::session::{Block, Closing, Pop, Session};

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
    pub monitors: BTreeSet<u64>,
    /// Sessions that watch a key.
    pub watchers: BTreeMap<(usize, Key), Vec<u64>>,
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
    pub fn new(hears_behind: bool) -> Clients {
        Clients { hears_behind, ..Clients::default() }
    }

    /// Sessions in order of id, except one whose request runs.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
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

    /// The number of connected clients.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// How many have connected so far.
    pub fn received(&self) -> u64 {
        self.last
    }

    /// Whether no client is connected.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Takes the sessions that the server must look at: with new output, or to be closed.
    pub fn take_woken(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.woken)
    }

    /// The current pause.
    pub fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// Whether [`Clients::take_woken`] would return any.
    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Closes connections that are idle for longer than this many seconds; 0 closes none:
    /// `timeout`.
    pub fn close_idle_after(&mut self, idle_s: u64) {
        self.idle_s = idle_s;
        self.new_wait = true;
    }

    /// When a session has been idle for too long, in Unix milliseconds: never one that is blocked,
    /// subscribed or already closing, and never the master or a replica.
    pub fn idle_until_ms(&self, session: &Session) -> Option<u64> {
        let is_spared = session.blocked.is_some()
            || session.closing.is_some()
            || session.from_master
            || session.monitors
            || session.announced.port > 0
            || !session.subscriptions.is_empty();
        // Redis counts whole seconds, and closes only when there are more than allowed.
        let asked_s = session.since_ms[1] / 1000;
        let until_s = asked_s.saturating_add(self.idle_s).saturating_add(1);
        (self.idle_s > 0 && !is_spared).then(|| until_s.saturating_mul(1000))
    }

    /// Starts or ends a pause.
    pub fn set_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
        self.new_wait = true;
    }

    /// Whether a session was blocked, or a deadline changed, since the last call.
    pub fn take_new_wait(&mut self) -> bool {
        std::mem::take(&mut self.new_wait)
    }

    /// Makes the server look at a session.
    pub fn wake(&mut self, id: u64) {
        self.woken.insert(id);
    }

    /// Closes a connection from the node's side.
    pub fn close(&mut self, id: u64, how: Closing) {
        if let Some(session) = self.get_mut(id) {
            session.closing = Some(how);
            self.wake(id);
        }
    }

    /// Sends a push message to a session.
    fn tell(&mut self, id: u64, running: &mut Session, reply: &Reply) {
        if running.id == id && self.hears_behind {
            self.seen.push(reply.clone());
        } else if running.id == id && running.script.is_some() {
            self.said.push(reply.clone());
        } else if running.id == id {
            running.push(reply);
        } else if let Some(session) = self.get_mut(id) {
            session.push(reply);
            self.wake(id);
        }
    }

    /// Sends a line to all sessions in MONITOR mode.
    pub fn show(&mut self, running: &mut Session, line: &Reply) {
        for id in self.monitors.clone() {
            if running.id == id {
                self.seen.push(line.clone());
            } else {
                self.tell(id, running, line);
            }
        }
    }

    /// Takes the push messages to the session of the script that has ended.
    pub fn take_said(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.said)
    }

    /// Notes that a key was changed, for sessions that watch it, and whether it was created, for
    /// sessions blocked on it.
    pub fn note(&mut self, db: usize, key: &Key, change: KeyChange) {
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
                self.present.remove(&place);
            }
            _ => {}
        }
    }

    /// Notes that a key is about to be created anew, whatever its previous value: sessions blocked
    /// on it check again.
    pub fn renew(&mut self, db: usize, key: &Key) {
        if !self.present.is_empty() {
            self.present.remove(&(db, Key::clone(key)));
        }
    }

    /// Marks the sessions that watch modified keys: their EXEC will refuse.
    fn mark_watchers(&mut self) {
        for place in std::mem::take(&mut self.touched) {
            for id in self.watchers.get(&place).cloned().unwrap_or_default() {
                if let Some(session) = self.get_mut(id) {
                    session.dirty = true;
                }
            }
        }
    }

    /// Removes all watched keys of a session.
    pub fn unwatch(&mut self, session: &mut Session) {
        for (db, key, _) in session.watched.drain(..) {
            let place = (db, key);
            if let Some(ids) = self.watchers.get_mut(&place) {
                ids.retain(|id| *id != session.id);
                if ids.is_empty() {
                    self.watchers.remove(&place);
                }
            }
        }
        session.dirty = false;
    }

    /// Blocks a session on its keys.
    fn enqueue(&mut self, id: u64, pop: &Pop, keyspace: &Keyspace) {
        self.new_wait = true;
        for key in &pop.keys {
            if keyspace.db(pop.db).get(key).is_some() {
                self.present.insert((pop.db, Key::clone(key)));
            }
            let ids = self.waiting.entry((pop.db, Key::clone(key))).or_default();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }

    fn dequeue(&mut self, id: u64, pop: &Pop) {
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
    fn unblock(&mut self, id: u64) -> Option<Block> {
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
                session.answer(reply);
            }
        }
        waits
    }

    /// Sends the reply to the caller of a killed script.
    pub fn answer_script(&mut self, id: u64, reply: &Reply) {
        if self.get(id).is_some_and(|session| matches!(session.blocked, Some(Block::Script))) {
            self.unblock(id);
            if let Some(session) = self.get_mut(id) {
                session.push(reply);
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
}

impl Node {
    /// Registers a connection; returns its id.
    pub fn connect(&mut self, addresses: [SocketAddrV4; 2]) -> u64 {
        self.clients.last += 1;
        let id = self.clients.last;
        let user = (!self.users.ask_for_password()).then(|| word("default"));
        let since_ms = [self.now_ms; 2];
        let mut session = Session { id, addresses, since_ms, user, ..Session::default() };
        if self.clients.sessions.len() >= self.limits.clients {
            session.push(&Reply::error("ERR max number of clients reached"));
            session.closing = Some(Closing::AfterOutput);
        }
        self.clients.new_wait |= self.clients.idle_s > 0;
        self.clients.sessions.insert(id, Some(Box::new(session)));
        id
    }

    /// Removes a connection.
    pub fn disconnect(&mut self, id: u64) {
        self.clients.unblock(id);
        let Some(Some(mut session)) = self.clients.sessions.remove(&id) else { return };
        self.forget_interests(&mut session);
        self.clients.woken.remove(&id);
    }

    /// Removes all watched keys and subscriptions of a session, and ends its MONITOR mode.
    pub fn forget_interests(&mut self, session: &mut Session) {
        self.clients.unwatch(session);
        self.clients.monitors.remove(&session.id);
        session.monitors = false;
        for kind in [Channel::Plain, Channel::Pattern, Channel::Shard] {
            for name in std::mem::take(own_channels(session, kind)) {
                own_channels(session, kind).insert(name.clone());
                self.clients.unlisten(session, kind, &name);
            }
        }
    }

    /// Executes a request of a connection. The reply is appended to its output buffer, unless the
    /// request blocks.
    ///
    /// # Panics
    /// If there is no such connection, or it is blocked.
    pub fn request(&mut self, id: u64, args: &[Bytes]) {
        let slot = self.clients.sessions.get_mut(&id).expect("it is connected");
        let mut session = slot.take().expect("it asks one thing at a time");
        assert!(session.blocked.is_none(), "a request waits");
        session.since_ms[1] = self.now_ms;
        self.unit += 1;
        let reply = apply(self, &mut session, args);
        let asks = session.last_command.is_some_and(|command| command.name == "ASKING");
        session.asking &= asks || session.queued.is_some();
        let waits = session.blocked.is_some();
        if !waits {
            session.answer(&reply);
        }
        for line in std::mem::take(&mut self.clients.seen) {
            if session.closing.is_none() {
                session.push(&line);
            }
        }
        match &session.blocked {
            None | Some(Block::Script | Block::Acknowledgement(_)) => {}
            Some(Block::Keys(pop)) => self.clients.enqueue(id, pop, &self.keyspace),
            Some(Block::Paused(_)) => self.clients.held.push(id),
        }
        self.clients.sessions.insert(id, Some(session));
        self.settle();
        if self.clients.pause.is_some_and(|pause| pause.until_ms <= self.now_ms) {
            self.clients.pause = None;
            self.resume_paused();
        }
    }
}
