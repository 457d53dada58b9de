//! What every process of a simulation uses: its machine, time, randomness, and the trace of events.
//!
//! The modules follow the order of the data path, lowest first. This crate runs nothing: a world
//! does, and each engine of a world implements [`host::Platform`].
//!
//! - [`rng`]: every random draw, by its address
//! - [`time`]: instants, clock readings, the three clocks of a host
//! - [`trace`]: events in order, and the hash over them
//! - [`fault`]: faults, as data
//! - [`network`]: message latency
//! - [`host`]: what a process sees of its machine
//! - [`order`]: faults that act by command, and the operator that carries them out

pub mod fault;
pub mod host;
pub mod network;
pub mod order;
pub mod rng;
pub mod time;
pub mod trace;
