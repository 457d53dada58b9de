//! What callers of a lock do wrong: nothing unless a plan says so.

use serde::{Deserialize, Serialize};

/// What every caller does wrong with the answers of its lock, or with what it finds under it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuggyCaller {
    /// Nothing.
    #[default]
    None,
    /// It releases what it was refused, as code does that releases in `finally`.
    ReleasesRefused,
    /// It works although it was refused, and releases afterwards.
    IgnoresRefusal,
    /// It works on after it was notified of the loss.
    IgnoresLoss,
    /// It takes an empty segment for an empty stock, and does not look into the others.
    OneSegment,
}

impl BuggyCaller {
    /// The words of a scenario for each.
    pub const WORDS: [&str; 5] =
        ["none", "releases-refused", "ignores-refusal", "ignores-loss", "one-segment"];
}
