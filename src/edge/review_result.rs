//! A review on standard output and in its folder, with the exit code.

use std::path::Path;

use crate::edge::ending::Exit;
use crate::edge::output;
use crate::edge::terminal::say;
use crate::hunt::review::{self as reviewed, Inquiry, Judged, Review};
use crate::refusal::Refusal;
use crate::report::hunt::Audience;
use crate::report::review;

/// Refuses a folder into which the report could not be written: a user learns of it before the
/// review.
pub fn prepare(folder: &Path, inquiry: &Inquiry) -> Result<(), Refusal> {
    let name = reviewed::name(&inquiry.beyond.base);
    output::prepare(folder, [review::page_name(&name)].into_iter())
}

/// Prints a review, and writes its report and the plans that it names.
pub fn show(found: &Review, audience: &Audience<'_>) -> Result<Exit, Refusal> {
    say(review::text(found, audience).trim_end());
    output::write(audience.folder, &review::pages(found, audience))?;
    say(&review::kept(found, audience.folder));
    Ok(match found.judged() {
        Judged::Broken => Exit::Violated,
        Judged::Held => Exit::Held,
        Judged::Unknown => Exit::Unknown,
    })
}
