//! A key without an owner.

use crate::history::OpId;
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
}
