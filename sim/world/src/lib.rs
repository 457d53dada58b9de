//! A deterministic world: machines, disks, links and faults, and the engines that drive it.
//!
//! This crate knows neither Redis nor any lock, no history and no verdict: it runs processes that
//! are given to it, and writes a trace.
//!
//! - [`engine`]: what drives a world
//! - [`world`]: builds machines, strikes with faults, runs to the end

pub mod engine;
pub mod world;
