//! A breach of an assumption, and what breaches are looked for in.

use serde::{Deserialize, Serialize};

use crate::ledger::part::Part;
use crate::ledger::site::{Site, bound_of};
use crate::promise::Bounded;
use crate::reading::history::Reading;

/// A reading of a history with what it is held against.
pub struct Ledger<'a> {
    /// What happened.
    pub reading: &'a Reading<'a>,
    /// What it is held against.
    pub site: &'a Site,
}

/// One way in which a run went beyond an assumption.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Breach {
    /// What the lock counts on.
    pub what: Bounded,
    /// What did it, in order. Empty: nothing in the history says what.
    pub parts: Vec<Part>,
    /// What the lock withstands, in the unit of [`Bounded`].
    pub bound: u64,
    /// How much it was, in the same unit.
    pub actual: u64,
}

/// A breach of an assumption, if the lock makes it and `actual` is above its bound.
pub fn above(ledger: &Ledger, what: Bounded, actual: u64, parts: Vec<Part>) -> Option<Breach> {
    let bound = bound_of(&ledger.site.assumes, what)?;
    (actual > bound).then_some(Breach { what, parts, bound, actual })
}
