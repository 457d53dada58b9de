//! A deterministic world with a Redis in it: machines, clocks, disks, a network and faults.
//!
//! The modules below stand in the order of the data path, lowest first. This crate knows no
//! lock, no history and no verdict: it runs processes and writes a trace.
//!
//! - [`rng`]: every draw of chance, by its address
//! - [`time`]: instants, clock readings, the three clocks of a host
//! - [`trace`]: what happened, in order, and the hash over it
//! - [`fault`]: what a world suffers, as data
//! - [`platform`]: what a process sees of its machine
//! - [`engine`]: what drives a world
//! - [`world`]: builds machines, strikes with faults, runs to the end
//! - [`redis`]: the fake Redis node

pub mod engine;
pub mod fault;
pub mod network;
pub mod platform;
pub mod redis;
pub mod rng;
pub mod time;
pub mod trace;
pub mod world;
