//! Real time, for work that a user waits for. No world reads it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lockstorm_platform::time::{Nanos, SECOND};

use crate::edge::progress;
use crate::explore::budget::Budget;

/// The time limit for explaining what a hunt finds, unless another is given, ns.
pub const EXPLAINING: Nanos = 60 * SECOND;

/// The time limit of an explanation, from its beginning; the terminal shows the current step.
pub fn budget(length: Nanos) -> Option<Budget> {
    Some(Budget { report: progress::explaining, ..silent(length) })
}

/// The same for one of several parallel explanations: the terminal shows how many are done.
pub fn silent(length: Nanos) -> Budget {
    Budget { length: Duration::from_nanos(length), clock: passed, report: |_| {} }
}

/// The time since the first call.
#[expect(clippy::disallowed_methods, reason = "the user's patience is real time")]
fn passed() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}
