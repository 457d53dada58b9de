//! How much the tests try: a debug build a quarter of the whole, so that the default test run stays
//! short. CI runs the whole in a release build, and the environment may set more.

/// Whether this build tries the whole.
pub const IS_WHOLE: bool = !cfg!(debug_assertions);

const SHARE: usize = if IS_WHOLE { 1 } else { 4 };

/// The amount for this build.
pub fn share(whole: usize) -> usize {
    whole.div_ceil(SHARE)
}

/// The items for this build, evenly spread.
pub fn sample<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    items.into_iter().step_by(SHARE).collect()
}

/// The amount that the environment sets under a name; otherwise the one for this build.
pub fn amount(name: &str, whole: usize) -> usize {
    number(name).unwrap_or(share(whole))
}

/// The number that the environment sets under a name.
#[allow(clippy::disallowed_methods, reason = "how much is tried, not what is tried")]
pub fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}
