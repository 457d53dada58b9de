//! lockstorm breaks Redis locks on purpose, and explains how.
//!
//! The modules stand in the order of the data path, lowest first:
//!
//! - [`history`]: operations, key changes, accesses: all that a checker may see
//! - [`lock`]: a file an algorithm
//! - [`plan`]: a scenario with every choice made
//! - [`workload`]: what clients do under a lock, and the guarded resource
//! - [`check`]: a file a verdict

pub mod check;
pub mod history;
pub mod lock;
pub mod plan;
pub mod workload;
