//! Real time, for work that a user waits for. No world reads it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lockstorm_platform::time::{Nanos, SECOND};

use crate::edge::{progress, stop};
use crate::explore::budget::Budget;
use crate::hunt::catch::TimeLimits;

/// The time limit for explaining what a hunt finds, unless another is given, ns.
const EXPLAINING: Nanos = 60 * SECOND;

/// The time limit of an explanation, from its beginning; the terminal shows the current step.
pub fn budget(length: Nanos) -> Option<Budget> {
    Some(Budget { report: progress::explaining, ..silent(length) })
}

/// The same for one of several parallel explanations: the terminal shows how many are done.
pub fn silent(length: Nanos) -> Budget {
    let (length, is_stopped) = (Duration::from_nanos(length), stop::is_requested);
    Budget { length, clock: passed, report: |_| {}, is_stopped }
}

/// The time limit of a search, or of what comes to its plans afterwards, if it has one. A user who
/// stops the program ends it before.
pub fn search(length: Option<Nanos>) -> Budget {
    silent(length.unwrap_or(Nanos::MAX))
}

/// The time that a review may take, if it is given neither that nor seeds, ns: on two cores what it
/// finishes after that ends within a minute.
const REVIEWING: Nanos = 45 * SECOND;

/// The length of a review, unless its seeds alone decide.
pub fn review_length(has_seeds: bool, given: Option<Nanos>) -> Option<Nanos> {
    given.or_else(|| (!has_seeds).then_some(REVIEWING))
}

/// The time limit of a review of this length; the terminal shows the current step.
pub fn reviewing(length: Option<Nanos>) -> Budget {
    Budget { report: progress::reviewing, ..search(length) }
}

/// The time limits of what follows a search: for each the same as for the search. Without one,
/// shrinking takes as long as it takes, and the explanation has a limit of its own.
pub fn limits(length: Option<Nanos>) -> TimeLimits {
    TimeLimits { shrinking: Some(search(length)), explaining: budget(length.unwrap_or(EXPLAINING)) }
}

/// The time since the first call; for ever once the user has stopped the program.
fn passed() -> Duration {
    if stop::is_requested() { Duration::MAX } else { elapsed() }
}

#[expect(clippy::disallowed_methods, reason = "the user's patience is real time")]
fn elapsed() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}
