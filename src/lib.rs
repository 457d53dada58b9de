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
//! - [`run`]: the only place that joins world and locks
//! - [`reading`]: one reading of a history: holds, coverage, lives of keys
//! - [`check`]: a file a verdict
//! - [`ledger`]: which assumptions of a lock a run broke
//! - [`explain`]: the witness turned into a causal story
//! - [`explore`]: the same path in a loop: trial, hunt, shrink
//! - [`report`]: the same content, a file a format
//! - `custody`: who owned which key, from what nodes wrote down alone (feature `live`)
//! - `serve`: fake nodes on real ports (feature `live`)
//! - `confirm`: plans on real redis-servers (feature `live`)
//! - [`test`]: for users' own `#[test]` functions
//! - [`cli`]: the command line: the only room with files, terminal and environment

/// What the README shows is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub mod check;
pub mod cli;
#[cfg(feature = "live")]
pub mod confirm;
#[cfg(feature = "live")]
pub mod custody;
pub mod explain;
pub mod explore;
pub mod history;
pub mod ledger;
pub mod length;
pub mod lock;
pub mod plan;
pub mod reading;
pub mod refusal;
pub mod report;
pub mod run;
pub mod scenario;
#[cfg(feature = "live")]
pub mod serve;
pub mod test;
pub mod workload;
