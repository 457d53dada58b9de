//! lockstorm breaks Redis locks on purpose, and explains how.
//!
//! The modules stand in the order of the data path, lowest first:
//!
//! - [`refusal`], [`length`]: what a person typed
//! - [`history`]: operations, key changes, accesses: all that a checker may see
//! - [`lock`]: a file an algorithm
//! - [`plan`]: a scenario with every choice made
//! - [`scenario`]: one question, as a file
//! - [`check`]: a file a verdict
//! - [`cli`]: the command line: the only room with files, terminal and environment

pub mod check;
pub mod cli;
pub mod history;
pub mod length;
pub mod lock;
pub mod plan;
pub mod refusal;
pub mod scenario;
