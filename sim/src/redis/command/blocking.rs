//! Commands that wait for a list or a sorted set.

use crate::redis::command::Family;

/// What is here, by name.
pub const FAMILY: Family = &[];
