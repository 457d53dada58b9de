//! A reading of a history: callers, the operations of each grant, deaths, clock readings, all holds
//! with their coverage, all lives of the lock's key. It is computed once; checks judge it,
//! explanations describe it. It judges nothing itself.
//!
//! - [`history`]: the reading itself
//! - [`index`]: the operations of each grant, deaths and halts
//! - [`moment`]: points in time that can be compared
//! - [`clocks`]: the readings of a host's clocks
//! - [`hold`]: the interval in which a caller believes that it owns the lock
//! - [`tenure`]: nested grants of one caller, as one
//! - [`key_life`]: the lives of the lock's key on each node
//! - [`handed_on`]: which keys a command handed to a waiter
//! - [`presence`]: when a key keeps others out
//! - [`tries`]: the requests of an operation, by its tries
//! - [`deadlock`]: callers of groups that wait for each other
//! - [`misuse`]: what a caller does that its lock cannot answer for
//! - [`leaders`]: when no master could have served the lock
//!
//! A history is derived from a trace, which is also read here:
//!
//! - [`members`]: what happened to the members of a collection
//! - [`provenance`]: what caused a change of a key, however the change reached its node

mod clocks;
pub(crate) mod deadlock;
pub(crate) mod handed_on;
pub(crate) mod history;
pub(crate) mod hold;
pub(crate) mod index;
pub(crate) mod key_life;
pub(crate) mod leaders;
pub(crate) mod members;
mod misuse;
pub(crate) mod moment;
mod presence;
pub(crate) mod provenance;
pub(crate) mod queue;
pub(crate) mod tenure;
pub(crate) mod tries;
