//! The result of a command, or of a user's own hunt, as an exit code.

use std::process::ExitCode;

use crate::hunt::tally::Tally;
use crate::scenario::expectation::Fulfilled;

/// The result of a command, as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Held, or as expected.
    Held = 0,
    /// Violated, or not as expected.
    Violated = 1,
    /// No verdict is possible.
    Unknown = 2,
    /// Bad input or usage.
    Refused = 3,
    /// Two runs of one plan differ or the canary of a campaign is not found, which is a bug in
    /// lockstorm, or a poll of a lock does not return. No verdict is reliable.
    Diverged = 70,
}

impl Exit {
    /// The result of a hunt with so many violated plans. What was not run may violate anything.
    pub fn of_hunt(violated: u64, is_complete: bool, tally: &Tally) -> Exit {
        match () {
            () if violated > 0 => Exit::Violated,
            () if !is_complete || !tally.has_tested() => Exit::Unknown,
            () => Exit::Held,
        }
    }
}

impl From<Fulfilled> for Exit {
    fn from(met: Fulfilled) -> Exit {
        match met {
            Fulfilled::Yes => Exit::Held,
            Fulfilled::Unknown => Exit::Unknown,
            Fulfilled::No => Exit::Violated,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(ending: Exit) -> ExitCode {
        ExitCode::from(ending as u8)
    }
}
