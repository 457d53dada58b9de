//! A progress bar on standard error, for a person who watches; none in a pipe or in CI.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for so many steps; hidden if standard error is no terminal.
pub fn bar(steps: u64, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let look = "{msg} [{bar:40}] {pos}/{len}, {eta} left";
    let style = ProgressStyle::with_template(look).expect("the template is right");
    ProgressBar::new(steps).with_style(style.progress_chars("=> ")).with_message(what.to_owned())
}
