//! Finds and runs the command for the typed arguments.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::act::watched;
use crate::cli::args::{Arguments, Command, Listed, New, RunArguments};
#[cfg(feature = "turmoil")]
use crate::cli::comparing;
#[cfg(feature = "live")]
use crate::cli::{confirming, serving};
use crate::cli::{creating, explaining, hunting, listing, matrixing, merging, profiling};
use crate::cli::{replaying, reviewing, running};
use crate::edge::ending::Exit;
use crate::edge::terminal::{self, complain};
use crate::refusal::Refusal;

/// Runs the command of these arguments.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let ending = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => obey(&arguments).unwrap_or_else(|refusal| {
            complain(&refusal.render(colour_on_stderr()));
            Exit::Refused
        }),
        Err(usage) => {
            terminal::written(usage.print());
            if usage.use_stderr() { Exit::Refused } else { Exit::Held }
        }
    };
    match terminal::lost() {
        Some(why) => {
            complain(&format!("standard output could not be written: {why}\n"));
            Exit::Refused.into()
        }
        None => ending.into(),
    }
}

fn obey(arguments: &Arguments) -> Result<Exit, Refusal> {
    match &arguments.command {
        None => run(&RunArguments::main_job(arguments.engine)),
        Some(Command::Run(arguments)) => run(arguments),
        Some(Command::Replay(replay)) => replaying::replay(replay),
        Some(Command::Explain(explain)) => explaining::explain(explain),
        Some(Command::Threshold(threshold)) => explaining::threshold(threshold),
        Some(Command::Hunt(hunt)) => hunting::hunt(hunt),
        Some(Command::Matrix(matrix)) => matrixing::matrix(matrix),
        Some(Command::Review(review)) => reviewing::review(review),
        Some(Command::Merge(merge)) => merging::merge(merge),
        #[cfg(feature = "live")]
        Some(Command::Serve(serve)) => serving::serve(serve),
        #[cfg(feature = "live")]
        Some(Command::Confirm(confirm)) => confirming::confirm(confirm),
        Some(Command::New { what: New::Lock(lock) }) => creating::lock(lock),
        Some(Command::List { what: Listed::Locks, details: true, names, report }) => {
            profiling::details(names, report.as_deref())
        }
        Some(Command::List { details: true, .. }) => Err(profiling::no_details()),
        Some(Command::List { what, .. }) => listing::list(*what),
    }
}

fn run(arguments: &RunArguments) -> Result<Exit, Refusal> {
    match arguments.engine.lab() {
        Some(lab) => running::run(&watched(lab), arguments),
        #[cfg(feature = "turmoil")]
        None => comparing::compare(arguments),
        #[cfg(not(feature = "turmoil"))]
        None => unreachable!("there is one engine"),
    }
}

/// Colours are used only on a terminal, and only if `NO_COLOR` is empty or unset.
fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}
