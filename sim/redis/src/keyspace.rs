//! The data of a node: databases of keys with values and expiry times.
//!
//! Pure data, without clock, command or role: the caller decides whether an expired key is hidden
//! or deleted. All orders are fixed, so that nothing depends on a hash.

pub(crate) mod hash;
pub mod limits;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod sorted_set;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use bytes::Bytes;
use lockstorm_platform::trace::{KeyName, hash_of};

use crate::keyspace::hash::Hash;
use crate::keyspace::limits::Limits;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::sorted_set::SortedSet;

/// A key. Shared between the entries and the order of expiry times.
pub(crate) type Key = Rc<[u8]>;

/// How many databases a node has.
pub(crate) const DATABASES: usize = 16;

/// A key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Bytes. A copy of its own: never a slice of network input.
    String(Bytes),
    /// Fields and their values.
    Hash(Hash),
    /// Elements from left to right.
    List(List),
    /// Members.
    Set(Set),
    /// Members with scores.
    SortedSet(SortedSet),
}

impl Value {
    /// Its name in TYPE.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::String(_) => "string",
            Value::Hash(_) => "hash",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::SortedSet(_) => "zset",
        }
    }

    /// How many elements it has; a string has one.
    pub(crate) fn len(&self) -> usize {
        match self {
            Value::String(_) => 1,
            Value::Hash(hash) => hash.len(),
            Value::List(list) => list.0.len(),
            Value::Set(set) => set.len(),
            Value::SortedSet(set) => set.len(),
        }
    }

    /// The members of a collection: each with its value, or with the bits of its score. `None` for
    /// a string.
    pub(crate) fn members(&self) -> Option<Vec<(Bytes, Bytes)>> {
        let alone = |member: Bytes| (member, Bytes::new());
        let scored = |(member, score): (&Bytes, f64)| {
            (member.clone(), Bytes::copy_from_slice(&score.to_bits().to_be_bytes()))
        };
        Some(match self {
            Value::String(_) => return None,
            Value::Hash(hash) => {
                hash.in_order().into_iter().map(|(f, v)| (f.clone(), v.clone())).collect()
            }
            Value::List(list) => list.0.iter().cloned().map(alone).collect(),
            Value::Set(set) => set.iter().map(alone).collect(),
            Value::SortedSet(set) => set.iter().map(scored).collect(),
        })
    }

    /// The same number for values that are equal for a client.
    pub(crate) fn digest(&self) -> u64 {
        let Some(mut members) = self.members() else {
            let Value::String(bytes) = self else { return 0 };
            return hash_of(bytes);
        };
        if !matches!(self, Value::List(_)) {
            members.sort_unstable();
        }
        let mut bytes = self.kind().as_bytes().to_vec();
        for part in members.iter().flat_map(|(member, value)| [member, value]) {
            bytes.extend_from_slice(&part.len().to_le_bytes());
            bytes.extend_from_slice(part);
        }
        hash_of(&bytes)
    }

    /// Takes the encoding that its size requires.
    pub(crate) fn settle(&mut self, limits: &Limits) {
        match self {
            Value::Hash(hash) => hash.settle(limits.hash),
            Value::Set(set) => set.settle(limits.integers),
            Value::SortedSet(set) => set.settle(limits.sorted_set),
            Value::String(_) | Value::List(_) => {}
        }
    }

    /// Whether it has no element left, so that its key must be deleted.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The encoding of a string, as determined by the command that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kept {
    /// As an integer, or embedded in the object header, where possible.
    #[default]
    Fitted,
    /// As text, even if it is an integer: INCRBYFLOAT.
    Text,
    /// Separate from the object header, however short: it was changed in place.
    Raw,
}

/// What is stored under a key.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// Its encoding, if it is a string.
    pub(crate) kept: Kept,
    /// When it was last used, in Unix milliseconds.
    pub(crate) used_ms: Cell<u64>,
    until_ms: Option<u64>,
}

/// Equal by what a client can read.
impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (&self.value, self.until_ms) == (&other.value, other.until_ms)
    }
}

impl Eq for Entry {}

impl Entry {
    fn new(value: Value, until_ms: Option<u64>) -> Entry {
        Entry { value, kept: Kept::Fitted, used_ms: Cell::new(0), until_ms }
    }

    /// Its expiry time, in Unix milliseconds of the node's wall clock.
    pub(crate) fn until_ms(&self) -> Option<u64> {
        self.until_ms
    }

    /// Whether it has expired: strictly later, at its expiry time it still exists (`keyIsExpired`).
    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until| now_ms > until)
    }
}

/// One numbered database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    entries: BTreeMap<Key, Entry>,
    ends: BTreeSet<(u64, Key)>,
}

impl Database {
    /// The entry of a key, expired or not.
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The value of a key, to change it in place.
    pub(crate) fn value_mut(&mut self, key: &[u8]) -> Option<&mut Value> {
        self.entry_mut(key).map(|entry| &mut entry.value)
    }

    /// The entry of a key, to change all of it but its expiry time.
    pub(crate) fn entry_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// Sets the value and the expiry time of a key.
    pub(crate) fn set(&mut self, key: &[u8], value: Value, until_ms: Option<u64>) -> Key {
        // The allocation of the first name is kept, because the order of ends shares it.
        let shared = match self.entries.get_key_value(key) {
            Some((shared, old)) => {
                let (shared, old_end) = (Key::clone(shared), old.until_ms);
                self.move_end(&shared, old_end, until_ms);
                shared
            }
            None => {
                let shared = Key::from(key);
                self.move_end(&shared, None, until_ms);
                shared
            }
        };
        self.entries.insert(Key::clone(&shared), Entry::new(value, until_ms));
        debug_assert!(self.ends.len() <= self.entries.len(), "only a key has an expiry time");
        shared
    }

    /// Sets or removes the expiry time of a key; `None` if there is no such key.
    pub(crate) fn set_end(&mut self, key: &[u8], until_ms: Option<u64>) -> Option<Key> {
        let (shared, entry) = self.entries.get_key_value(key)?;
        let (shared, old) = (Key::clone(shared), entry.until_ms);
        self.move_end(&shared, old, until_ms);
        self.entries.get_mut(key)?.until_ms = until_ms;
        Some(shared)
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8]) -> Option<(Key, Entry)> {
        let (shared, entry) = self.entries.remove_entry(key)?;
        self.move_end(&shared, entry.until_ms, None);
        debug_assert!(self.ends.len() <= self.entries.len(), "only a key has an expiry time");
        Some((shared, entry))
    }

    /// The key's shared name.
    pub(crate) fn shared(&self, key: &[u8]) -> Option<Key> {
        self.entries.get_key_value(key).map(|(shared, _)| Key::clone(shared))
    }

    fn move_end(&mut self, key: &Key, from: Option<u64>, to: Option<u64>) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            let known = self.ends.remove(&(from, Key::clone(key)));
            debug_assert!(known, "every end of an entry is in the order of ends");
        }
        if let Some(to) = to {
            let is_new = self.ends.insert((to, Key::clone(key)));
            debug_assert!(is_new, "a key has one expiry time");
        }
    }

    /// How many keys there are, expired ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many keys have an expiry time.
    pub(crate) fn ending(&self) -> usize {
        self.ends.len()
    }

    /// Keys and entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }
}

/// All databases of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    databases: Vec<Database>,
}

impl Default for Keyspace {
    fn default() -> Keyspace {
        Keyspace { databases: vec![Database::default(); DATABASES] }
    }
}

impl Keyspace {
    /// A database by its number.
    pub fn db(&self, number: usize) -> &Database {
        &self.databases[number]
    }

    /// A database by its number, to change it.
    pub fn db_mut(&mut self, number: usize) -> &mut Database {
        &mut self.databases[number]
    }

    /// Swaps two databases.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        self.databases.swap(one, other);
    }

    /// Databases with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Database)> {
        self.databases.iter().enumerate()
    }

    /// The names of all keys, database by database.
    pub fn keys(&self) -> Vec<KeyName> {
        let name = |db, key: &Key| KeyName::new(db, Key::clone(key));
        self.iter().flat_map(|(db, keys)| keys.iter().map(move |(key, _)| name(db, key))).collect()
    }

    /// The earliest expiry time of any key, in Unix milliseconds.
    pub(crate) fn next_end_ms(&self) -> Option<u64> {
        self.databases.iter().filter_map(|db| db.ends.first()).map(|(end, _)| *end).min()
    }

    /// Keys that have expired at `now_ms`, with their database, earliest first.
    pub fn expired(&self, now_ms: u64) -> Vec<(usize, Key)> {
        // Keys that end at `now_ms` still exist; the empty key is the first of those.
        let until = Bound::Excluded((now_ms, Key::from(&[][..])));
        let ended = |db: &Database| -> Vec<Key> {
            db.ends.range((Bound::Unbounded, until.clone())).map(|(_, key)| key.clone()).collect()
        };
        self.iter().flat_map(|(n, db)| ended(db).into_iter().map(move |key| (n, key))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::hash::Hash;
    use super::{Keyspace, Value};
    use bytes::Bytes;

    #[test]
    fn a_digest_tells_apart_what_a_client_does() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let string = |text| Value::String(bytes(text)).digest();
        let hash = |fields: [(&'static str, &'static str); 2]| {
            let mut hash = Hash::default();
            for (field, value) in fields {
                hash.set(field.as_bytes(), bytes(value));
            }
            Value::Hash(hash).digest()
        };
        assert_eq!(string("a"), string("a"));
        assert_ne!(string("a"), string("b"));
        assert_eq!(hash([("a", "1"), ("b", "2")]), hash([("b", "2"), ("a", "1")]));
        assert_ne!(hash([("a", "1"), ("b", "2")]), hash([("a", "2"), ("b", "1")]));
        assert_ne!(hash([("a", "1"), ("b", "")]), hash([("a", ""), ("b", "1")]));
    }

    #[test]
    fn a_key_is_there_at_its_end_and_expired_one_later() {
        let mut keyspace = Keyspace::default();
        keyspace.db_mut(0).set(b"k", Value::String(Bytes::new()), Some(10));
        assert_eq!(keyspace.next_end_ms(), Some(10));
        assert!(!keyspace.db(0).get(b"k").unwrap().is_expired(10));
        assert!(keyspace.expired(10).is_empty());
        assert!(keyspace.db(0).get(b"k").unwrap().is_expired(11));
        assert_eq!(keyspace.expired(11).len(), 1);
        keyspace.db_mut(0).set_end(b"k", Some(20));
        assert_eq!((keyspace.next_end_ms(), keyspace.expired(11).len()), (Some(20), 0));
        keyspace.db_mut(0).set(b"k", Value::String(Bytes::new()), None);
        assert_eq!((keyspace.next_end_ms(), keyspace.db(0).ending()), (None, 0));
        keyspace.db_mut(0).remove(b"k");
        assert!(keyspace.db(0).is_empty());
    }
}
