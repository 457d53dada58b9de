//! Draws from the operating system: unpredictable, and different in each process.
//!
//! A world draws from a seed, so that a run can be repeated. An owner value in production must not
//! be drawn so: two processes with one seed would be one owner. Nothing is derived from an earlier
//! draw either, so that a copy of a running machine shares no later one.

use std::process;
use std::sync::{Mutex, PoisonError};

/// The value of this process, with the process that drew it: a fork is another process.
static OF_PROCESS: Mutex<Option<(u32, u64)>> = Mutex::new(None);

/// A new value.
///
/// # Panics
/// If the operating system has no randomness: a lock without it would be everybody's.
pub(crate) fn fresh() -> u64 {
    getrandom::u64().expect("the operating system has randomness")
}

/// The value that all locks of this process share.
pub(crate) fn of_process() -> u64 {
    let mut drawn = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    match *drawn {
        Some((of, value)) if of == process::id() => value,
        _ => drawn.insert((process::id(), fresh())).1,
    }
}

#[cfg(test)]
mod tests {
    use super::{OF_PROCESS, fresh, of_process};

    #[test]
    fn draws_differ_and_a_process_has_one_value_of_its_own() {
        let drawn: Vec<u64> = (0..64).map(|_| fresh()).collect();
        assert!(drawn.iter().enumerate().all(|(nth, value)| !drawn[..nth].contains(value)));
        let own = of_process();
        assert_eq!(of_process(), own);
        // As if this were a fork of the process that drew the value.
        *OF_PROCESS.lock().unwrap() = Some((0, own));
        assert_ne!(of_process(), own);
    }
}
