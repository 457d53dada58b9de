//! The command line: the only module that knows files, the terminal and the environment.
//!
//! Arguments become a command; a command becomes work and an exit code.

pub mod act;
pub mod args;
pub mod clock;
#[cfg(feature = "turmoil")]
pub mod comparing;
#[cfg(feature = "live")]
pub mod confirming;
pub mod explaining;
pub mod hunting;
pub mod input;
pub mod kept;
pub mod listing;
pub mod output;
pub mod progress;
pub mod replaying;
pub mod running;
#[cfg(feature = "live")]
pub mod serving;
pub mod watchdog;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::cli::args::{Arguments, Command, RunArguments};
use crate::refusal::Refusal;
use crate::run::Lab;
use crate::scenario::expectation::Met;

/// The folder that the main job reads.
pub const SCENARIOS: &str = "scenarios";
/// The folder that the main job writes.
pub const REPORTS: &str = "reports";

/// How a command ended, as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Held, or everything was as expected.
    Held = 0,
    /// Violated, or not as expected.
    Violated = 1,
    /// The verdict is unknown.
    Unknown = 2,
    /// Bad input or usage.
    Refused = 3,
    /// Two runs of one plan differ, which is a bug in lockstorm, or a lock loops for ever: no
    /// verdict is reliable.
    Diverged = 70,
}

impl From<Met> for Ending {
    fn from(met: Met) -> Ending {
        match met {
            Met::Yes => Ending::Held,
            Met::Unknown => Ending::Unknown,
            Met::No => Ending::Violated,
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(ending as u8)
    }
}

/// Executes the arguments.
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

/// The same lab with a watchdog, which saves the plan of a lock that loops.
fn watched(lab: Lab) -> Lab {
    watchdog::over(lab, std::path::Path::new(REPORTS), watchdog::PATIENCE)
}

/// Writes a line to standard output. A closed stream is no reason to fail.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Writes a text to standard error. A closed stream is no reason to fail.
pub fn complain(text: &str) {
    let _ = write!(std::io::stderr(), "{text}");
}

/// Colours are used only on a terminal, and only if `NO_COLOR` is empty or not set.
fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}
