//! How large things may be: what CONFIG says, as numbers that are at hand.

use std::sync::LazyLock;

use crate::settings::Settings;

/// The bounds of a small form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Small {
    /// How many entries there may be.
    pub entries: usize,
    /// How many bytes each of them may have.
    pub longest: usize,
}

/// All bounds. A value that is beyond that of its small form leaves it for good, and is looked at
/// when it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `hash-max-listpack-entries` and `hash-max-listpack-value`.
    pub hash: Small,
    /// `zset-max-listpack-entries` and `zset-max-listpack-value`.
    pub sorted_set: Small,
    /// `set-max-intset-entries`.
    pub integers: usize,
    /// `list-max-listpack-size`: elements of a piece of a list, or a class of sizes if negative.
    pub piece: i64,
    /// `proto-max-bulk-len`: the longest string, and the longest word of a request.
    pub word: usize,
    /// `maxclients`.
    pub clients: usize,
    /// `client-query-buffer-limit`: bytes of requests that are not yet executed.
    pub requests: usize,
}

static DEFAULT: LazyLock<Limits> = LazyLock::new(|| Limits::of(&Settings::default()));

impl Default for Limits {
    fn default() -> Limits {
        *DEFAULT
    }
}

impl Limits {
    /// What the settings say.
    pub fn of(settings: &Settings) -> Limits {
        let bound = |name| usize::try_from(settings.number(name)).unwrap_or(usize::MAX);
        let small = |entries, longest| Small { entries: bound(entries), longest: bound(longest) };
        Limits {
            hash: small("hash-max-listpack-entries", "hash-max-listpack-value"),
            sorted_set: small("zset-max-listpack-entries", "zset-max-listpack-value"),
            integers: bound("set-max-intset-entries"),
            piece: settings.number("list-max-listpack-size"),
            word: bound("proto-max-bulk-len"),
            clients: bound("maxclients"),
            requests: bound("client-query-buffer-limit"),
        }
    }
}
