//! A deterministic world: machines, disks, links and faults, and the engines that drive it.
//!
//! This crate knows no Redis, lock, history or verdict: it runs the processes that it is given and
//! records a trace.
//!
//! - [`engine`]: what drives a world
//! - [`world`]: builds machines, applies faults, runs to the end

pub mod engine;
pub mod world;
