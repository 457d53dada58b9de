//! What the process is told by its environment: variables, and which program it is.

use std::fs;

use lockstorm_platform::trace::hash_of;

/// A variable of the environment that is set.
#[expect(clippy::disallowed_methods, reason = "which shard runs, not what a plan does")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The hash of the running program: what another build found is not trusted. Empty if it cannot be
/// read.
pub fn build() -> String {
    let program = std::env::current_exe().and_then(fs::read);
    program.map_or_else(|_| String::new(), |bytes| format!("{:016x}", hash_of(&bytes)))
}
