//! How a command, or a hunt of a user's own, ends: as an exit code.

use std::process::ExitCode;

use crate::scenario::expectation::Met;

/// How a command ended, as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Held, or all was as expected.
    Held = 0,
    /// Violated, or not as expected.
    Violated = 1,
    /// Nothing can be said.
    Unknown = 2,
    /// Bad input or usage.
    Refused = 3,
    /// Two runs of one plan differ, which is a bug of ours, or a lock stands still for ever: no
    /// verdict is worth anything.
    Diverged = 70,
}

impl From<Met> for Ending {
    fn from(met: Met) -> Ending {
        match met {
            Met::Yes => Ending::Held,
            Met::Unknown => Ending::Unknown,
            Met::No => Ending::Violated,
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(ending as u8)
    }
}
