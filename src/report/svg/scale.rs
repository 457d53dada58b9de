//! True time to pixels: the stretch of the run that is shown, and its ticks.

use lockstorm_platform::time::{Nanos, SECOND};

use crate::check::verdict::Verdict;
use crate::explain::story::Story;
use crate::explain::witness::Witness;
use crate::report::svg::canvas::Tenths;

/// Left and right end of the plot.
pub const PLOT: (Tenths, Tenths) = (860, 9_820);
/// A run up to this length is shown whole.
const SHORT: Nanos = 4 * SECOND;
/// The maximum number of ticks on a ruler.
const TICKS: u64 = 14;

/// A linear map from true time to the plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// True time at the left end.
    pub from: Nanos,
    /// True time at the right end.
    pub to: Nanos,
}

impl Scale {
    /// The stretch that the story and the violation need, with a margin.
    pub fn of(witness: &Witness<'_>, story: &Story) -> Scale {
        let history = witness.history();
        let end = history.end.at.max(1);
        if end <= SHORT {
            return Scale { from: 0, to: end };
        }
        let mut shown: Vec<Nanos> = story.lines.iter().map(|line| line.at.at).collect();
        if let Some(violation) = witness.primary {
            shown.extend([violation.from.at, violation.to.at, witness.horizon().at]);
        }
        shown.extend(witness.cast().iter().map(|grant| grant.call.at));
        shown.extend(witness.left().map(|(life, _)| life.from.at));
        if matches!(witness.finding.judgement.verdict, Verdict::Holds | Verdict::Unknown(_)) {
            shown.push(0);
        }
        let from = shown.iter().min().copied().unwrap_or(0);
        let to = shown.iter().max().copied().unwrap_or(end);
        let margin = (to.saturating_sub(from) / 24).max(SECOND / 1_000);
        Scale { from: from.saturating_sub(margin), to: (to + margin).min(end.max(from + 1)) }
    }

    /// The position of an instant, on the plot or beside it.
    pub fn x(&self, at: Nanos) -> Tenths {
        let (left, right) = PLOT;
        let width = i128::from(right - left);
        let passed = i128::from(at) - i128::from(self.from);
        let x = passed * width / i128::from((self.to - self.from).max(1));
        left + Tenths::try_from(x.clamp(-100_000, 100_000)).unwrap_or(0)
    }

    /// The part of a stretch of time that is on the plot, or `None` if nothing is.
    pub fn span(&self, from: Nanos, to: Nanos) -> Option<(Tenths, Tenths)> {
        let visible = from <= self.to && to >= self.from;
        visible.then(|| (self.x(from.max(self.from)), self.x(to.min(self.to))))
    }

    /// Whether an instant is on the plot.
    pub fn shows(&self, at: Nanos) -> bool {
        (self.from..=self.to).contains(&at)
    }

    /// The distance of ticks: 1, 2 or 5 times a power of ten, in nanoseconds.
    pub fn step(&self) -> Nanos {
        let wanted = (self.to - self.from).div_ceil(TICKS).max(1);
        let mut power: Nanos = 1;
        loop {
            for step in [power, 2 * power, 5 * power] {
                if step >= wanted {
                    return step;
                }
            }
            power *= 10;
        }
    }
}

/// A reading on a ruler, with the precision of its ticks.
pub fn tick_label(reading: i64, step: Nanos) -> String {
    let sign = if reading < 0 { "-" } else { "" };
    let (whole, rest) = (reading.unsigned_abs() / SECOND, reading.unsigned_abs() % SECOND);
    let mut digits = format!("{rest:09}");
    let mut places = 0;
    let mut unit = SECOND;
    while unit > step && places < 9 {
        unit /= 10;
        places += 1;
    }
    digits.truncate(places);
    let point = if places == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{digits} s")
}

#[cfg(test)]
mod tests {
    use super::{PLOT, Scale, tick_label};
    use lockstorm_platform::time::{MILLISECOND, SECOND};

    #[test]
    fn the_axis_is_true_to_time() {
        let scale = Scale { from: SECOND, to: 11 * SECOND };
        assert_eq!((scale.x(SECOND), scale.x(11 * SECOND)), PLOT);
        assert_eq!(scale.x(6 * SECOND), (PLOT.0 + PLOT.1) / 2);
        assert_eq!(scale.span(0, 6 * SECOND), Some((PLOT.0, scale.x(6 * SECOND))));
        assert_eq!(scale.span(12 * SECOND, 13 * SECOND), None);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let cases = [(10 * SECOND, SECOND), (15 * SECOND, 2 * SECOND), (SECOND, SECOND / 10)];
        for (to, step) in cases {
            assert_eq!(Scale { from: 0, to }.step(), step);
        }
        assert_eq!(tick_label(1_250_000_000, 50 * MILLISECOND), "1.25 s");
        assert_eq!(tick_label(-2_000_000_000, 2 * SECOND), "-2 s");
    }
}
