//! Ctrl-C and `kill`: the first one stops a hunt, which then reports what it has found; the second
//! one ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether a signal has come since [`listen`].
static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the first signal only requests a stop.
pub fn listen() {
    let requested = REQUESTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the first one's flag. A signal that cannot be
        // caught ends the process, as it does without this.
        let end = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(requested));
        let _ = end.and_then(|_| flag::register(signal, Arc::clone(requested)));
    }
}

/// Whether the user has stopped the program.
pub fn is_requested() -> bool {
    REQUESTED.get().is_some_and(|requested| requested.load(Ordering::Relaxed))
}
