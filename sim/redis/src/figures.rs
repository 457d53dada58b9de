//! The counters that INFO shows.

use std::collections::BTreeMap;

use crate::frame::Reply;

/// Counters of INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Commands executed.
    pub executed: u64,
    /// Keys that expired.
    pub expired_keys: u64,
    /// Errors by their first word.
    pub errors: BTreeMap<String, u64>,
    /// Keys that were evicted.
    pub evicted_keys: u64,
    /// Requested resynchronisations: full, partial, and refused partial ones.
    pub syncs: [u64; 3],
}

impl Figures {
    /// Counts an error by its first word.
    pub fn count_error(&mut self, reply: &Reply) {
        let Reply::Error(text) = reply else { return };
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let word = String::from_utf8_lossy(&text[..end]).into_owned();
        *self.errors.entry(word).or_default() += 1;
    }
}
