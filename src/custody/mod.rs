//! Who owned which key on which node, derived from the nodes' records alone; and what was wrong.
//!
//! What a client believed is unknown here: claims are about tokens, leases, requests and
//! connections. A finding that may be innocent is called unproven. Facts are kept only for living
//! keys and running leases, so that a service can run forever.
//!
//! - [`requester`]: what a request reveals about its sender
//! - [`life`]: one life of a key, with its owner
//! - [`state`]: what is known of every node
//! - [`change`]: what a change of a key means for its owner
//! - [`clash`]: leases that overlap
//! - [`finding`]: what was wrong, and the verdict
//! - [`line`]: the results as lines of JSON
//! - [`text`]: the results for a person

mod change;
mod clash;
mod entry;
pub(crate) mod finding;
mod life;
pub(crate) mod line;
mod requester;
pub(crate) mod state;
pub(crate) mod text;

#[cfg(test)]
mod tests;
