//! The result of a hunt on standard output and in its folder, with the exit code.

use crate::edge::ending::Exit;
use crate::edge::terminal::say;
use crate::edge::{output, stop};
use crate::hunt::catch::Catch;
use crate::refusal::Refusal;
use crate::report::hunt::{self, Audience};

/// Prints the result of a hunt, and writes the list of its findings, the plan of each and the
/// report of the first one. The list is written also if nothing was found: it says what was tested.
pub fn show(catch: Catch, audience: &Audience<'_>) -> Result<Exit, Refusal> {
    let is_stopped = stop::is_requested() && catch.scouted.next.is_some();
    let catch = Catch { is_stopped, ..catch };
    hunt::found(&catch, audience).iter().for_each(|line| say(line));
    let written = output::write(audience.folder, &hunt::pages(&catch, audience));
    // What cannot be kept can still be read.
    let rest = match written {
        Ok(()) => hunt::kept(&catch, audience),
        Err(_) => hunt::others(&catch, audience),
    };
    rest.iter().for_each(|line| say(line));
    hunt::last(&catch).iter().for_each(|line| say(line));
    written?;
    Ok(Exit::of_hunt(catch.violated(), !is_stopped, &catch.scouted.tally))
}
