//! Lengths of time in text: `15s`, `500ms`, `1m30s`, and `15.442 s` as reports write it.

use lockstorm_platform::fault::MAX_LENGTH;
use lockstorm_platform::time::{MICROSECOND, MILLISECOND, Nanos, SECOND};

use crate::refusal::{Refusal, nearest};

/// The units and their nanoseconds, the longest first.
const UNITS: [(&str, Nanos); 7] = [
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", MILLISECOND),
    ("us", MICROSECOND),
    ("ns", 1),
];

/// Common words for units that are not similar to any valid unit.
const OTHER_UNITS: [(&str, &str); 10] = [
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("min", "m"),
    ("minute", "m"),
    ("minutes", "m"),
    ("msec", "ms"),
    ("hours", "h"),
    ("µs", "us"),
];

/// Parses a length in nanoseconds. Negative lengths and lengths above [`MAX_LENGTH`] are refused.
pub fn read(text: &str) -> Result<Nanos, Refusal> {
    if let Some(rest) = text.strip_prefix('-') {
        return no(format!("'{text}' is a negative length"), format!("write '{rest}'"));
    }
    let mut total: Nanos = 0;
    let mut rest = text;
    while !rest.is_empty() || text.is_empty() {
        let (part, after) = first_part(text, rest)?;
        total =
            total.checked_add(part).filter(|sum| *sum <= MAX_LENGTH).ok_or_else(too_long(text))?;
        rest = after;
    }
    Ok(total)
}

/// Parses a shift in nanoseconds: a length with an optional sign.
pub fn read_shift(text: &str) -> Result<i64, Refusal> {
    let (length, sign) = match text.strip_prefix('-') {
        Some(rest) => (read(rest)?, -1),
        None => (read(text.strip_prefix('+').unwrap_or(text))?, 1),
    };
    Ok(sign * i64::try_from(length).expect("the longest length fits an i64"))
}

/// Writes a length so that [`read`] parses it: `1m30s`.
pub fn write(length: Nanos) -> String {
    let mut left = length;
    let mut text = String::new();
    for (unit, size) in UNITS {
        if left >= size {
            text += &format!("{}{unit}", left / size);
            left %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Parses one number with its unit; returns its length and the rest of the text.
fn first_part<'a>(text: &str, rest: &'a str) -> Result<(Nanos, &'a str), Refusal> {
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, after) = rest.split_at(digits);
    let after = after.strip_prefix(' ').unwrap_or(after);
    let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
    let (unit, after) = after.split_at(unit_end);
    if number.is_empty() || (unit.is_empty() && !after.is_empty()) {
        let numbers = "numbers with units, like '15s', '1.5s' or '1m30s'";
        return no(format!("'{text}' is not a length"), format!("write {numbers}"));
    }
    if unit.is_empty() {
        return no(format!("'{text}' has no unit"), format!("write '{text}s' or '{text}ms'"));
    }
    let Some((_, size)) = UNITS.iter().find(|(known, _)| *known == unit) else {
        return Err(unknown_unit(text, unit));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return no(format!("'{number}' is not a number"), "write '1.5' or '15'".to_owned());
    }
    let whole: Nanos = whole.parse().map_err(|_| too_long(text)())?;
    let whole = whole.checked_mul(*size).ok_or_else(too_long(text))?;
    let part = part_of(fraction, *size).ok_or_else(|| {
        let what = format!("'{text}' is finer than a nanosecond");
        Refusal::new(what, "write fewer digits".to_owned())
    })?;
    Ok((whole.checked_add(part).ok_or_else(too_long(text))?, after))
}

/// The nanoseconds of the digits after a decimal point; `None` if they are not a whole number.
fn part_of(digits: &str, size: Nanos) -> Option<Nanos> {
    let digits = digits.trim_end_matches('0');
    let scale = 10_u128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    let number = if digits.is_empty() { 0 } else { digits.parse::<u128>().ok()? };
    let scaled = number.checked_mul(size.into())?;
    (scaled % scale == 0).then(|| Nanos::try_from(scaled / scale).ok()).flatten()
}

fn unknown_unit(text: &str, unit: &str) -> Refusal {
    let known = UNITS.map(|(known, _)| known);
    let other = OTHER_UNITS.iter().find(|(other, _)| *other == unit).map(|(_, known)| *known);
    let instead = match other.or_else(|| nearest(unit, &known)) {
        Some(near) => format!("did you mean '{near}'? units are {}", known.join(", ")),
        None => format!("units are {}", known.join(", ")),
    };
    Refusal::new(format!("'{text}' has the unknown unit '{unit}'"), instead)
}

fn too_long(text: &str) -> impl Fn() -> Refusal {
    let what = format!("'{text}' is too long");
    move || Refusal::new(what.clone(), format!("at most {}", write(MAX_LENGTH)))
}

fn no<T>(what: String, instead: String) -> Result<T, Refusal> {
    Err(Refusal::new(what, instead))
}

#[cfg(test)]
mod tests {
    use super::{read, read_shift, write};
    use lockstorm_platform::fault::MAX_LENGTH;

    #[test]
    fn lengths_are_read() {
        for (text, nanos) in [
            ("15s", 15_000_000_000),
            ("500ms", 500_000_000),
            ("250us", 250_000),
            ("10ns", 10),
            ("2m", 120_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5s", 1_500_000_000),
            ("15.442 s", 15_442_000_000),
            ("333.47 ms", 333_470_000),
            ("1m0.5s", 60_500_000_000),
            ("0.000000001s", 1),
            ("1.000000000000s", 1_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0s", 0),
            ("30d", MAX_LENGTH),
        ] {
            assert_eq!(read(text), Ok(nanos), "{text}");
            assert_eq!(read(&write(nanos)), Ok(nanos), "{text}");
        }
        assert_eq!(read_shift("-3s"), Ok(-3_000_000_000));
    }

    #[test]
    fn what_is_no_length_is_refused_with_advice() {
        for (text, what, instead) in [
            ("", "'' is not a length", "write numbers"),
            ("15", "'15' has no unit", "write '15s'"),
            ("-5s", "'-5s' is a negative length", "write '5s'"),
            ("1.5", "'1.5' has no unit", "write '1.5s'"),
            (".5s", "'.5' is not a number", "write '1.5'"),
            ("1.s", "'1.' is not a number", "write '1.5'"),
            ("1.5.5s", "'1.5.5' is not a number", "write '1.5'"),
            ("1,5s", "'1,5s' is not a length", "write numbers"),
            ("1.5ns", "'1.5ns' is finer than a nanosecond", "write fewer"),
            ("1.0000000005s", "'1.0000000005s' is finer than a nanosecond", "write fewer"),
            ("15sec", "'15sec' has the unknown unit 'sec'", "did you mean 's'?"),
            ("15mss", "'15mss' has the unknown unit 'mss'", "did you mean 'ms'?"),
            ("31d", "'31d' is too long", "at most 30d"),
            ("99999999999999999999s", "'99999999999999999999s' is too long", "at most 30d"),
            ("9999999999999h", "'9999999999999h' is too long", "at most 30d"),
            ("1s 5ms", "'1s 5ms' is not a length", "write numbers"),
            ("--5s", "'--5s' is a negative length", "write"),
        ] {
            let no = read(text).expect_err(text);
            assert_eq!(no.what, what);
            assert!(no.instead.starts_with(instead), "{text}: {}", no.instead);
        }
        assert!(read_shift("--5s").is_err());
    }
}
