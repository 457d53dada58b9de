//! Standard output and standard error.

use std::io::Write;

/// Writes a line to standard output. Nobody listening is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Writes a text to standard error. Nobody listening is no reason to fail.
pub fn complain(text: &str) {
    let _ = write!(std::io::stderr(), "{text}");
}
