//! When a caller fires: at the beginning of each period, by the wall clock of its host.

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, EPOCH, MILLISECOND, Nanos};

/// How late a caller may fire by its own clock, ns. One that was halted when it was due, or whose
/// clock has jumped, leaves that period out, as schedulers do with a misfire.
pub const MAX_LATE: Nanos = 20 * MILLISECOND;

/// Waits for the next beginning of a period of this length on the wall clock, and returns its
/// number; `None` if the caller missed it.
pub async fn fire(host: &Host, length: Nanos) -> Option<i64> {
    let number = host.now(Clock::Wall) / length + 1;
    let due = number * length;
    host.sleep_until(Clock::Wall, due).await;
    let is_late = host.now(Clock::Wall).saturating_sub(due) > MAX_LATE;
    let first = EPOCH / length;
    let number = i64::try_from(number).ok()? - i64::try_from(first).ok()?;
    (!is_late).then_some(number)
}
