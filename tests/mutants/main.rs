//! Planted bugs: each entry of the tables beside this file breaks one place, and names the check
//! that must notice it.
//!
//! By default this only checks that the tables match the code. With `LOCKSTORM_MUTANTS=all`, a
//! share (`3/8`), or comma-separated ids, the workspace is copied with every mutant in it, each
//! behind a switch in the environment, and built once. Then each mutant runs as a separate process.
//! The checks must pass without a mutant. With `by-strategy`, each strategy hunts for each planted
//! bug of a lock, with `by-strategy:` for those with the ids that follow.

mod by_strategy;
mod check;
mod plant;
mod run;
mod table;
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::table::{Mutant, TABLES};

/// The root of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_entry_fits_the_code() {
    let mut wrong = Vec::new();
    let mut ids = BTreeSet::new();
    for (name, least) in TABLES {
        let mutants = table::read(name);
        let count = mutants.len();
        if count < least {
            wrong.push(format!("{name} has {count} mutants, the house wants {least}"));
        }
        for mutant in mutants {
            if let Err(why) = mutant.check.is_there() {
                wrong.push(format!("{}: {why}", mutant.id));
            }
            if !ids.insert(mutant.id.clone()) {
                wrong.push(format!("{}: another one has this id", mutant.id));
            }
        }
    }
    let read = |file: &str| fs::read_to_string(root().join(file)).map_err(|why| why.to_string());
    wrong.extend(plant::planted(&table::all(), read).err().unwrap_or_default());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_requested_mutant_is_noticed() {
    #[allow(clippy::disallowed_methods, reason = "which mutants to run, not what they do")]
    let asked = std::env::var("LOCKSTORM_MUTANTS").unwrap_or_default();
    if let Some(ids) = asked.strip_prefix("by-strategy") {
        let wrong = by_strategy::all(ids.trim_start_matches(':'));
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
        return;
    }
    let mutants: Vec<Mutant> = table::share(table::all(), &asked);
    if mutants.is_empty() {
        assert!(asked.is_empty(), "no mutant is called '{asked}'");
        return;
    }
    let wrong = run::all(&mutants);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
