//! One reading of a history: who called, which operations belong to which grant, who died when,
//! what clocks read, all holds with what covers them, all lives of the lock's key. It is computed
//! once; checks judge by it, explanations tell it. It judges nothing itself.
//!
//! - [`moment`]: points in time that can be compared
//! - [`clocks`]: what a host's clock read when
//! - [`index`]: what is looked up in a history again and again
//! - [`hold`]: from when to when a caller believes that it owns the lock
//! - [`tenure`]: grants of one caller that nest, as one
//! - [`incarnation`]: one life of the lock's key on one node
//! - [`history`]: all of it, as one value
//! - [`leaders`]: when no node led that could have served the lock
//!
//! A history is made from a trace, and that is read here too:
//!
//! - [`provenance`]: who caused a change of a key, however it came to its node

mod clocks;
pub(crate) mod history;
pub(crate) mod hold;
pub(crate) mod incarnation;
pub(crate) mod index;
pub(crate) mod leaders;
pub(crate) mod moment;
pub(crate) mod provenance;
pub(crate) mod tenure;
