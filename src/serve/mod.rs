//! `serve`: fake nodes on real ports, for clients of any kind, with faults typed while they run.
//!
//! - [`setup`]: which nodes there are, and what of a scenario they can suffer
//! - [`order`]: what was typed, as a value
//! - [`desk`]: the port at which orders are taken
//! - [`service`]: the running world: it obeys orders and hears what the nodes write down

pub mod desk;
pub mod order;
pub mod service;
pub mod setup;
