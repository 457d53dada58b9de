//! How much the tests try. A debug build tries a part, so that the default test run stays short: CI
//! tries the whole in a release build, and `LOCKSTORM_WHOLE=1` does so in a debug build, with every
//! debug assertion. A test that takes long on a single case is ignored in a debug build:
//! `--include-ignored` runs it.

/// A debug build tries one random case in so many.
const CASES: usize = 8;

/// A debug build tries one row, file or hunt in so many: each of them takes longer.
const ROWS: usize = 16;

/// Whether the whole is tried.
pub fn is_whole() -> bool {
    !cfg!(debug_assertions) || number("LOCKSTORM_WHOLE").is_some()
}

/// The amount to try.
pub fn share(whole: usize) -> usize {
    if is_whole() { whole } else { whole.div_ceil(CASES) }
}

/// The items to try: of each few, another one, because what comes in rows repeats.
pub fn sample<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let is_tried = |nth: usize| is_whole() || nth % ROWS == nth / ROWS % ROWS;
    let items = items.into_iter().enumerate();
    items.filter(|(nth, _)| is_tried(*nth)).map(|(_, item)| item).collect()
}

/// The amount that the environment sets under a name; otherwise the one to try.
pub fn amount(name: &str, whole: usize) -> usize {
    number(name).unwrap_or_else(|| share(whole))
}

/// The number that the environment sets under a name.
#[allow(clippy::disallowed_methods, reason = "how much is tried, not what is tried")]
pub fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}
