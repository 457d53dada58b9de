//! The assumption ledger: which assumptions of a lock a run breached, by how much, and through
//! what.
//!
//! [`seen`] reads a history, and of the plan only how long its callers work: a fault that the heal
//! cut short counts with its actual length, a removal that found no key does not count, and a
//! failover counts whether or not a fault intended it. [`planned`] estimates from a plan; it keeps
//! hunts inside the assumptions and decides nothing.
//!
//! - [`breach`]: an assumption that a run exceeded
//! - [`site`]: the environment against which a history is compared
//! - [`part`]: what can be removed from a plan
//! - [`stretch`]: pauses and late accesses, added up for each stretch under the lock
//! - [`caller`]: clients that died, worked for longer than allowed, or misused the lock
//! - [`clock`]: clocks that stepped, stopped or drifted apart
//! - [`node`]: keys and masters that were lost
//! - [`strike`]: what a fault interval did to which host
//! - [`overwork`]: work that outlasts its lease
//! - [`seen`]: all breaches of a history
//! - [`planned`]: the same from the plan alone

pub mod breach;
mod caller;
mod clock;
pub(crate) mod node;
pub(crate) mod overwork;
pub mod part;
pub mod planned;
pub mod seen;
pub mod site;
mod stretch;
pub(crate) mod strike;
