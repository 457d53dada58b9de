//! The value of a figure at which the verdict changes, in words.

use crate::explain::experiment::{LaterHeal, Steady, Threshold, Unit};
use crate::quantity::{length, list, signed, ten_thousandths};

/// A figure in its unit.
pub fn amount(unit: Unit, value: i64) -> String {
    match unit {
        Unit::Length => length(value.unsigned_abs()),
        Unit::Shift => signed(value),
        // The search finds a share to one part per million, so no digit is dropped.
        Unit::Share => format!("{} %", ten_thousandths(value.unsigned_abs())),
        Unit::Rate => format!("{value:+} ppm"),
    }
}

/// A later heal in words.
pub(super) fn healed(LaterHeal { heal_at, until }: LaterHeal) -> String {
    format!("with heal_at {} and until {}", length(heal_at), length(until))
}

/// The threshold of a figure: `9.974 s holds, 9.975 s breaks`.
pub fn threshold_words(threshold: &Threshold) -> String {
    let amount = |value| amount(threshold.unit, value);
    // A crash that lasts no time is still a crash: where zero holds, there was no fault.
    let of_fault = |value, zero: &str| match value {
        0 if threshold.of.starts_with("fault:") => zero.to_owned(),
        _ => amount(value),
    };
    let holds = of_fault(threshold.holds, "without the fault it");
    let breaks = of_fault(threshold.breaks, "however short, it");
    let tests = match threshold.was_open {
        _ if threshold.is_untested => "tests nothing".to_owned(),
        Some(by) => format!("holds though open to another ({})", crate::quantity::rounded(by)),
        None => "holds".to_owned(),
    };
    let again = |word: &str, figures: &[i64], far: i64| {
        let at = match figures {
            [] => return String::new(),
            [first, .., last] if figures.len() > 3 => {
                let (first, last) = (amount(*first), amount(*last));
                format!("{} of them, {first} the first and {last} the last", figures.len())
            }
            few => list(&few.iter().map(|figure| amount(*figure)).collect::<Vec<_>>()),
        };
        format!("; of the values tried on to {}, {word} again at {at}", amount(far))
    };
    let (low, high) = threshold.looked;
    let more = again("holds", &threshold.holds_again, high)
        + &again("breaks", &threshold.breaks_again, low);
    let is_least = threshold.holds.abs() > threshold.breaks.abs();
    let bound = threshold.bound.filter(|bound| *bound != threshold.holds);
    let bound = bound.map_or_else(String::new, |bound| {
        format!(
            "; these figures are of this run, and the lock promises to hold {} {} at any moment \
             with the slowest messages",
            if is_least { "from" } else { "up to" },
            amount(bound)
        )
    });
    // A reader quotes the first figure, so it is the farthest one tried that breaks.
    let sooner = match (threshold.breaks_again.iter(), is_least) {
        (again, true) => again.max_by_key(|value| value.abs()).map(|value| (value, "still")),
        (again, false) => again.min_by_key(|value| value.abs()).map(|value| (value, "already")),
    };
    let sooner = sooner.map_or_else(String::new, |(value, already)| {
        format!("breaks at {} {already}; ", amount(*value))
    });
    let way = match threshold.instead.as_str() {
        "" => String::new(),
        instead => format!(" (there: {instead})"),
    };
    let later = threshold.later.map_or_else(String::new, |later| format!(", {}", healed(later)));
    format!("{sooner}{holds} {tests}, {breaks} breaks{way}{later}{more}{bound}")
}

/// The result that all tried values of a figure share. A single value is not called a range.
pub fn range_words(steady: &Steady) -> String {
    let (what, each) = match steady.is_violated {
        true => ("something", "every"),
        false => ("nothing", "any"),
    };
    match steady.between.0 == steady.between.1 {
        true => format!("{what} is violated {}", range(steady)),
        false => format!("{what} is violated with {each} value tried {}", range(steady)),
    }
}

fn range(steady: &Steady) -> String {
    let amount = |value| amount(steady.unit, value);
    if steady.between.0 == steady.between.1 {
        return format!("at {}, the only value that was tested", amount(steady.own));
    }
    let (from, to) = (amount(steady.between.0), amount(steady.between.1));
    let later = |room| format!(" (beyond {} with a heal that is as much later)", amount(room));
    format!("from {from} to {to}{}", steady.room.map_or_else(String::new, later))
}

#[cfg(test)]
mod tests {
    use super::{range_words, threshold_words};
    use crate::explain::experiment::{Steady, Threshold, Unit};

    fn threshold(holds: i64, breaks: i64) -> Threshold {
        Threshold {
            of: "fault:1.for".to_owned(),
            unit: Unit::Length,
            own: breaks,
            holds,
            is_untested: false,
            was_open: None,
            breaks,
            looked: (0, breaks),
            holds_again: Vec::new(),
            breaks_again: Vec::new(),
            instead: String::new(),
            bound: None,
            later: None,
        }
    }

    const MS: i64 = 1_000_000;

    #[test]
    fn a_promise_says_whether_it_is_a_least_or_a_most() {
        let with = |holds, breaks, bound| {
            threshold_words(&Threshold { bound: Some(bound), ..threshold(holds, breaks) })
        };
        let pause = with(9_595 * MS, 9_596 * MS, 1_818 * MS);
        assert!(
            pause.contains(", and the lock promises to hold up to 1.818 s at any moment"),
            "{pause}"
        );
        let down = with(5_021 * MS, 5_020 * MS, 30_000 * MS);
        assert!(down.contains(", and the lock promises to hold from 30 s at any moment"), "{down}");
    }

    #[test]
    fn the_first_figure_is_the_farthest_at_which_something_was_seen_to_break() {
        let with = |holds, breaks, again: [i64; 2]| {
            let breaks_again = again.to_vec();
            threshold_words(&Threshold { breaks_again, ..threshold(holds, breaks) })
        };
        let pause = with(3_052 * MS, 3_053 * MS, [1_780 * MS, 2_034 * MS]);
        let first = "breaks at 1.78 s already; 3.052 s holds, 3.053 s breaks; ";
        assert!(pause.starts_with(first), "{pause}");
        let lease = with(15_442 * MS, 15_441 * MS, [20_000 * MS, 40_000 * MS]);
        let first = "breaks at 40 s still; 15.442 s holds, 15.441 s breaks; ";
        assert!(lease.starts_with(first), "{lease}");
        let step = with(-3_052 * MS, -3_053 * MS, [-2_034 * MS, -1_780 * MS]);
        assert!(step.starts_with("breaks at 1.78 s already; "), "{step}");
    }

    #[test]
    fn one_value_is_no_range() {
        let of = |between, is_violated| {
            let (of, unit) = ("fault:1.loss".to_owned(), Unit::Share);
            range_words(&Steady { of, unit, own: 500_000, between, is_violated, room: None })
        };
        let some = "something is violated with every value tried from 50 % to 90 %";
        assert_eq!(of((500_000, 900_000), true), some);
        let one = "nothing is violated at 50 %, the only value that was tested";
        assert_eq!(of((500_000, 500_000), false), one);
    }

    #[test]
    fn a_value_that_holds_though_open_to_another_is_not_said_to_hold() {
        let was_open = Some(94_234_000);
        let pause = threshold_words(&Threshold { was_open, ..threshold(9_587 * MS, 9_588 * MS) });
        assert_eq!(pause, "9.587 s holds though open to another (94.2 ms), 9.588 s breaks");
    }
}
