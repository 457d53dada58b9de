//! How a violation became possible: read from the history, whatever the faults were called.
//!
//! - [`how`]: the ways that are known, and what proves each
//! - [`theft`]: why a command came through to another's key
//! - [`ending`]: how a key that kept others out was gone
//! - [`belief`]: why its holder went on
//! - [`overlap`]: two holders at once
//! - [`alone`]: violations that take one caller
//! - [`by_kind`]: which of these is looked at

pub mod alone;
pub mod belief;
pub mod by_kind;
pub mod ending;
pub mod how;
pub mod overlap;
pub mod theft;
