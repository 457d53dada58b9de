//! `matrix`: locks against families of faults.

use std::collections::BTreeSet;

use crate::cli::act;
use crate::cli::args::matrix::{MatrixArguments, MatrixFormat};
use crate::edge::ending::Exit;
use crate::edge::terminal::{complain, say};
use crate::edge::{progress, stop};
use crate::hunt::matrix::{Contender, FAMILIES, Family, matrix as tried};
use crate::lock::catalogue::ALGORITHMS;
use crate::refusal::Refusal;
use crate::report::matrix::Sheet;
use crate::run::Lab;

/// The maximum number of plans of a cell.
const MOST: u64 = 1_000_000;

/// Tries every lock against every family, and prints the table.
pub fn matrix(arguments: &MatrixArguments) -> Result<Exit, Refusal> {
    let (first, last) = (*arguments.seeds.start(), *arguments.seeds.end());
    let plans = (last - first).saturating_add(1);
    if plans > MOST {
        let what = format!("{plans} plans for each cell are days of work");
        return Err(Refusal::new(what, format!("at most {MOST}")));
    }
    let all = || ALGORITHMS.iter().map(|lock| lock.name.to_owned()).collect();
    let names = if arguments.locks.is_empty() { all() } else { arguments.locks.clone() };
    let mut seen = BTreeSet::new();
    let names = names.iter().filter(|name| seen.insert(name.as_str()));
    let contenders = names.map(|name| Contender::find(name).expect("the parser knows them"));
    let contenders: Vec<Contender> = contenders.collect();
    let is_asked = |family: &Family| {
        arguments.faults.is_empty() || arguments.faults.iter().any(|name| name == family.name)
    };
    let families: Vec<Family> = FAMILIES.into_iter().filter(is_asked).collect();
    stop::listen();
    let bar = progress::bar((contenders.len() * families.len()) as u64, "trying");
    let rows = act::side_by_side(arguments.jobs, || {
        let lab = act::watched(Lab::default());
        let progress = || bar.inc(1);
        tried(&lab, &contenders, &families, &arguments.seeds, &progress, stop::is_requested)
    });
    progress::clear();
    let sheet = Sheet { families: &families, rows: &rows, plans };
    let text = match arguments.format {
        MatrixFormat::Text => sheet.text(),
        MatrixFormat::Markdown => sheet.markdown(),
        MatrixFormat::Html => sheet.html(),
        MatrixFormat::Json => sheet.json(),
    };
    say(text.trim_end());
    let (done, asked) = (rows.len(), contenders.len());
    if done < asked {
        complain(&format!("stopped: {done} of {asked} locks were tried against all families\n"));
        return Ok(Exit::Unknown);
    }
    Ok(Exit::Held)
}
