//! How a violation became possible: read from the history, whatever the faults are named.
//!
//! - [`how`]: the ways that are known, and what proves each
//! - [`theft`]: why a command came through to another's key
//! - [`ending`]: how a key that kept others out was gone
//! - [`belief`]: why its holder went on
//! - [`overlap`]: two holders at once
//! - [`takeover`]: which node was promoted in place of another
//! - [`alone`]: violations that take one caller
//! - [`by_kind`]: which of these is looked at

mod alone;
mod belief;
pub mod by_kind;
mod ending;
pub mod how;
mod overlap;
mod takeover;
mod theft;
