//! What a sentence rests on: events of a history.

use serde::Serialize;

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
