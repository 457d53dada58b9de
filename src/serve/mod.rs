//! `serve`: fake nodes on real ports, for any client, with faults typed while they run.
//!
//! - [`setup`]: the nodes, and which parts of a scenario apply to them
//! - [`order`]: a typed order, as a value
//! - [`desk`]: the admin port
//! - [`service`]: the running world: it executes orders and reads the nodes' records

pub mod desk;
pub mod order;
pub mod service;
pub mod setup;
