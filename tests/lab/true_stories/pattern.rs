//! Templates of sentences: text with placeholders in braces, each with a shape by its name.

use lockstorm_platform::time::{MICROSECOND, MILLISECOND, Nanos, SECOND};

/// The texts at the placeholders of a pattern, in order, if the text matches.
pub fn read<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let Some(open) = pattern.find('{') else { return (pattern == text).then(Vec::new) };
    let close = open + pattern[open..].find('}')?;
    let (name, rest) = (&pattern[open + 1..close], &pattern[close + 1..]);
    let text = text.strip_prefix(&pattern[..open])?;
    // The longest match first: a placeholder takes all that it can.
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]).rev();
    let mut fits = ends.filter(|end| has_shape(name, &text[..*end]));
    fits.find_map(|end| {
        let mut words = vec![&text[..end]];
        words.extend(read(rest, &text[end..])?);
        Some(words)
    })
}

fn has_shape(name: &str, text: &str) -> bool {
    let plain = |text: &str| !text.is_empty() && !text.contains([' ', ',']);
    match name {
        "any" => true,
        "number" => text.parse::<i64>().is_ok(),
        "moment" => moment(text).is_some(),
        "length" => length(text).is_some(),
        "signed" => {
            let length = text.strip_prefix(['+', '-']);
            length.is_some_and(|text| self::length(text).is_some())
        }
        "list" => list(text).iter().all(|name| plain(name)),
        _ => plain(text),
    }
}

/// The names of `n1`, `n1 and n2`, `n1, n2 and n3`.
pub fn list(text: &str) -> Vec<String> {
    text.replace(" and ", ", ").split(", ").map(str::to_owned).collect()
}

/// A true time in whole milliseconds: `1.003 s`.
pub fn moment(text: &str) -> Option<u64> {
    let (whole, part) = text.strip_suffix(" s")?.split_once('.')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if part.len() != 3 || !is_number(part) || whole.is_empty() || !is_number(whole) {
        return None;
    }
    Some(whole.parse::<u64>().ok()? * 1_000 + part.parse::<u64>().ok()?)
}

/// Whether the text is that time, truncated to the millisecond.
pub fn is_moment(text: &str, at: Nanos) -> bool {
    moment(text) == Some(at / MILLISECOND)
}

/// A length, and its precision: `1.5 ms` is 1,500,000 ns, truncated to 1,000.
pub fn length(text: &str) -> Option<(Nanos, Nanos)> {
    if text == "an instant" {
        return Some((0, 1));
    }
    let (number, unit) = text.split_once(' ')?;
    let (unit, cut) = match unit {
        "days" => (86_400 * SECOND, 1),
        "s" => (SECOND, MILLISECOND),
        "ms" => (MILLISECOND, MICROSECOND),
        "us" => (MICROSECOND, 1),
        "ns" => (1, 1),
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 3 || !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{part:0<3}").parse::<u64>().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    Some((whole + thousandths * (unit / 1_000), cut))
}

/// Whether the text is that length, rounded to three digits.
pub fn is_rounded(text: &str, ns: Nanos) -> bool {
    let digit = 10_u64.pow(ns.max(1).ilog10().saturating_sub(2));
    length(text).is_some_and(|(sentence, _)| sentence.abs_diff(ns) <= digit.div_ceil(2))
}

/// Whether the text is that length, truncated as lengths are.
pub fn is_length(text: &str, ns: Nanos) -> bool {
    length(text).is_some_and(|(sentence, cut)| sentence <= ns && ns < sentence + cut)
}

#[test]
fn a_pattern_matches_its_form_alone() {
    let pattern = "{who} is granted the lock on {list}; {any}.";
    let words = read(pattern, "c1 is granted the lock on n1, n2 and n3; for 2 s.");
    assert_eq!(words, Some(vec!["c1", "n1, n2 and n3", "for 2 s"]));
    assert_eq!(read(pattern, "c1 is refused the lock on n1."), None);
    assert_eq!(read("{who} reads {number}.", "c1 reads -3."), Some(vec!["c1", "-3"]));
    assert_eq!(read("{who} reads {number}.", "c1 and c2 read 3."), None);
    assert!(is_length("1.5 ms", 1_500_999) && !is_length("1.5 ms", 1_501_000));
    assert!(is_moment("1.003 s", 1_003_999_999) && !is_moment("1.003 s", 1_004_000_000));
}
