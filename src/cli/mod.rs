//! The command line: the only room that knows files, the terminal and the environment.
//!
//! What was typed becomes a command; a command becomes work and an exit code.

pub mod act;
pub mod args;
pub mod clock;
#[cfg(feature = "turmoil")]
pub mod comparing;
#[cfg(feature = "live")]
pub mod confirming;
pub mod dispatch;
pub mod ending;
pub mod explaining;
pub mod hunting;
pub mod input;
pub mod kept;
pub mod listing;
pub mod output;
pub mod page;
pub mod progress;
pub mod replaying;
pub mod running;
#[cfg(feature = "live")]
pub mod serving;
pub mod terminal;
pub mod watchdog;
