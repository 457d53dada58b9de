//! MEMORY, LATENCY, SLOWLOG: what a node tells of its own work.

use crate::redis::command::Family;

/// What is here, by name.
pub const FAMILY: Family = &[];
