//! Standard output and standard error.

use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

/// Why standard output first lost a line.
static LOST: OnceLock<String> = OnceLock::new();

/// Writes a line to standard output. A closed pipe is no error; [`lost`] reports any other loss.
pub fn say(line: &str) {
    written(writeln!(std::io::stdout(), "{line}"));
}

/// Records what became of a text for standard output that something else wrote.
pub fn written(result: std::io::Result<()>) {
    match result {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            LOST.get_or_init(|| why.to_string());
        }
        _ => {}
    }
}

/// Why a line could not be written to standard output, if that happened: for example a full disk.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Writes a text to standard error. A closed pipe is no error.
pub fn complain(text: &str) {
    let _ = write!(std::io::stderr(), "{text}");
}
