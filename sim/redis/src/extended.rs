//! Numbers of C's `long double` on x86: 64 bits of mantissa. INCRBYFLOAT, HINCRBYFLOAT and the
//! timeouts of blocking commands compute with them, and their output shows it.
//!
//! Not a general arithmetic: numbers are read, added, multiplied by a thousand and printed.

use std::cmp::Ordering;

/// Maximum length of a number's text: `MAX_LONG_DOUBLE_CHARS`.
const MAX_TEXT: usize = 5 * 1024;
/// Every finite number is a multiple of two to this power.
const LOWEST: i64 = -16_445;
/// The maximum exponent of a 64-bit mantissa.
const HIGHEST: i64 = 16_320;
/// Decimal exponents of a first digit that are certainly out of range, above and below.
const OUT_OF_RANGE: i64 = 5_100;

/// A number, or an infinity. The value is `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    infinite: bool,
    mantissa: u64,
    exponent: i64,
}

impl Extended {
    /// Zero.
    pub const ZERO: Extended =
        Extended { negative: false, infinite: false, mantissa: 0, exponent: LOWEST };

    /// Reads a number as Redis's `string2ld` does: text that `strtold` reads completely and finds
    /// in range. Infinities are accepted, NaN is not.
    pub fn read(text: &[u8]) -> Option<Extended> {
        if text.len() >= MAX_TEXT {
            return None;
        }
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let lower = digits.to_ascii_lowercase();
        let number = match &lower[..] {
            b"inf" | b"infinity" => Extended { infinite: true, ..Extended::ZERO },
            [b'0', b'x', rest @ ..] => hexadecimal(rest)?,
            rest => decimal(rest)?,
        };
        Some(Extended { negative, ..number })
    }

    /// The sum, rounded to nearest.
    pub fn plus(self, other: Extended) -> Extended {
        if self.infinite || other.infinite {
            return if self.infinite { self } else { other };
        }
        let exponent = self.exponent.min(other.exponent);
        let natural = |of: Extended| {
            let mut natural = Natural::from(u128::from(of.mantissa));
            natural.shift_left(of.exponent.abs_diff(exponent));
            natural
        };
        let (mut large, mut small) = (natural(self), natural(other));
        let mut negative = self.negative;
        if large.compare(&small) == Ordering::Less {
            std::mem::swap(&mut large, &mut small);
            negative = other.negative;
        }
        if self.negative == other.negative {
            large.add(&small);
        } else {
            large.subtract(&small);
        }
        Extended { negative, ..large.rounded(exponent, false) }
    }

    /// Whether it is finite.
    pub fn is_finite(self) -> bool {
        !self.infinite
    }

    /// A thousand times the number, rounded up to an integer, as C converts it: out of range gives
    /// the minimum integer.
    pub fn thousandfold(self) -> i64 {
        let mut product = Natural::from(u128::from(self.mantissa));
        product.multiply(1_000);
        let product = product.rounded(self.exponent, false);
        if self.infinite || product.infinite || product.exponent > 0 {
            return i64::MIN;
        }
        let shift = product.exponent.unsigned_abs();
        let whole = if shift > 63 { 0 } else { product.mantissa >> shift };
        let is_whole = shift <= 63 && whole << shift == product.mantissa || product.mantissa == 0;
        let up = u64::from(!is_whole && !self.negative);
        match i64::try_from(whole + up) {
            Ok(number) if self.negative => -number,
            Ok(number) => number,
            Err(_) => i64::MIN,
        }
    }

    /// The number with 17 decimals, without trailing zeros: `LD_STR_HUMAN`.
    pub fn text(self) -> String {
        let mut scaled = Natural::from(u128::from(self.mantissa));
        scaled.multiply(1_000_000_000);
        scaled.multiply(100_000_000);
        match self.exponent {
            0.. => scaled.shift_left(self.exponent.unsigned_abs()),
            _ => scaled.shift_right_rounded(self.exponent.unsigned_abs()),
        }
        let digits = format!("{:0>18}", scaled.decimal());
        let (whole, decimals) = digits.split_at(digits.len() - 17);
        let text = format!("{whole}.{decimals}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if self.negative && text != "0" { format!("-{text}") } else { text.to_owned() }
    }
}

/// Digits with at most one point, and how many of them follow it.
fn digits(text: &[u8], base: u32) -> Option<(Natural, i64, usize)> {
    let (mut number, mut behind, mut seen, mut point) = (Natural::default(), 0, 0, false);
    for byte in text {
        if *byte == b'.' && !point {
            point = true;
            continue;
        }
        let digit = char::from(*byte).to_digit(base)?;
        number.multiply(base);
        number.add(&Natural::from(u128::from(digit)));
        behind += i64::from(point);
        seen += 1;
    }
    (seen > 0).then_some((number, behind, seen))
}

/// Splits off an exponent; one out of range becomes a very large one.
fn split_exponent(text: &[u8], letter: u8) -> Option<(&[u8], i64)> {
    let Some(at) = text.iter().position(|byte| *byte == letter) else { return Some((text, 0)) };
    let (negative, digits) = match &text[at + 1..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(10_000_000);
    let exponent = digits.iter().fold(0, add);
    Some((&text[..at], if negative { -exponent } else { exponent }))
}

fn decimal(text: &[u8]) -> Option<Extended> {
    let (text, exponent) = split_exponent(text, b'e')?;
    let (mut number, behind, _) = digits(text, 10)?;
    if number.is_zero() {
        return Some(Extended::ZERO);
    }
    let exponent = exponent - behind;
    let first = exponent + i64::try_from(number.decimal().len()).unwrap_or(i64::MAX);
    if first.abs() > OUT_OF_RANGE {
        return None;
    }
    let tens = |power: u64| {
        let mut tens = Natural::from(1);
        (0..power).for_each(|_| tens.multiply(10));
        tens
    };
    let read = if exponent >= 0 {
        (0..exponent).for_each(|_| number.multiply(10));
        number.rounded(0, false)
    } else {
        number.divided(&tens(exponent.unsigned_abs()))
    };
    in_range(read)
}

fn hexadecimal(text: &[u8]) -> Option<Extended> {
    let (text, exponent) = split_exponent(text, b'p')?;
    let (number, behind, _) = digits(text, 16)?;
    if number.is_zero() {
        return Some(Extended::ZERO);
    }
    in_range(number.rounded(exponent - 4 * behind, false))
}

/// Infinity and zero as results are out of range (`ERANGE`).
fn in_range(number: Extended) -> Option<Extended> {
    (!number.infinite && number.mantissa > 0).then_some(number)
}

/// A natural number of any size: 32-bit digits, the lowest first, without leading zeros.
#[derive(Clone, Debug, Default)]
struct Natural(Vec<u32>);

impl From<u128> for Natural {
    fn from(number: u128) -> Natural {
        let digit = |nth: u32| (number >> (32 * nth)) as u32;
        let mut natural = Natural((0..4).map(digit).collect());
        natural.trim();
        natural
    }
}

impl Natural {
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> u64 {
        let last = self.0.last().map_or(0, |digit| 32 - digit.leading_zeros());
        (self.0.len() as u64).saturating_sub(1) * 32 + u64::from(last)
    }

    fn bit(&self, nth: u64) -> bool {
        let digit = usize::try_from(nth / 32).ok().and_then(|at| self.0.get(at));
        digit.is_some_and(|digit| digit >> (nth % 32) & 1 == 1)
    }

    fn compare(&self, other: &Natural) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn multiply(&mut self, by: u32) {
        let mut carry = 0;
        for digit in &mut self.0 {
            let product = u64::from(*digit) * u64::from(by) + carry;
            *digit = product as u32;
            carry = product >> 32;
        }
        self.0.push(carry as u32);
        self.trim();
    }

    fn add(&mut self, other: &Natural) {
        self.0.resize(self.0.len().max(other.0.len()) + 1, 0);
        let mut carry = 0;
        for (at, digit) in self.0.iter_mut().enumerate() {
            let sum = u64::from(*digit) + u64::from(*other.0.get(at).unwrap_or(&0)) + carry;
            *digit = sum as u32;
            carry = sum >> 32;
        }
        self.trim();
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Natural) {
        debug_assert!(self.compare(other) != Ordering::Less, "naturals have no negatives");
        let mut borrowed = false;
        for (at, digit) in self.0.iter_mut().enumerate() {
            let (less, first) = digit.overflowing_sub(*other.0.get(at).unwrap_or(&0));
            let (less, second) = less.overflowing_sub(u32::from(borrowed));
            *digit = less;
            borrowed = first || second;
        }
        self.trim();
    }

    fn shift_left(&mut self, bits: u64) {
        self.multiply(1 << (bits % 32));
        if !self.is_zero() {
            let zeros = std::iter::repeat_n(0, usize::try_from(bits / 32).unwrap_or(0));
            self.0.splice(0..0, zeros);
        }
    }

    /// Shifts right, rounded to nearest, ties to even.
    fn shift_right_rounded(&mut self, bits: u64) {
        if bits == 0 {
            return;
        }
        let half = self.bit(bits - 1);
        let more = self.has_bits_below(bits - 1);
        let digits = usize::try_from(bits / 32).unwrap_or(usize::MAX).min(self.0.len());
        self.0.drain(..digits);
        let small = bits % 32;
        let mut high = 0;
        for digit in self.0.iter_mut().rev() {
            let wide = u64::from(high) << 32 | u64::from(*digit);
            high = *digit;
            *digit = (wide >> small) as u32;
        }
        self.trim();
        if half && (more || self.bit(0)) {
            self.add(&Natural::from(1));
        }
    }

    fn has_bits_below(&self, bits: u64) -> bool {
        let whole = usize::try_from(bits / 32).unwrap_or(usize::MAX);
        let part = self.0.get(whole).is_some_and(|digit| digit & ((1 << (bits % 32)) - 1) != 0);
        part || self.0.iter().take(whole).any(|digit| *digit != 0)
    }

    /// This number times two to a power, rounded to a 64-bit mantissa. `more` means that the exact
    /// number is a little larger.
    fn rounded(mut self, mut exponent: i64, more: bool) -> Extended {
        if more {
            self.shift_left(1);
            self.add(&Natural::from(1));
            exponent -= 1;
        }
        let bits = i64::try_from(self.bits()).unwrap_or(i64::MAX);
        if exponent.saturating_add(bits) > HIGHEST + 65 {
            return Extended { infinite: true, ..Extended::ZERO };
        }
        let cut = (bits - 64).max(LOWEST - exponent);
        if cut > 0 {
            self.shift_right_rounded(cut.unsigned_abs());
        } else {
            self.shift_left(cut.unsigned_abs());
        }
        let mut exponent = exponent + cut;
        if self.bits() > 64 {
            self.shift_right_rounded(1);
            exponent += 1;
        }
        if exponent > HIGHEST {
            return Extended { infinite: true, ..Extended::ZERO };
        }
        let digit = |at: usize| u64::from(*self.0.get(at).unwrap_or(&0));
        let mantissa = digit(1) << 32 | digit(0);
        Extended { negative: false, infinite: false, mantissa, exponent }
    }

    /// The quotient, rounded to a 64-bit mantissa.
    fn divided(mut self, by: &Natural) -> Extended {
        const BITS: i64 = 70;
        let (own, others) = (self.bits(), by.bits());
        let mut by = by.clone();
        let shift = BITS + i64::try_from(others).unwrap_or(0) - i64::try_from(own).unwrap_or(0);
        match shift {
            0.. => self.shift_left(shift.unsigned_abs()),
            _ => by.shift_left(shift.unsigned_abs()),
        }
        let mut step = by.clone();
        step.shift_left(BITS.unsigned_abs());
        let mut quotient = Natural::default();
        for _ in 0..=BITS {
            quotient.shift_left(1);
            if self.compare(&step) != Ordering::Less {
                self.subtract(&step);
                quotient.add(&Natural::from(1));
            }
            self.shift_left(1);
        }
        quotient.rounded(-shift, !self.is_zero())
    }

    fn decimal(&self) -> String {
        const PART: u64 = 1_000_000_000;
        let (mut rest, mut parts) = (self.clone(), Vec::new());
        while !rest.is_zero() {
            let mut left = 0;
            for digit in rest.0.iter_mut().rev() {
                let wide = left << 32 | u64::from(*digit);
                *digit = (wide / PART) as u32;
                left = wide % PART;
            }
            rest.trim();
            parts.push(left);
        }
        let mut text = parts.pop().unwrap_or(0).to_string();
        parts.iter().rev().for_each(|part| text.push_str(&format!("{part:09}")));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Extended;

    #[track_caller]
    fn sum(one: &str, other: &str, expected: &str) {
        let read = |text: &str| Extended::read(text.as_bytes()).unwrap();
        assert_eq!(read(one).plus(read(other)).text(), expected);
    }

    #[test]
    fn sums_are_those_of_c() {
        sum("0.1", "0.2", "0.3");
        sum("3.0e3", "200", "3200");
        sum("10.5", "-10.5", "0");
        sum("5.0e3", "2.0e2", "5200");
        sum("1", "1e-17", "1.00000000000000001");
        sum("1", "1e-18", "1");
        sum("0", "-1e-30", "0");
        sum("9007199254740993", "0.5", "9007199254740993.5");
        sum("1e20", "1.5", "100000000000000000000");
        sum("0x1.8p3", "+.5", "12.5");
    }

    #[test]
    fn numbers_are_what_strtold_accepts_whole() {
        for text in
            ["", " 1", "1 ", "1e", "1e+", ".", "0x", "nan", "1e5000", "1e-5000", "--1", "e1"]
        {
            assert_eq!(Extended::read(text.as_bytes()), None, "{text}");
        }
        for text in ["1.", ".5", "-inf", "Infinity", "1e4932", "1e-4950", "0e99999", "007"] {
            assert!(Extended::read(text.as_bytes()).is_some(), "{text}");
        }
    }

    #[test]
    fn milliseconds_are_rounded_up() {
        let ms = |text: &str| Extended::read(text.as_bytes()).unwrap().thousandfold();
        assert_eq!((ms("0.1"), ms("0.07"), ms("1e-9"), ms("0")), (100, 70, 1, 0));
        assert_eq!((ms("-0.0001"), ms("-1.5"), ms("1.0001")), (0, -1500, 1001));
        assert_eq!((ms("inf"), ms("-inf"), ms("1e300")), (i64::MIN, i64::MIN, i64::MIN));
        assert_eq!(ms("9223372036854775"), 9_223_372_036_854_775_000);
    }
}
