//! Times and lists as words, with integer arithmetic only.

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::time::{MICROSECOND, MILLISECOND, Nanos, SECOND};

/// A day in nanoseconds.
const DAY: Nanos = 86_400 * SECOND;

/// A true time: `12.345 s`, truncated to the millisecond.
pub fn moment(at: Nanos) -> String {
    format!("{}.{:03} s", at / SECOND, at % SECOND / MILLISECOND)
}

/// A length in its natural unit without trailing zeros: `15 s`, `5.484 s`, `250 ms`, `40 us`.
pub fn length(ns: Nanos) -> String {
    match ns {
        0 => "0 s".to_owned(),
        _ if ns >= 2 * DAY && ns.is_multiple_of(DAY) => format!("{} days", ns / DAY),
        _ if ns >= SECOND => format!("{} s", decimal(ns / MILLISECOND, 1_000)),
        _ if ns >= MILLISECOND => format!("{} ms", decimal(ns / MICROSECOND, 1_000)),
        _ if ns >= MICROSECOND => format!("{} us", decimal(ns, 1_000)),
        _ => format!("{ns} ns"),
    }
}

/// How long something lasted: a length, or `an instant`.
pub fn span(ns: Nanos) -> String {
    if ns == 0 { "an instant".to_owned() } else { length(ns) }
}

/// A rate: `10000 ppm` is `1 %`.
pub fn rate(ppm: u64) -> String {
    if ppm >= 10_000 { format!("{} %", decimal(ppm / 10, 1_000)) } else { format!("{ppm} ppm") }
}

/// Ten thousandths as a decimal number: `13_2931` is `13.2931`.
pub fn ten_thousandths(number: u64) -> String {
    decimal(number, 10_000)
}

/// Thousandths as a decimal number: `3100` is `3.1`.
pub fn thousandths(number: u64) -> String {
    decimal(number, 1_000)
}

/// A length with its sign: `+5 s`, `-250 ms`.
pub fn signed(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    format!("{sign}{}", length(ns.unsigned_abs()))
}

/// A length rounded to three digits: `8.98 s`, `12.3 ms`.
pub fn rounded(exact: Nanos) -> String {
    let digit = 10_u64.pow(exact.max(1).ilog10().saturating_sub(2));
    let length = exact.saturating_add(digit / 2) / digit * digit;
    let units = [(SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "us")];
    let unit = units.into_iter().find(|(unit, _)| length >= *unit);
    let Some((unit, name)) = unit else { return format!("{length} ns") };
    let (whole, part) = (length / unit, length % unit * 100 / unit);
    match whole {
        0..10 => format!("{whole}.{part:02} {name}"),
        10..100 => format!("{whole}.{} {name}", part / 10),
        _ => format!("{whole} {name}"),
    }
}

/// A shift rounded to three digits, with its sign: `+8.98 s`, `-12.3 ms`.
pub fn three_digits(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    format!("{sign}{}", rounded(ns.unsigned_abs()))
}

/// The figure of a verb within a sentence: `200 ms`, `5 %`, `+5 s`, `-100 ppm`.
pub fn figure(figure: &Figure) -> String {
    match figure {
        Figure::None => String::new(),
        Figure::Length(ns) => length(*ns),
        Figure::Share(per_million) => rate((*per_million).into()),
        Figure::Shift(by) => signed(*by),
        Figure::Rate(ppm) => format!("{ppm} ppm"),
        Figure::Key(key) => key.clone(),
    }
}

/// The figure of a verb after the verb's word, with a sign for the direction: ` +200 ms`, ` +100
/// ppm`.
pub fn mark(of: &Figure) -> String {
    match of {
        Figure::None => String::new(),
        Figure::Length(ns) => format!(" +{}", length(*ns)),
        Figure::Rate(ppm) => format!(" {ppm:+} ppm"),
        other => format!(" {}", figure(other)),
    }
}

/// `n1`, `n1 and n2`, `n1, n2 and n3`.
pub fn list(names: &[String]) -> String {
    row(names, "and")
}

/// `one, two or three`, with `word` before the last.
pub fn row(names: &[String], word: &str) -> String {
    match names {
        [] => "nobody".to_owned(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} {word} {last}", head.join(", ")),
    }
}

/// `1 grant`, `2 grants`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn decimal(thousandths: u64, one: u64) -> String {
    let whole = thousandths / one;
    let part = format!("{:0digits$}", thousandths % one, digits = one.ilog10() as usize);
    match part.trim_end_matches('0') {
        "" => whole.to_string(),
        part => format!("{whole}.{part}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, length, list, moment, rate, signed, three_digits};

    #[test]
    fn lengths_read_in_their_natural_unit() {
        let cases = [
            (0, "0 s"),
            (15_000_000_000, "15 s"),
            (5_484_120_000, "5.484 s"),
            (250_000_000, "250 ms"),
            (1_500_000, "1.5 ms"),
            (40_000, "40 us"),
            (7, "7 ns"),
            (2_592_000_000_000_000, "30 days"),
        ];
        for (ns, text) in cases {
            assert_eq!(length(ns), text);
        }
        assert_eq!((moment(1_003_999_999), signed(-5)), ("1.003 s".into(), "-5 ns".into()));
        assert_eq!(
            (rate(200), rate(10_000), rate(12_500)),
            ("200 ppm".into(), "1 %".into(), "1.25 %".into())
        );
    }

    #[test]
    fn a_nearest_miss_has_a_sign_and_three_digits() {
        for (ns, text) in [
            (0, "+0 ns"),
            (-999, "-999 ns"),
            (1_000, "+1.00 us"),
            (-12_399_999, "-12.4 ms"),
            (8_984_000_000, "+8.98 s"),
            (-5_507_000_000, "-5.51 s"),
            (999_600, "+1.00 ms"),
            (9_996_000_000, "+10.0 s"),
            (100_499_000_000, "+100 s"),
            (-1_234_567_000_000, "-1230 s"),
        ] {
            assert_eq!(three_digits(ns), text);
        }
    }

    #[test]
    fn lists_and_counts_read_as_english() {
        let names = ["n1", "n2", "n3"].map(str::to_owned);
        assert_eq!((list(&names[..1]), list(&names)), ("n1".into(), "n1, n2 and n3".into()));
        assert_eq!((count(1, "grant"), count(0, "grant")), ("1 grant".into(), "0 grants".into()));
    }
}
