//! ACL, AUTH and HELLO: who may ask.

use crate::redis::command::Family;

/// What is here, by name.
pub const FAMILY: Family = &[];
