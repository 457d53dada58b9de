//! `list locks --details`: the profiles of locks and client libraries, printed or as pages.

use std::path::Path;

use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::cli::act;
use crate::cli::args::SCENARIOS;
use crate::edge::ending::Exit;
use crate::edge::terminal::say;
use crate::edge::{input, output, progress};
use crate::hunt::matrix::{Contender, MatrixRow};
use crate::hunt::profile::Profile;
use crate::refusal::Refusal;
use crate::report::page::Page;
use crate::report::profile;
use crate::run::Lab;
use crate::scenario::Scenario;

/// Prints the profiles of these locks and libraries, or of all; or writes their pages. Scenarios
/// are those of the current folder, if it has some.
pub fn details(names: &[String], folder: Option<&Path>) -> Result<Exit, Refusal> {
    let scenarios = match Path::new(SCENARIOS).is_dir() {
        true => input::scenarios(&[SCENARIOS.into()])?,
        false => Vec::new(),
    };
    let named = names.iter().map(|name| Contender::find(name).expect("the parser knows the words"));
    let contenders = if names.is_empty() { Contender::all() } else { named.collect() };
    let lab = act::watched(Lab::default());
    match folder {
        None => print(&lab, &contenders, &scenarios),
        Some(folder) => write(&lab, &contenders, &scenarios, (folder, names.is_empty()))?,
    }
    Ok(Exit::Held)
}

fn print(lab: &Lab, contenders: &[Contender], scenarios: &[Scenario]) {
    for (nth, contender) in contenders.iter().enumerate() {
        let gap = if nth == 0 { "" } else { "\n" };
        let text = profile::text(&Profile::of(lab, *contender, scenarios));
        say(&format!("{gap}{}", text.trim_end()));
    }
}

/// Writes the pages into the folder, with an index if they are all.
fn write(
    lab: &Lab,
    contenders: &[Contender],
    scenarios: &[Scenario],
    (folder, with_index): (&Path, bool),
) -> Result<(), Refusal> {
    output::prepare(folder, contenders.iter().map(profile::page_name))?;
    let of = |contender: &Contender| Profile::of(lab, *contender, scenarios);
    let profiles: Vec<Profile<'_>> = contenders.iter().map(of).collect();
    let bar = progress::bar(profiles.len() as u64, "trying");
    let done = profiles.par_iter().map(|profile| {
        let damage = profile.damage(lab);
        bar.inc(1);
        (profile::page(profile, &damage), damage.row)
    });
    let (mut pages, rows): (Vec<Page>, Vec<MatrixRow>) = done.unzip();
    progress::clear();
    if with_index {
        pages.push(profile::index(contenders, &rows));
    }
    output::write(folder, &pages)
}

/// The refusal of details of what has none.
pub fn no_details() -> Refusal {
    Refusal::new("only locks have details", "lockstorm list locks --details")
}
