//! The command line: what was typed becomes a command, a command becomes work and an exit code.

pub mod act;
pub mod args;
pub mod clock;
#[cfg(feature = "turmoil")]
pub mod comparing;
#[cfg(feature = "live")]
pub mod confirming;
pub mod explaining;
pub mod hunting;
pub mod kept;
pub mod listing;
pub mod progress;
pub mod replaying;
pub mod running;
#[cfg(feature = "live")]
pub mod serving;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::args::{Arguments, Command, RunArguments};
use crate::edge::ending::Ending;
use crate::edge::terminal::complain;
use crate::edge::watchdog;
use crate::refusal::Refusal;
use crate::run::Lab;

/// The folder that the main job reads.
pub const SCENARIOS: &str = "scenarios";
/// The folder that the main job writes.
pub const REPORTS: &str = "reports";

/// Does what the arguments say.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let ending = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => obey(&arguments).unwrap_or_else(|refusal| {
            complain(&refusal.render(colour_on_stderr()));
            Ending::Refused
        }),
        Err(usage) => {
            // A broken pipe is no reason to fail.
            let _ = usage.print();
            if usage.use_stderr() { Ending::Refused } else { Ending::Held }
        }
    };
    ending.into()
}

fn obey(arguments: &Arguments) -> Result<Ending, Refusal> {
    match &arguments.command {
        None => run(&RunArguments::main_job(arguments.engine)),
        Some(Command::Run(arguments)) => run(arguments),
        Some(Command::Replay(replay)) => replaying::replay(replay),
        Some(Command::Explain(explain)) => explaining::explain(explain),
        Some(Command::Threshold(threshold)) => explaining::threshold(threshold),
        Some(Command::Hunt(hunt)) => hunting::hunt(hunt),
        #[cfg(feature = "live")]
        Some(Command::Serve(serve)) => serving::serve(serve),
        #[cfg(feature = "live")]
        Some(Command::Confirm(confirm)) => confirming::confirm(confirm),
        Some(Command::List { what }) => listing::list(*what),
    }
}

fn run(arguments: &RunArguments) -> Result<Ending, Refusal> {
    match arguments.engine.lab() {
        Some(lab) => running::run(&watched(lab), arguments),
        #[cfg(feature = "turmoil")]
        None => comparing::compare(arguments),
        #[cfg(not(feature = "turmoil"))]
        None => unreachable!("there is one engine"),
    }
}

/// The same lab with a watchdog, which keeps the plan of a lock that stands still.
fn watched(lab: Lab) -> Lab {
    watchdog::over(lab, std::path::Path::new(REPORTS), watchdog::PATIENCE)
}

/// Colours go to a terminal only, and only if `NO_COLOR` is empty or not there.
fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}
