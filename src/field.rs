//! A setting that a person writes: its key, and what it takes. Whoever reads or writes a table goes
//! by its rows of these.

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key, which is the name of the setting in its type too.
    pub key: &'static str,
    /// What it takes.
    pub takes: Takes,
}

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// A text.
    Text,
    /// One of some words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// How many: a whole number, not negative.
    Count,
    /// A whole number.
    Number,
    /// A length of time with its unit, which is kept in ns.
    Length,
}

impl Field {
    /// A row.
    pub const fn new(key: &'static str, takes: Takes) -> Field {
        Field { key, takes }
    }
}
