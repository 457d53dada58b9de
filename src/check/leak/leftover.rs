//! A key without an owner.

use crate::check::case::Case;
use crate::history::{Key, OpId};
use crate::reading::key_life::KeyLife;
use crate::reading::moment::Moment;

/// A key from the moment on at which it had no owner.
pub struct Leftover<'a> {
    /// Its life.
    pub key: &'a KeyLife<'a>,
    /// The acquire whose key it is.
    pub owner: OpId,
    /// The moment from which on it had no owner.
    pub from: Moment,
    /// Whether the owner tried to free it.
    pub freed: bool,
    /// When a release first reported that it was removed.
    pub denied: Option<Moment>,
    /// When a release first changed it in place: from then on it may say that the lock is free.
    pub marked: Option<Moment>,
    /// The changes of the same key, or member, from its birth to its end.
    pub changes: Vec<&'a Key>,
}

impl Leftover<'_> {
    /// The last change since the key was set, at a moment that `is_within` accepts.
    pub fn last_change(&self, is_within: impl Fn(Moment) -> bool) -> Option<&Key> {
        let within = self.changes.partition_point(|change| is_within(change.at.into()));
        within.checked_sub(1).map(|last| self.changes[last])
    }
}

/// The changes of a life from its birth to its end.
pub fn changes<'a>(case: &Case<'a>, life: &KeyLife) -> Vec<&'a Key> {
    let later = case.history.keys[life.born..].iter();
    let later = later.take_while(|change| Moment::from(change.at) <= life.to);
    later.filter(|change| case.is_of_life(life, change)).collect()
}
