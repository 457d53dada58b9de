//! The clients of a node: who is connected, who listens to what, who waits for a key, and what
//! the node tells them without being asked.
//!
//! A session is taken out while its request runs; what others are told meanwhile is put behind
//! their output, and the server is told whom to wake.

pub mod channels;
pub mod waits;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lockstorm_platform::trace::KeyChange;

use crate::frame::Reply;
use crate::keyspace::Key;
use crate::session::{Closing, Session};

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// By number; `None` while its request runs.
    sessions: BTreeMap<u64, Option<Box<Session>>>,
    last: u64,
    /// Who listens to a channel, in the order in which they began.
    channels: BTreeMap<Bytes, Vec<u64>>,
    patterns: BTreeMap<Bytes, Vec<u64>>,
    shards: BTreeMap<Bytes, Vec<u64>>,
    /// Who sees all commands.
    pub monitors: BTreeSet<u64>,
    /// Who watches a key.
    pub watchers: BTreeMap<(usize, Key), Vec<u64>>,
    /// Who waits for a key, in the order in which they came.
    waiting: BTreeMap<(usize, Key), Vec<u64>>,
    /// Those of them that are there: to overwrite one wakes nobody.
    present: BTreeSet<(usize, Key)>,
    /// Keys that were created while somebody waits for them.
    ready: Vec<(usize, Key)>,
    /// Watched keys that were touched by the present request.
    touched: Vec<(usize, Key)>,
    /// What a running script's own session was told: it stands before the script's reply.
    said: Vec<Reply>,
    /// What a running session sees of commands: it stands behind the reply.
    seen: Vec<Reply>,
    /// Whether what it hears stands there too, and not before the reply.
    hears_behind: bool,
    /// CLIENT PAUSE.
    pause: Option<Pause>,
    /// Whose requests it holds back, in the order in which they came.
    held: Vec<u64>,
    /// To whom something was told since the server last looked.
    woken: BTreeSet<u64>,
    /// Whether somebody has begun to wait since then.
    new_wait: bool,
    /// After how many seconds without a request a connection is closed; 0 is never.
    idle_s: u64,
}

/// What CLIENT PAUSE holds back, and until when in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Until when.
    pub until_ms: u64,
    /// Everything, or only what may change keys.
    pub all: bool,
}

impl Clients {
    /// Nobody yet; `hears_behind` is whether what a session hears while its command runs stands
    /// behind the reply.
    pub fn new(hears_behind: bool) -> Clients {
        Clients { hears_behind, ..Clients::default() }
    }

    /// Sessions in the order of their numbers; one whose request runs is not among them.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().flatten().map(Box::as_ref)
    }

    /// A session whose request does not run.
    pub fn get(&self, id: u64) -> Option<&Session> {
        self.sessions.get(&id)?.as_deref()
    }

    /// A session whose request does not run, to change it.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Session> {
        self.sessions.get_mut(&id)?.as_deref_mut()
    }

    /// Takes a connection up under a number of its own; that number. With so many others there is
    /// no room for it.
    pub fn connect(&mut self, session: Session, most: usize) -> u64 {
        self.last += 1;
        let id = self.last;
        let mut session = Session { id, ..session };
        if self.sessions.len() >= most {
            session.push(&Reply::error("ERR max number of clients reached"));
            session.closing = Some(Closing::AfterOutput);
        }
        self.new_wait |= self.idle_s > 0;
        self.sessions.insert(id, Some(Box::new(session)));
        id
    }

    /// Forgets a connection.
    pub fn disconnect(&mut self, id: u64) {
        self.unblock(id);
        let Some(Some(mut session)) = self.sessions.remove(&id) else { return };
        self.forget_interests(&mut session);
        self.woken.remove(&id);
    }

    /// Takes a session out while a request of it runs; `None` if one runs already, or nobody has
    /// this number.
    pub fn take(&mut self, id: u64) -> Option<Box<Session>> {
        self.sessions.get_mut(&id)?.take()
    }

    /// Puts a session back that was taken out.
    pub fn put_back(&mut self, session: Box<Session>) {
        let slot = self.sessions.insert(session.id, Some(session));
        debug_assert!(matches!(slot, Some(None)), "it was taken out, and nobody put it back");
    }

    /// How many are connected.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// How many have connected so far.
    pub fn received(&self) -> u64 {
        self.last
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Whom the server has to look at: something is to be sent, or the connection is to be closed.
    pub fn take_woken(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.woken)
    }

    /// What is held back at present.
    pub fn pause(&self) -> Option<Pause> {
        self.pause
    }

    /// Whether [`Clients::take_woken`] has something.
    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Closes connections that say nothing for more seconds than these; 0 closes none: `timeout`.
    pub fn close_idle_after(&mut self, idle_s: u64) {
        self.idle_s = idle_s;
        self.new_wait = true;
    }

    /// When a session has been idle for too long, in Unix milliseconds: never one that waits or
    /// listens or is closed already, and never the master or a replica.
    pub fn idle_until_ms(&self, session: &Session) -> Option<u64> {
        let is_spared = session.blocked.is_some()
            || session.closing.is_some()
            || session.from_master
            || session.monitors
            || session.announced.port > 0
            || !session.subscriptions.is_empty();
        // Redis counts whole seconds, and more of them than are allowed.
        let asked_s = session.since_ms[1] / 1000;
        let until_s = asked_s.saturating_add(self.idle_s).saturating_add(1);
        (self.idle_s > 0 && !is_spared).then(|| until_s.saturating_mul(1000))
    }

    /// Holds requests back from now on, or no longer.
    pub fn set_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
        self.new_wait = true;
    }

    /// Whether somebody has begun to wait since this was last asked.
    pub fn take_new_wait(&mut self) -> bool {
        std::mem::take(&mut self.new_wait)
    }

    /// Has the server look at a session.
    pub fn wake(&mut self, id: u64) {
        self.woken.insert(id);
    }

    /// Ends a connection from the node's side.
    pub fn close(&mut self, id: u64, how: Closing) {
        if let Some(session) = self.get_mut(id) {
            session.closing = Some(how);
            self.wake(id);
        }
    }

    /// Tells a session something without being asked.
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

    /// Shows a line to everybody who sees all commands.
    pub fn show(&mut self, running: &mut Session, line: &Reply) {
        for id in self.monitors.clone() {
            if running.id == id {
                self.seen.push(line.clone());
            } else {
                self.tell(id, running, line);
            }
        }
    }

    /// What the session of the script that has ended was told meanwhile.
    pub fn take_said(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.said)
    }

    /// What the running session sees, to stand behind its reply.
    pub fn take_seen(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.seen)
    }

    /// Notes that a key was changed, for those who watch it, and whether it was created, for those
    /// who wait for it.
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

    /// Notes that a key is about to be created anew, whatever was in its place: whoever waits for
    /// it looks again.
    pub fn renew(&mut self, db: usize, key: &Key) {
        if !self.present.is_empty() {
            self.present.remove(&(db, Key::clone(key)));
        }
    }

    /// Marks those who watch what was touched since this was last asked: their EXEC will refuse.
    pub fn mark_watchers(&mut self) {
        for place in std::mem::take(&mut self.touched) {
            for id in self.watchers.get(&place).cloned().unwrap_or_default() {
                if let Some(session) = self.get_mut(id) {
                    session.transaction.touch();
                }
            }
        }
    }

    /// Has a session watch no key any more.
    pub fn unwatch(&mut self, session: &mut Session) {
        for watched in session.transaction.unwatch() {
            let place = (watched.db, watched.key);
            if let Some(ids) = self.watchers.get_mut(&place) {
                ids.retain(|id| *id != session.id);
                if ids.is_empty() {
                    self.watchers.remove(&place);
                }
            }
        }
    }
}
