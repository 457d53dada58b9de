//! lockstorm breaks Redis locks on purpose, and explains how.
//!
//! The modules stand in the order of the data path, lowest first:
//!
//! - [`refusal`], [`length`]: what a person typed
//! - [`history`]: operations, key changes, accesses: all that a checker may see
//! - [`lock`]: a file an algorithm
//! - [`plan`]: a scenario with every choice made
//! - [`workload`]: what clients do under a lock, and the guarded resource
//! - [`scenario`]: one question, as a file
//! - [`check`]: a file a verdict
//! - [`explain`]: the witness turned into a causal story
//! - [`report`]: the same content, a file a format

pub mod check;
pub mod explain;
pub mod history;
pub mod length;
pub mod lock;
pub mod plan;
pub mod refusal;
pub mod report;
pub mod scenario;
pub mod workload;
