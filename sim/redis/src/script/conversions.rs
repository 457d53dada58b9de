//! How C converts a Lua value: a text ends at its first NUL, a number loses its fraction.

/// The text up to the first NUL, as C reads it.
pub fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number truncated to an integer; out of range gives what the processor gives.
pub fn whole(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}
