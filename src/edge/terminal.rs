//! Standard output and standard error.

use std::io::{IsTerminal, Write};

/// Writes a line to standard output. Nobody listening is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Writes a text to standard error. Nobody listening is no reason to fail.
pub fn complain(text: &str) {
    let _ = write!(std::io::stderr(), "{text}");
}

/// Colours go to a terminal only, and only if `NO_COLOR` is empty or not there.
pub fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}
