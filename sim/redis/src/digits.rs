//! Numbers as C writes them: `%.*g`.

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

#[cfg(test)]
mod tests {
    use super::in_digits;

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
}
