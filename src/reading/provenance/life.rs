//! One life of a key on a node, with its creator.

use std::collections::BTreeMap;

use lockstorm_platform::trace::KeyName;

/// One life of a key. `C` is the type of a cause: an operation or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life<C> {
    /// Its creator; `None` if it is not known.
    pub creator: Option<C>,
    /// What last gave it its value, if that is known.
    pub writer: Option<C>,
    /// Its expiry time on the wall clock of the node, in Unix milliseconds, if it expires.
    pub until_ms: Option<u64>,
}

/// The keys that exist on a node.
pub type Keys<C> = BTreeMap<KeyName, Life<C>>;

impl<C: Clone + PartialEq> Life<C> {
    /// Whether it is the same life as an earlier one on the node. If no creator is known, two lives
    /// are the same while their expiry times are equal.
    pub fn continues(&self, earlier: &Life<C>) -> bool {
        let is_known = self.creator.is_some();
        self.creator == earlier.creator && (is_known || self.until_ms == earlier.until_ms)
    }

    /// Whether it has expired by a reading of the node's wall clock, in Unix milliseconds.
    pub fn is_over(&self, wall_ms: u64) -> bool {
        self.until_ms.is_some_and(|until| until < wall_ms)
    }
}

/// Sets or removes the life of a key.
pub fn put<C>(keys: &mut Keys<C>, key: &KeyName, life: Option<Life<C>>) {
    match life {
        Some(life) => drop(keys.insert(key.clone(), life)),
        None => drop(keys.remove(key)),
    }
}
