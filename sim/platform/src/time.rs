//! Instants of the world, and the clocks that a host reads.
//!
//! Only the engine knows true time. A process sees three clocks, each of which may be offset, fast,
//! slow, stepped or frozen. All values are integer nanoseconds; there are no floats.

use serde::{Deserialize, Serialize};

/// Nanoseconds: a duration, or a reading of a clock.
pub type Nanos = u64;

/// Milliseconds: a reading of a server's wall clock, or a duration between two, possibly negative.
pub type Ms = i64;

/// One microsecond in nanoseconds.
pub const MICROSECOND: Nanos = 1_000;
/// One millisecond in nanoseconds.
pub const MILLISECOND: Nanos = 1_000_000;
/// One second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;

/// The reading of a wall clock without offset when a world starts: 2023-11-14 22:13:20 UTC.
pub const EPOCH: Nanos = 1_700_000_000 * SECOND;

/// A position in the trace: `seq` decides comparisons, `at` is the true time in nanoseconds.
///
/// Two instants are never equal because of equal times; the trace orders them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Instant {
    /// Position in the trace.
    pub seq: u64,
    /// True time since the world started.
    pub at: Nanos,
}

/// The clocks that a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Time of day: can be offset, stepped and frozen.
    Wall,
    /// Time since boot, without suspended time. Never steps.
    Monotonic,
    /// Time since boot, including suspended time. Never steps.
    Boot,
}

/// The readings of a host's three clocks at one instant, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readings {
    /// Time of day, since the Unix epoch.
    pub wall: Nanos,
    /// Monotonic clock.
    pub mono: Nanos,
    /// Boot-time clock.
    pub boot: Nanos,
}

impl Readings {
    /// The reading of one clock.
    pub fn of(&self, clock: Clock) -> Nanos {
        match clock {
            Clock::Wall => self.wall,
            Clock::Monotonic => self.mono,
            Clock::Boot => self.boot,
        }
    }
}

/// An instant and the readings of the host's clocks at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Position in the trace.
    pub seq: u64,
    /// True time since the world started.
    pub at: Nanos,
    /// Time of day on the host.
    pub wall: Nanos,
    /// Monotonic clock of the host.
    pub mono: Nanos,
    /// Boot-time clock of the host.
    pub boot: Nanos,
}

impl Stamp {
    /// The stamp of `instant` on a host with these `readings`.
    pub fn new(instant: Instant, readings: Readings) -> Stamp {
        let Readings { wall, mono, boot } = readings;
        Stamp { seq: instant.seq, at: instant.at, wall, mono, boot }
    }

    /// The instant without the readings.
    pub fn instant(&self) -> Instant {
        Instant { seq: self.seq, at: self.at }
    }

    /// The readings without the instant.
    pub fn readings(&self) -> Readings {
        Readings { wall: self.wall, mono: self.mono, boot: self.boot }
    }
}

/// One clock between two changes: a straight line through (`since`, `reading`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// True time from which this line is valid.
    pub since: Nanos,
    /// Reading at `since`.
    pub reading: Nanos,
    /// Parts per million by which the clock is fast (negative: slow). It stops at `-1_000_000`.
    pub rate_ppm: i32,
}

impl Line {
    /// The reading at true time `at`, which must not be before `since`.
    pub fn at(&self, at: Nanos) -> Nanos {
        debug_assert!(at >= self.since, "a clock is read before its line begins");
        let passed = at - self.since;
        if self.rate_ppm == 0 {
            return self.reading + passed;
        }
        let speed = u128::from((1_000_000 + i64::from(self.rate_ppm)).max(0).unsigned_abs());
        let ticked = u128::from(passed) * speed / 1_000_000;
        self.reading + u64::try_from(ticked).unwrap_or(u64::MAX)
    }

    /// The first true time at which the clock reads at least `reading`, or `None` if the clock is
    /// stopped below it.
    pub fn reaches(&self, reading: Nanos) -> Option<Nanos> {
        let Some(missing) = reading.checked_sub(self.reading) else { return Some(self.since) };
        if missing == 0 || self.rate_ppm == 0 {
            return Some(self.since.saturating_add(missing));
        }
        let speed = u128::from((1_000_000 + i64::from(self.rate_ppm)).max(0).unsigned_abs());
        if speed == 0 {
            return None;
        }
        let wait = (u128::from(missing) * 1_000_000).div_ceil(speed);
        Some(self.since.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }
}

/// The settings of a host's clocks when the world starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockSetting {
    /// Nanoseconds by which the wall clock is ahead (negative: behind).
    pub wall_offset: i64,
    /// Parts per million by which all three clocks are fast.
    pub rate_ppm: i32,
}

/// The three clocks of a host with all changes made to them.
#[derive(Clone, Debug)]
pub struct HostClocks {
    wall: Line,
    mono: Line,
    boot: Line,
    own_ppm: i32,
    rate_ppm: i32,
    wall_frozen: bool,
    suspended: bool,
}

/// The rate of a stopped clock, in parts per million fast.
pub const STILL: i32 = -1_000_000;

impl HostClocks {
    /// The clocks of a host that boots at true time zero.
    pub fn new(setting: ClockSetting) -> HostClocks {
        let line = |reading| Line { since: 0, reading, rate_ppm: setting.rate_ppm };
        HostClocks {
            wall: line(EPOCH.saturating_add_signed(setting.wall_offset)),
            mono: line(0),
            boot: line(0),
            own_ppm: setting.rate_ppm,
            rate_ppm: setting.rate_ppm,
            wall_frozen: false,
            suspended: false,
        }
    }

    /// The readings of the clocks at true time `now`.
    pub fn readings(&self, now: Nanos) -> Readings {
        Readings { wall: self.wall.at(now), mono: self.mono.at(now), boot: self.boot.at(now) }
    }

    /// The current line of one clock.
    pub fn line(&self, clock: Clock) -> Line {
        match clock {
            Clock::Wall => self.wall,
            Clock::Monotonic => self.mono,
            Clock::Boot => self.boot,
        }
    }

    /// Steps the wall clock by `by` nanoseconds; the result is at least zero.
    pub fn step_wall(&mut self, now: Nanos, by: i64) {
        let reading = self.wall.at(now).saturating_add_signed(by);
        self.wall = Line { since: now, reading, ..self.wall };
    }

    /// Sets the rate of all three clocks to `rate_ppm` parts per million fast from `now` on; `None`
    /// restores their initial rate.
    pub fn set_rate(&mut self, now: Nanos, rate_ppm: Option<i32>) {
        self.rate_ppm = rate_ppm.unwrap_or(self.own_ppm);
        self.redraw(now);
    }

    /// Stops the wall clock, or lets it continue from its reading.
    pub fn freeze_wall(&mut self, now: Nanos, frozen: bool) {
        self.wall_frozen = frozen;
        self.redraw(now);
    }

    /// Stops the monotonic clock, as on a suspended machine, or lets it continue.
    pub fn suspend(&mut self, now: Nanos, suspended: bool) {
        debug_assert_ne!(self.suspended, suspended, "a machine is suspended and resumed in turn");
        self.suspended = suspended;
        self.redraw(now);
    }

    fn redraw(&mut self, now: Nanos) {
        let rate = self.rate_ppm;
        // Each new line begins at the current reading: a change of the rate is no step.
        let line = |old: Line, still: bool| Line {
            since: now,
            reading: old.at(now),
            rate_ppm: if still { STILL } else { rate },
        };
        self.wall = line(self.wall, self.wall_frozen);
        self.mono = line(self.mono, self.suspended);
        self.boot = line(self.boot, false);
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, ClockSetting, EPOCH, HostClocks, Line, SECOND};

    #[test]
    fn a_fast_clock_reaches_a_reading_exactly_when_it_reads_it() {
        for rate_ppm in [-999_999, -500_000, -7, 0, 3, 10_000, 1_000_000] {
            let line = Line { since: 5, reading: 100, rate_ppm };
            for reading in [0, 100, 101, 1_000, SECOND] {
                let at = line.reaches(reading).expect("the clock moves");
                assert!(line.at(at) >= reading);
                assert!(at == line.since || line.at(at - 1) < reading);
            }
        }
    }

    #[test]
    fn a_suspended_machine_stops_its_monotonic_clock_only() {
        let mut clocks = HostClocks::new(ClockSetting::default());
        clocks.suspend(SECOND, true);
        clocks.suspend(3 * SECOND, false);
        let now = clocks.readings(4 * SECOND);
        assert_eq!((now.wall, now.mono, now.boot), (EPOCH + 4 * SECOND, 2 * SECOND, 4 * SECOND));
    }

    #[test]
    fn a_rate_counts_while_it_is_set() {
        let mut clocks = HostClocks::new(ClockSetting::default());
        clocks.set_rate(SECOND, Some(1_000_000));
        clocks.set_rate(2 * SECOND, None);
        let now = clocks.readings(3 * SECOND);
        assert_eq!((now.wall, now.mono, now.boot), (EPOCH + 4 * SECOND, 4 * SECOND, 4 * SECOND));
    }

    #[test]
    fn a_step_moves_the_wall_clock_alone_and_a_frozen_one_stands() {
        let mut clocks = HostClocks::new(ClockSetting { wall_offset: -5, rate_ppm: 0 });
        clocks.step_wall(SECOND, 7);
        clocks.freeze_wall(2 * SECOND, true);
        let now = clocks.readings(9 * SECOND);
        assert_eq!((now.wall, now.mono), (EPOCH + 2 * SECOND + 2, 9 * SECOND));
        assert_eq!(clocks.line(Clock::Wall).reaches(now.wall + 1), None);
    }
}
