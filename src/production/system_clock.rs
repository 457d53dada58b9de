//! The clocks of the operating system, and sleeps by them.

use std::time::Duration;

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use rustix::time::{ClockId, clock_gettime};

/// The maximum time after which a sleep by a clock that may jump reads it again: a step moves the
/// wall clock, the end of a suspend the boot clock.
const NAP: Nanos = 50 * MILLISECOND;

/// Whether this system counts the time for which it was suspended.
pub(crate) const HAS_BOOT: bool = cfg!(any(target_os = "linux", target_os = "android"));

#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: ClockId = ClockId::Boottime;
/// The builder refuses a lock that reads a clock which does not exist.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: ClockId = ClockId::Monotonic;

/// The current reading of a clock, ns.
pub(crate) fn now(clock: Clock) -> Nanos {
    let time = clock_gettime(match clock {
        Clock::Wall => ClockId::Realtime,
        Clock::Monotonic => ClockId::Monotonic,
        Clock::Boot => BOOT,
    });
    // Before 1970 a wall clock is wrong in any case.
    let whole = Nanos::try_from(time.tv_sec).unwrap_or(0);
    whole.saturating_mul(SECOND).saturating_add(Nanos::try_from(time.tv_nsec).unwrap_or(0))
}

/// Sleeps until `clock` reads at least `reading`.
#[expect(clippy::disallowed_methods, reason = "in production time is the real one")]
pub(crate) async fn sleep_until(clock: Clock, reading: Nanos) {
    loop {
        let left = reading.saturating_sub(now(clock));
        if left == 0 {
            return;
        }
        let nap = if clock == Clock::Monotonic { left } else { left.min(NAP) };
        tokio::time::sleep(Duration::from_nanos(nap)).await;
    }
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::{Clock, EPOCH};

    use super::now;

    #[test]
    fn each_clock_goes_on_and_the_wall_clock_counts_from_1970() {
        for clock in [Clock::Wall, Clock::Monotonic, Clock::Boot] {
            let before = now(clock);
            assert!(before > 0 && now(clock) >= before, "{clock:?}");
        }
        assert!(now(Clock::Wall) > EPOCH);
        let awake = now(Clock::Monotonic);
        assert!(now(Clock::Boot) >= awake, "it counts suspended time as well");
    }
}
