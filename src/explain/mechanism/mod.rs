//! How a violation became possible: read from the history, not from the names of the faults.
//!
//! - [`how`]: the known mechanisms, and what proves each
//! - [`theft`]: why a command could change another caller's key
//! - [`at_once`]: a key that was gone as soon as its acquire had set it
//! - [`ending`]: how a key that blocked others ended
//! - [`clock`]: the fault behind a clock that went wrong
//! - [`reclaim`]: a member that was removed by time
//! - [`renewal`]: what the last renewal came to
//! - [`belief`]: why the holder continued without a key
//! - [`gathering`]: who was counted twice at a latch
//! - [`handed_on`]: a release that let the next caller in too early
//! - [`quorum`]: two quorums without a common node
//! - [`several`]: one holder too many of a lock that several may hold
//! - [`shortened`]: an operation of a key's own caller that left it less time
//! - [`overlap`]: two holders at once
//! - [`takeover`]: which node was promoted in place of another
//! - [`fence`]: a fence that is not larger than the previous one
//! - [`left`]: a key of which nobody was the owner
//! - [`counted`]: entries of a key that counts its holders and names none
//! - [`alone`]: other violations that involve one caller
//! - [`unguarded`]: a resource that is changed in steps while nothing keeps its callers apart
//! - [`stuck`]: nobody gets the lock, and no caller's key is the reason
//! - [`state`]: who left a state of the lock that lets nobody in
//! - [`by_kind`]: which of these applies to a kind of violation

mod alone;
pub(in crate::explain) mod at_once;
mod belief;
pub mod by_kind;
mod clock;
pub(in crate::explain) mod counted;
pub(in crate::explain) mod deadlock;
mod ending;
mod fence;
mod gathering;
pub(in crate::explain) mod handed_on;
pub mod how;
pub mod left;
mod overlap;
pub(in crate::explain) mod queue;
mod quorum;
mod reclaim;
mod renewal;
mod several;
pub(in crate::explain) mod shortened;
pub(in crate::explain) mod state;
mod stuck;
mod takeover;
pub(in crate::explain) mod theft;
mod unguarded;
