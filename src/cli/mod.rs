//! The command line.
//!
//! Arguments become a command; a command becomes work and an exit code.

pub mod act;
pub mod args;
#[cfg(feature = "turmoil")]
pub mod comparing;
#[cfg(feature = "live")]
pub mod confirming;
pub mod creating;
pub mod dispatch;
pub mod explaining;
pub mod hunting;
pub mod kept;
pub mod listing;
pub mod matrixing;
pub mod merging;
pub mod profiling;
pub mod replaying;
pub mod reviewing;
pub mod running;
#[cfg(feature = "live")]
pub mod serving;
pub mod values;
