//! Floating point numbers as C's `strtod` reads them.

/// The result of `strtod`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// The number; 0 if there is none.
    pub number: f64,
    /// How many bytes of the text it consumed.
    pub taken: usize,
    /// Whether it is too large, or too small to distinguish from 0.
    pub out_of_range: bool,
}

/// Reads a number that must be a whole argument, as Redis's `string2d` does: no blank before it,
/// nothing after it, not NaN.
pub fn number(text: &[u8]) -> Option<f64> {
    let read = strtod(text);
    let whole = !text.is_empty() && !text[0].is_ascii_whitespace() && text[0] != 0x0b;
    let good = whole && read.taken == text.len() && !read.out_of_range && !read.number.is_nan();
    good.then_some(read.number)
}

/// Reads a number as C programs do that only check for the end of the text: blanks may precede it,
/// a zero byte ends it, an empty text is 0.
pub fn loose_number(text: &[u8]) -> Option<Read> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let read = strtod(text);
    ((read.taken == text.len()) && !read.number.is_nan()).then_some(read)
}

/// The number at the start of a text and its length in bytes; none if there is no number.
pub fn leading_number(text: &[u8]) -> Option<(f64, usize)> {
    let read = strtod(text);
    (read.taken > 0).then_some((read.number, read.taken))
}

/// C's `strtod`: blanks, a sign, then a decimal or hexadecimal number, `inf` or `nan`.
pub fn strtod(text: &[u8]) -> Read {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().take_while(|byte| blank(byte)).count();
    let signed = matches!(text.get(start), Some(b'+' | b'-'));
    let negative = text.get(start) == Some(&b'-');
    let from = start + usize::from(signed);
    let read = unsigned(&text[from..]);
    Read {
        number: if negative { -read.number } else { read.number },
        taken: if read.taken == 0 { 0 } else { from + read.taken },
        out_of_range: read.out_of_range,
    }
}

fn unsigned(text: &[u8]) -> Read {
    let begins =
        |word: &[u8]| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let exactly = |number, taken| Read { number, taken, out_of_range: false };
    if begins(b"infinity") {
        exactly(f64::INFINITY, 8)
    } else if begins(b"inf") {
        exactly(f64::INFINITY, 3)
    } else if begins(b"nan") {
        exactly(f64::NAN, 3 + payload(&text[3..]))
    } else if begins(b"0x") {
        hexadecimal(&text[2..]).unwrap_or(exactly(0.0, 1))
    } else {
        decimal(text)
    }
}

/// The letters in brackets that may follow `nan`.
fn payload(text: &[u8]) -> usize {
    let Some((b'(', rest)) = text.split_first() else { return 0 };
    let letters = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    if rest.get(letters) == Some(&b')') { letters + 2 } else { 0 }
}

/// The length of digits, a point and more digits, and how many of those bytes are digits.
fn mantissa(text: &[u8], is_digit: fn(&u8) -> bool) -> (usize, usize) {
    let whole = text.iter().take_while(|byte| is_digit(byte)).count();
    if text.get(whole) != Some(&b'.') {
        return (whole, whole);
    }
    let part = text[whole + 1..].iter().take_while(|byte| is_digit(byte)).count();
    (whole + 1 + part, whole + part)
}

/// The length of a letter, an optional sign and digits; 0 if the digits are missing.
fn exponent(text: &[u8], letter: u8) -> usize {
    if !text.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&letter)) {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    let digits = text[1 + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}

fn decimal(text: &[u8]) -> Read {
    let (length, digits) = mantissa(text, u8::is_ascii_digit);
    if digits == 0 {
        return Read { number: 0.0, taken: 0, out_of_range: false };
    }
    let taken = length + exponent(&text[length..], b'e');
    let number = std::str::from_utf8(&text[..taken]).ok().and_then(|text| text.parse().ok());
    let number: f64 = number.unwrap_or_default();
    let nothing = text[..length].iter().all(|byte| matches!(byte, b'0' | b'.'));
    let out_of_range = number.is_infinite() || (number == 0.0 && !nothing);
    Read { number, taken, out_of_range }
}

/// The number after `0x`, if there is one.
fn hexadecimal(text: &[u8]) -> Option<Read> {
    let (length, digits) = mantissa(text, u8::is_ascii_hexdigit);
    if digits == 0 {
        return None;
    }
    let power = exponent(&text[length..], b'p');
    let mut shift: i32 = match power {
        0 => 0,
        _ => {
            let digits = std::str::from_utf8(&text[length + 1..length + power]).unwrap_or("0");
            let negative = digits.starts_with('-');
            digits.parse().unwrap_or(if negative { -100_000 } else { 100_000 })
        }
    };
    let (mut kept, mut behind_point) = (0_u64, false);
    for byte in &text[..length] {
        let Some(digit) = char::from(*byte).to_digit(16) else {
            behind_point = true;
            continue;
        };
        if kept >> 60 == 0 {
            kept = kept << 4 | u64::from(digit);
            shift = shift.saturating_sub(if behind_point { 4 } else { 0 });
        } else {
            // A digit that no longer fits only affects the rounding of the last bit.
            kept |= u64::from(digit != 0);
            shift = shift.saturating_add(if behind_point { 0 } else { 4 });
        }
    }
    let mut number = kept as f64;
    let nothing = kept == 0;
    // Two steps, as the power alone may underflow although the product does not.
    let half = shift.clamp(-4_000, 4_000) / 2;
    number = number * 2_f64.powi(half) * 2_f64.powi(shift.clamp(-4_000, 4_000) - half);
    let number = if nothing { 0.0 } else { number };
    let out_of_range = number.is_infinite() || (number == 0.0 && !nothing);
    Some(Read { number, taken: 2 + length + power, out_of_range })
}

#[cfg(test)]
mod tests {
    use super::{leading_number, loose_number, number, strtod};

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("+1.5e3", Some(1500.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("Infinity", Some(f64::INFINITY)),
            ("0x1p-1", Some(0.5)),
            ("0xA.8", Some(10.5)),
            ("0x", None),
            ("1e", None),
            ("1e400", None),
            ("1e-400", None),
            ("0e-400", Some(0.0)),
            ("nan", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            (".", None),
            ("-", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn the_loose_form_takes_blanks_and_nothing() {
        let loose = |text: &[u8]| loose_number(text).map(|read| read.number);
        assert_eq!(
            (loose(b""), loose(b" \t-2"), loose(b"3\0x")),
            (Some(0.0), Some(-2.0), Some(3.0))
        );
        assert_eq!(
            (loose(b"3x"), loose(b"nan(1)"), loose(b"1e999")),
            (None, None, Some(f64::INFINITY))
        );
        assert_eq!(strtod(b"12abc").taken, 2);
    }

    #[test]
    fn a_number_at_the_head_of_a_text_is_read_as_far_as_it_goes() {
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
