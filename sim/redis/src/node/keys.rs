//! Keys of a node: which are live, how one changes, and which clients are notified.

use bytes::Bytes;
use lockstorm_platform::trace::KeyChange;

use crate::effects::{Change, PropagatedCommand};
use crate::frame::Arguments;
use crate::keyspace::{Entry, Key};
use crate::node::Node;
use crate::session::{Channel, Session};

impl Node {
    /// The live entry of a key. A master deletes an expired one and propagates that to its
    /// replicas; a replica only hides it; the master's commands never see a key as expired.
    pub fn live(&mut self, session: &mut Session, key: &[u8]) -> Option<&Entry> {
        let expired = self.keyspace.db(session.db).get(key)?.is_expired(self.clock.now_ms);
        // The file and the master's stream contain their own deletions of expired keys.
        if expired && !self.startup.replays && !session.replication.from_master {
            if self.peers.master.is_none() && !self.is_paused() {
                self.expire(session, key);
            }
            return None;
        }
        self.keyspace.db(session.db).get(key)
    }

    /// Notes for the meter that the size of a key may have changed.
    fn weigh(&mut self, db: usize, key: &Key) {
        if let Some(memory) = &mut self.usage.meter {
            memory.note(db, key);
        }
    }

    /// Deletes an expired key of the session's database.
    pub fn expire(&mut self, session: &mut Session, key: &[u8]) {
        debug_assert!(self.peers.master.is_none(), "a replica never expires by itself");
        debug_assert!(
            self.keyspace
                .db(session.db)
                .get(key)
                .is_some_and(|entry| entry.is_expired(self.clock.now_ms)),
            "only a key whose time is over expires"
        );
        self.drop_key(session.db, key, KeyChange::Expired, true);
        self.figures.expired_keys += 1;
        self.notify(session, b'x', "expired", key);
    }

    /// Removes a key because of `change`, expiry or eviction, and propagates DEL, or UNLINK where
    /// it is freed lazily.
    pub fn drop_key(&mut self, db: usize, key: &[u8], change: KeyChange, by_node: bool) -> bool {
        let Some((key, _)) = self.keyspace.db_mut(db).remove(key) else { return false };
        if self.propagation.is_consumed {
            let lazy = match change {
                KeyChange::Evicted => "lazyfree-lazy-eviction",
                _ => "lazyfree-lazy-expire",
            };
            let name = self.settings.deletion(lazy);
            self.propagate(db, by_node, || vec![name, Bytes::copy_from_slice(&key)]);
        }
        self.clients.note(db, &key, change);
        self.weigh(db, &key);
        self.effects.changes.push(Change { db, key, change, until_ms: None, by_node });
        true
    }

    /// Adds a command to the effects, if they have a consumer.
    pub fn propagate(&mut self, db: usize, by_node: bool, command: impl FnOnce() -> Arguments) {
        if self.propagation.is_consumed && !self.startup.replays {
            let (command, unit) = (command(), self.propagation.unit);
            self.effects.commands.push(PropagatedCommand { db, command, by_node, unit });
        }
    }

    /// Notes a change of a key, with its current expiry time.
    pub fn note(&mut self, db: usize, key: Key, change: KeyChange) {
        let entry = self.keyspace.db_mut(db).entry_mut(&key);
        let until_ms = entry.and_then(|entry| {
            entry.value.settle(&self.limits);
            entry.used_ms.set(self.clock.now_ms);
            entry.until_ms()
        });
        self.clients.note(db, &key, change);
        self.weigh(db, &key);
        self.effects.changes.push(Change { db, key, change, until_ms, by_node: false });
    }

    /// Deletes all expired keys: the active expire cycle of a master.
    pub fn expire_all(&mut self) {
        if self.peers.master.is_some()
            || self.startup.replays
            || self.is_paused()
            || self.active_expire_disabled
        {
            return;
        }
        let mut nobody = Session::default();
        for (db, key) in self.keyspace.expired(self.clock.now_ms) {
            nobody.db = db;
            self.expire(&mut nobody, &key);
        }
    }

    /// Publishes a keyspace notification: `notify-keyspace-events`.
    pub fn notify(&mut self, session: &mut Session, class: u8, event: &str, key: &[u8]) {
        let flags = self.config.notify.as_bytes();
        let wants = |flag: u8| flags.contains(&flag);
        if flags.is_empty() || !(wants(class) || (wants(b'A') && !matches!(class, b'm' | b'n'))) {
            return;
        }
        let db = session.db;
        if wants(b'K') {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.clients.publish(session, Channel::Plain, &channel, event.as_bytes());
        }
        if wants(b'E') {
            let channel = format!("__keyevent@{db}__:{event}");
            self.clients.publish(session, Channel::Plain, channel.as_bytes(), key);
        }
    }
}
