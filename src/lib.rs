//! lockstorm breaks Redis locks on purpose, and explains how.
//!
//! The modules are in the order of the data path, lowest first:
//!
//! - [`refusal`], `length`: user input
//! - [`history`]: operations, key changes, accesses: all that a checker may see
//! - [`promise`]: what a lock promises and assumes, as data
//! - [`lock`]: one file per algorithm
//! - [`plan`]: a scenario with every choice made
//! - [`workload`]: what clients do under a lock, and the guarded resource
//! - [`scenario`]: one question, as a file
//! - [`run`]: the only place that joins world and locks
//! - `reading`: one reading of a history: holds, coverage, lives of keys
//! - [`ledger`]: which assumptions of a lock a run breached
//! - [`check`]: one file per verdict
//! - [`explain`]: the evidence of a violation as a causal story
//! - [`explore`]: the same path again for one plan: class, causes, thresholds, remedies
//! - [`hunt`]: the same path for many plans: draw, group, shrink
//! - [`report`]: the same contents, one file per format
//! - `custody`: who owned which key, derived from node records alone (feature `live`)
//! - `serve`: fake nodes on real ports (feature `live`)
//! - `confirm`: plans on real redis-servers (feature `live`)
//! - [`production`]: the locks on real nodes, in a user's service (feature `live`)
//! - [`test`]: for users' own `#[test]` functions
//! - [`own`]: all that a lock of one's own needs, in one place
//! - `edge`: files, the terminal, the environment, exit codes, real time
//! - [`cli`]: the command line
//!
//! [`own`], [`test`], [`lock`], [`plan`], [`promise`], [`history`] and [`production`] are for
//! users, and so is what [`own`] names from other modules: `tests/golden/surface.txt` lists all of
//! it. Everything else is public for this project's own tests, and may change.

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub mod check;
pub mod cli;
#[cfg(feature = "live")]
mod confirm;
#[cfg(feature = "live")]
mod custody;
mod default;
mod edge;
pub mod explain;
pub mod explore;
mod field;
pub mod history;
pub mod hunt;
pub mod ledger;
mod length;
pub mod lock;
pub mod name;
pub mod own;
pub mod plan;
#[cfg(feature = "live")]
pub mod production;
pub mod promise;
pub mod quantity;
mod reading;
pub mod refusal;
pub mod report;
pub mod run;
pub mod scenario;
#[cfg(feature = "live")]
mod serve;
pub mod test;
pub mod workload;
