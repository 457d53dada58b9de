//! A setting that a person writes: its key, and the values that it takes. Code that reads or writes
//! the options of a lock iterates over its rows, which have this type.

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key, which is also the name of the setting in its type.
    pub key: &'static str,
    /// The type of its value.
    pub takes: Takes,
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// A text.
    Text,
    /// One of some words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number, not negative.
    Count,
    /// A whole number.
    Number,
    /// A length of time with its unit; stored in ns.
    Length,
}

impl Field {
    /// A row.
    pub const fn new(key: &'static str, takes: Takes) -> Field {
        Field { key, takes }
    }
}
