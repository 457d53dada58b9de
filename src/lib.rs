//! lockstorm breaks Redis locks on purpose, and explains how.
//!
//! The modules stand in the order of the data path, lowest first:
//!
//! - [`history`]: operations, key changes, accesses: all that a checker may see
//! - [`lock`]: a file an algorithm

//! - [`plan`]: a scenario with every choice made
//! - [`check`]: a file a verdict
//! - [`explain`]: the witness turned into a causal story
//! - [`report`]: a file a format

pub mod check;
pub mod explain;
pub mod history;
pub mod lock;
pub mod plan;
pub mod report;
