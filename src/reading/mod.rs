//! One reading of what happened, shared by all that judge or tell it.
//!
//! - [`provenance`]: who caused a change of a key, however it came to its node

pub mod provenance;
