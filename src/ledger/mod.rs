//! The assumption ledger: which assumptions of a lock a run broke, by how much, and through what.
//!
//! [`seen`] reads a history, and of the plan only how long its callers work: a fault that was cut
//! short by the heal counts with what it lasted, a removal that found no key does not count, and a
//! failover counts whether or not a fault foresaw it.
//! [`planned`] reads a plan and guesses; it keeps hunts inside and decides nothing.
//!
//! - [`site`]: what a history is held against
//! - [`part`]: what of a plan can be taken out
//! - [`breach`]: how a run went beyond an assumption
//! - [`stretch`]: pauses and late accesses, added up for each time under the lock
//! - [`caller`]: clients that died, or worked for longer than they may
//! - [`clock`]: clocks that stepped, stood or drifted apart
//! - [`node`]: keys and masters that were lost
//! - [`strike`]: what a fault interval did to whom
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
mod strike;
