//! A breach of an assumption, and the value from which breaches are computed.

use serde::{Deserialize, Serialize};

use crate::ledger::part::Part;
use crate::ledger::site::{Site, bound_of};
use crate::promise::Bounded;
use crate::reading::history::Reading;

/// A reading of a history, with the figures against which it is compared.
pub struct Ledger<'a> {
    /// The reading.
    pub reading: &'a Reading<'a>,
    /// The figures.
    pub site: &'a Site,
}

/// An assumption that a run exceeded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Breach {
    /// The assumption.
    pub what: Bounded,
    /// The parts of the plan that caused it, in order. Empty if the history does not show a cause.
    pub parts: Vec<Part>,
    /// The bound that the lock tolerates, in the unit of [`Bounded`].
    pub bound: u64,
    /// The actual figure, in the same unit.
    pub actual: u64,
}

/// A breach of an assumption, if the lock makes it and `actual` is above its bound.
pub fn above(ledger: &Ledger, what: Bounded, actual: u64, parts: Vec<Part>) -> Option<Breach> {
    let bound = bound_of(&ledger.site.assumes, what)?;
    (actual > bound).then_some(Breach { what, parts, bound, actual })
}
