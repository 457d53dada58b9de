//! Standard output and standard error.

use std::io::Write;

/// Writes a line to standard output. A closed pipe is no error.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Writes a text to standard error. A closed pipe is no error.
pub fn complain(text: &str) {
    let _ = write!(std::io::stderr(), "{text}");
}
