//! A bounded map that forgets its oldest entries, and its limits.

use std::collections::{BTreeMap, VecDeque};

/// How much is kept. A forgotten cause is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of commands of streams, and of changes of each node for its files.
    pub places: usize,
    /// The number of copies of all keys: snapshots in transit, and files of each kind of each node.
    pub copies: usize,
}

/// A bounded map that forgets its oldest entries.
pub struct Recent<K, V> {
    entries: BTreeMap<K, V>,
    /// The keys in insertion order.
    order: VecDeque<K>,
    most: usize,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    /// An empty map that keeps at most `most` entries.
    pub fn bounded(most: usize) -> Recent<K, V> {
        Recent { entries: BTreeMap::new(), order: VecDeque::new(), most }
    }

    /// Inserts a value.
    pub fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// Removes and returns the value of a key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.entries.remove(key)?;
        self.order.retain(|other| other != key);
        Some(value)
    }
}
