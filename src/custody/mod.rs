//! Who owned which key on which node, from what the nodes wrote down alone; and what in it was
//! wrong.
//!
//! Nobody tells here what a client believed: a claim is made about tokens, leases, requests and
//! connections. What could as well be innocent is called unproven. Facts are kept for keys that
//! live and for leases that still run, so that a service can run for ever.
//!
//! - [`asker`]: what a request says about its sender
//! - [`incarnation`]: one life of a key, with its owner
//! - [`ledger`]: what is known of every node
//! - [`change`]: what a change of a key means for its owner
//! - [`clash`]: leases that overlap
//! - [`entry`]: what an entry of the trace adds
//! - [`finding`]: what was wrong, and what it comes to
//! - [`line`]: the same as lines of JSON
//! - [`text`]: the same for a person

mod asker;
mod change;
mod clash;
mod entry;
pub(crate) mod finding;
mod incarnation;
pub(crate) mod ledger;
pub(crate) mod line;
pub(crate) mod text;

#[cfg(test)]
mod tests;
