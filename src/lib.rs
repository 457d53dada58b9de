//! lockstorm breaks Redis locks on purpose, and explains how.
//!
//! The modules stand in the order of the data path, lowest first:
//!
//! - [`refusal`], [`length`], [`field`], [`default`]: what a person typed, and need not type
//! - [`quantity`]: times and lists as a person reads them
//! - [`promise`]: what a lock promises and counts on, as data
//! - [`history`]: operations, key changes, accesses: all that a checker may see
//! - [`lock`]: what a lock is, the client it speaks through, a file an algorithm
//! - [`history`]: operations, key changes, accesses: all that a checker may see
//! - [`plan`]: a scenario with every choice made
//! - [`workload`]: what clients do under a lock, and the guarded resource
//! - `reading`: one reading of a history: holds, coverage, lives of keys
//! - [`ledger`]: which assumptions of a lock a run broke
//! - [`check`]: a file a verdict
//! - [`scenario`]: one question, as a file
//! - [`run`]: the only place that joins world and locks
//! - [`explain`]: the witness turned into a causal story
//! - [`explore`]: the same path in a loop: trial, hunt, shrink
//! - `report`: the same content, a file a format
//! - `custody`: who owned which key, from what nodes wrote down alone (feature `live`)
//! - `serve`: fake nodes on real ports (feature `live`)
//! - `confirm`: plans on real redis-servers (feature `live`)
//! - [`edge`]: what is outside: files, the terminal, exit codes, real time
//! - [`test`]: for users' own `#[test]` functions
//! - [`cli`]: the command line

/// What the README shows is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub mod check;
pub mod cli;
#[cfg(feature = "live")]
pub mod confirm;
#[cfg(feature = "live")]
mod custody;
pub mod default;
pub mod edge;
pub mod explain;
pub mod explore;
pub mod field;
pub mod history;
pub mod ledger;
pub mod length;
pub mod lock;
pub mod plan;
pub mod promise;
pub mod quantity;
mod reading;
pub mod refusal;
pub mod report;
pub mod run;
pub mod scenario;
#[cfg(feature = "live")]
pub mod serve;
pub mod test;
pub mod workload;
