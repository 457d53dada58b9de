//! The result of a hunt on standard output and in its folder, with the exit code.

use crate::edge::ending::Exit;
use crate::edge::output;
use crate::edge::terminal::say;
use crate::hunt::catch::Catch;
use crate::refusal::Refusal;
use crate::report::hunt::{self, Audience};

/// Prints the result of a hunt, and writes its plans and the report of the first finding.
pub fn show(catch: &Catch, audience: &Audience<'_>) -> Result<Exit, Refusal> {
    hunt::found(catch, audience).iter().for_each(|line| say(line));
    if !catch.findings.is_empty() {
        let written = output::write(audience.folder, &hunt::pages(catch))
            .and_then(|()| output::remove_ours(audience.folder, hunt::outdated(catch)));
        if written.is_ok() {
            hunt::kept(catch, audience).iter().for_each(|line| say(line));
        }
        hunt::last(catch).iter().for_each(|line| say(line));
        written?;
    }
    Ok(Exit::of_hunt(catch.violated(), true, &catch.scouted.tally))
}
