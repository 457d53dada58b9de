//! What every process of a simulation stands on: its machine, time, chance, and a trace of what
//! happened.
//!
//! The modules below stand in the order of the data path, lowest first. This crate runs nothing:
//! a world does, and each of its engines is a [`host::Platform`].
//!
//! - [`rng`]: every draw of chance, by its address
//! - [`time`]: instants, clock readings, the three clocks of a host
//! - [`trace`]: what happened, in order, and the hash over it
//! - [`fault`]: what a world suffers, as data
//! - [`network`]: how long messages take
//! - [`host`]: what a process sees of its machine
//! - [`order`]: what a fault that acts by command asks for, and who carries it out

pub mod fault;
pub mod host;
pub mod network;
pub mod order;
pub mod rng;
pub mod time;
pub mod trace;
