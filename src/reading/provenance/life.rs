//! One life of a key on a node, with its creator.

use std::collections::BTreeMap;

use lockstorm_platform::trace::KeyName;

/// One life of a key. `C` is what counts as a cause: an operation, a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life<C> {
    /// Its creator; `None` if it is not known.
    pub creator: Option<C>,
    /// When it ends on the wall clock of the node, in Unix milliseconds, if it ends.
    pub until_ms: Option<u64>,
}

/// The keys that live on a node.
pub type Keys<C> = BTreeMap<KeyName, Life<C>>;

impl<C: Clone + PartialEq> Life<C> {
    /// Whether it is the same life as an earlier one on the node. If no creator is known, two lives
    /// are the same while their expiry times are equal.
    pub fn continues(&self, earlier: &Life<C>) -> bool {
        let is_known = self.creator.is_some();
        self.creator == earlier.creator && (is_known || self.until_ms == earlier.until_ms)
    }
}

/// Puts a life under a key, or none.
pub fn put<C>(keys: &mut Keys<C>, key: &KeyName, life: Option<Life<C>>) {
    match life {
        Some(life) => drop(keys.insert(key.clone(), life)),
        None => drop(keys.remove(key)),
    }
}
