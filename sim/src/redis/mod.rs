//! The fake Redis node: what it understands, keeps, writes to disk and tells its replicas.
//!
//! In the order of the data path. Everything but [`server`] is a function of values; a node
//! reaches its machine through [`crate::platform`] alone and knows no engine.

pub mod command;
pub mod frame;
pub mod keyspace;
pub mod node;
pub mod script;
