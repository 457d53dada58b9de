//! Numbers as C writes and reads them: `%.*g` and `strtod`.

/// `%.{digits}g`.
pub fn in_digits(number: f64, digits: usize) -> String {
    assert!((1..=17).contains(&digits), "doubles have at most 17 digits");
    if !number.is_finite() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if number.is_nan() { "nan" } else { "inf" });
    }
    let most = digits - 1;
    let scientific = format!("{number:.most$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let precision = i32::try_from(digits).unwrap_or(17);
    if (-4..precision).contains(&exponent) {
        let decimals = usize::try_from(precision - 1 - exponent).unwrap_or(0);
        return without_idle_zeros(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_idle_zeros(mantissa), exponent.abs())
}

fn without_idle_zeros(text: &str) -> String {
    if !text.contains('.') {
        return text.to_owned();
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The number at the head of a text and how many bytes it takes; none where there is none.
pub fn leading_number(text: &[u8]) -> Option<(f64, usize)> {
    let signed = matches!(text.first(), Some(b'-' | b'+'));
    let body = &text[usize::from(signed)..];
    let (size, taken) = special(body).or_else(|| hexadecimal(body)).or_else(|| decimal(body))?;
    let number = if text[0] == b'-' { -size } else { size };
    Some((number, taken + usize::from(signed)))
}

fn special(text: &[u8]) -> Option<(f64, usize)> {
    let starts = |word: &str| {
        text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()))
    };
    if starts("infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts("inf") {
        return Some((f64::INFINITY, 3));
    }
    if !starts("nan") {
        return None;
    }
    let is_label = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let label = text[3..].strip_prefix(b"(").map(|rest| count(rest, is_label));
    let closed = label.filter(|length| text.get(4 + length) == Some(&b')'));
    Some((f64::NAN, closed.map_or(3, |length| length + 5)))
}

fn count(text: &[u8], holds: impl Fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| holds(byte)).count()
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let whole = count(text, u8::is_ascii_digit);
    let mut taken = whole;
    if text.get(taken) == Some(&b'.') {
        let decimals = count(&text[taken + 1..], u8::is_ascii_digit);
        if whole + decimals > 0 {
            taken += 1 + decimals;
        }
    }
    if taken == 0 {
        return None;
    }
    taken += exponent(&text[taken..], b'e').map_or(0, |(_, length)| length);
    let digits = std::str::from_utf8(&text[..taken]).ok()?;
    Some((digits.parse().ok()?, taken))
}

/// An exponent behind its letter, and how many bytes it takes.
fn exponent(text: &[u8], letter: u8) -> Option<(i32, usize)> {
    if text.first()?.to_ascii_lowercase() != letter {
        return None;
    }
    let sign = text.get(1).copied().unwrap_or_default();
    let signed = usize::from(matches!(sign, b'-' | b'+'));
    let digits = count(&text[1 + signed..], u8::is_ascii_digit);
    let number = &text[1 + signed..1 + signed + digits];
    let size = number.iter().fold(0i32, |sum, digit| {
        sum.saturating_mul(10).saturating_add(i32::from(digit - b'0')).min(100_000)
    });
    let size = if sign == b'-' { -size } else { size };
    (digits > 0).then_some((size, 1 + signed + digits))
}

fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let head = text.get(..2)?;
    if !head.eq_ignore_ascii_case(b"0x") {
        return None;
    }
    let (mut mantissa, mut scale, mut digits, mut taken) = (0u64, 0i32, 0, 2);
    let mut behind_point = false;
    while let Some(byte) = text.get(taken) {
        if *byte == b'.' && !behind_point {
            behind_point = true;
        } else if let Some(digit) = char::from(*byte).to_digit(16) {
            digits += 1;
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                scale -= if behind_point { 4 } else { 0 };
            } else {
                // What no longer fits only decides how the last bit is rounded.
                mantissa |= u64::from(digit != 0);
                scale += if behind_point { 0 } else { 4 };
            }
        } else {
            break;
        }
        taken += 1;
    }
    if digits == 0 {
        return Some((0.0, 1));
    }
    let (power, length) = exponent(&text[taken..], b'p').unwrap_or((0, 0));
    let power = (power + scale).clamp(-2200, 2200);
    let (half, rest) = (power / 2, power - power / 2);
    Some((mantissa as f64 * 2f64.powi(half) * 2f64.powi(rest), taken + length))
}

#[cfg(test)]
mod tests {
    use super::{in_digits, leading_number};

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (number, digits, text) in [
            (1.5, 17, "1.5"),
            (3.1, 17, "3.1000000000000001"),
            (-0.0, 17, "-0"),
            (1e16, 17, "10000000000000000"),
            (1e17, 17, "1e+17"),
            (1e-5, 17, "1.0000000000000001e-05"),
            (0.0001, 17, "0.0001"),
            (1e300, 17, "1.0000000000000001e+300"),
            (f64::NEG_INFINITY, 17, "-inf"),
            (0.1, 14, "0.1"),
            (1e14, 14, "1e+14"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (99.99, 1, "1e+02"),
            (100.0, 3, "100"),
        ] {
            assert_eq!(in_digits(number, digits), text);
        }
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, number, taken) in [
            ("1", 1.0, 1),
            ("-1.5e2x", -150.0, 6),
            ("1e", 1.0, 1),
            ("1.e+", 1.0, 2),
            ("1e+", 1.0, 1),
            ("+.5", 0.5, 3),
            ("0x10", 16.0, 4),
            ("0x", 0.0, 1),
            ("0x.8p1", 1.0, 6),
            ("-InFinityx", f64::NEG_INFINITY, 9),
            ("1e999", f64::INFINITY, 5),
        ] {
            assert_eq!(leading_number(text.as_bytes()), Some((number, taken)), "{text}");
        }
        assert_eq!(leading_number(b"nan(a_1)").map(|(_, taken)| taken), Some(8));
        for text in ["", "-", ".", "x", "e5"] {
            assert_eq!(leading_number(text.as_bytes()), None, "{text}");
        }
    }
}
