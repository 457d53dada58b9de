//! Collections: created with their first element, deleted with their last.

use lockstorm_platform::trace::KeyChange;

use crate::call::{Call, Outcome};
use crate::errors::WRONGTYPE;
use crate::frame::Reply;
use crate::keyspace::set::Set;
use crate::keyspace::sorted_set::SortedSet;
use crate::keyspace::{Kept, Value};

/// Maximum number of picks where an element may be picked repeatedly: Redis would run out of
/// memory.
pub const MAX_PICKS: u64 = 1 << 20;

impl Call<'_> {
    /// Records the addition of elements to a key. The command itself propagates it.
    pub fn note_grown(&mut self, key: &[u8], created: bool) {
        let Some(shared) = self.node.keyspace.db(self.session.db).shared(key) else { return };
        if created {
            self.event(b'n', "new", key);
        }
        self.note(shared, if created { KeyChange::Set } else { KeyChange::Changed });
    }

    /// Records the removal of elements from a key: publishes `event`, and deletes an empty key.
    pub fn note_shrunk(&mut self, key: &[u8], class: u8, event: &str) {
        self.event(class, event, key);
        let Some(value) = self.node.keyspace.db_mut(self.session.db).value_mut(key) else { return };
        if value.is_empty() {
            self.remove(key);
            self.event(b'g', "del", key);
        } else {
            self.note_grown(key, false);
        }
    }

    /// Sets a key to a result, for the STORE commands: an old value is overwritten, and deleted if
    /// the result is empty. Replies with the number of elements.
    pub fn store(&mut self, key: &[u8], value: Value, class: u8, event: &str) -> Outcome {
        let parts = value.len();
        let there = self.entry(key).is_some();
        if parts > 0 {
            let shared = self.node.keyspace.db_mut(self.session.db).set(key, value, None);
            if !there {
                self.event(b'n', "new", key);
            }
            self.note(shared, KeyChange::Set);
            self.event(class, event, key);
            self.propagate_verbatim();
        } else if there {
            self.remove(key);
            self.event(b'g', "del", key);
            self.propagate_verbatim();
        }
        Ok(Reply::count(parts))
    }

    /// Creates a key that is known to be missing.
    pub fn create(&mut self, key: &[u8], value: Value, until_ms: Option<u64>, kept: Kept) {
        let db = self.node.keyspace.db_mut(self.session.db);
        let shared = db.set(key, value, until_ms);
        if let Some(entry) = db.entry_mut(key) {
            entry.kept = kept;
        }
        self.event(b'n', "new", key);
        // Before `note`, which serves blocked clients only for a key that did not exist.
        self.node.clients.renew(self.session.db, &shared);
        self.note(shared, KeyChange::Set);
    }

    /// The set of a key.
    pub fn set_at(&mut self, key: &[u8]) -> Result<Option<&Set>, Reply> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Set(set)) => Ok(Some(set)),
            Some(_) => Err(Reply::error(WRONGTYPE)),
        }
    }

    /// The set of a key that is known to hold one, to change it.
    pub fn set_at_mut(&mut self, key: &[u8]) -> Option<&mut Set> {
        match self.node.keyspace.db_mut(self.session.db).value_mut(key) {
            Some(Value::Set(set)) => Some(set),
            _ => None,
        }
    }

    /// The sorted set of a key.
    pub fn sorted_set(&mut self, key: &[u8]) -> Result<Option<&SortedSet>, Reply> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::SortedSet(set)) => Ok(Some(set)),
            Some(_) => Err(Reply::error(WRONGTYPE)),
        }
    }

    /// The sorted set of a key that is known to hold one, to change it.
    pub fn sorted_set_mut(&mut self, key: &[u8]) -> Option<&mut SortedSet> {
        match self.node.keyspace.db_mut(self.session.db).value_mut(key) {
            Some(Value::SortedSet(set)) => Some(set),
            _ => None,
        }
    }
}
