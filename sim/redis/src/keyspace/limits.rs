//! Maximum sizes of values, words and buffers: the settings of CONFIG as numbers.

use std::sync::LazyLock;

use crate::settings::Settings;

/// The limits of a small encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Small {
    /// Maximum number of entries.
    pub(crate) entries: usize,
    /// Maximum length of each entry in bytes.
    pub(crate) longest: usize,
}

/// All limits. A value that exceeds those of its small encoding leaves it for good; this is checked
/// when the value is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `hash-max-listpack-entries` and `hash-max-listpack-value`.
    pub hash: Small,
    /// `zset-max-listpack-entries` and `zset-max-listpack-value`.
    pub(crate) sorted_set: Small,
    /// `set-max-intset-entries`.
    pub(crate) integers: usize,
    /// `list-max-listpack-size`: maximum elements of a list node, or a size class if negative.
    pub(crate) piece: i64,
    /// `proto-max-bulk-len`: maximum length of a string, and of a word of a request.
    pub(crate) word: usize,
    /// `maxclients`.
    pub(crate) clients: usize,
    /// `client-query-buffer-limit`: maximum size of the query buffer.
    pub(crate) requests: usize,
}

static DEFAULT: LazyLock<Limits> = LazyLock::new(|| Limits::of(&Settings::default()));

impl Default for Limits {
    fn default() -> Limits {
        *DEFAULT
    }
}

impl Limits {
    /// The limits in these settings.
    pub(crate) fn of(settings: &Settings) -> Limits {
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
