//! What drives a world. Each engine has its own runtime, timers, connections and process lifecycle
//! behind [`lockstorm_platform::host::Platform`]. The parts of a world are in [`state`].
//!
//! Lowest first:
//!
//! - [`counters`]: what faults touched
//! - [`disk`], [`flow`], [`links`]: files, one direction of a connection, the network model
//! - [`state`], [`transit`]: the machines of a world, and how a message passes between them
//! - [`interface`]: what a world requires of an engine
//! - [`tasks`]: what the engines on a tokio runtime share
//! - [`event`], [`turmoil`], [`live`]: the engines
//! - [`kind`]: the engines by their names

pub(crate) mod counters;
pub(crate) mod disk;
pub(crate) mod event;
pub(crate) mod flow;
pub mod interface;
pub mod kind;
pub mod links;
#[cfg(feature = "live")]
pub mod live;
pub mod state;
#[cfg(any(feature = "turmoil", feature = "live"))]
pub mod tasks;
pub mod transit;
#[cfg(feature = "turmoil")]
pub mod turmoil;
