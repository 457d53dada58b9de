//! What a sentence rests on: events of a history.

use serde::Serialize;

use crate::check::verdict::Violation;
use crate::history::OpId;

/// An event of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// An operation, by its number.
    Op(OpId),
    /// A change of a key, by its index.
    Key(usize),
    /// An access at the resource, by its index.
    Access(usize),
    /// A fault interval, by its index.
    FaultInterval(usize),
    /// A request, by its index.
    Request(usize),
    /// A role change or an observation, by its index.
    Sighting(usize),
}

/// The events that a violation cites.
pub fn cited(violation: &Violation) -> Vec<Evidence> {
    let ops = violation.ops.iter().copied().map(Evidence::Op);
    let keys = violation.keys.iter().copied().map(Evidence::Key);
    ops.chain(keys).chain(violation.accesses.iter().copied().map(Evidence::Access)).collect()
}
