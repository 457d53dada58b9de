//! How soon each strategy of a hunt finds the planted bugs of locks: the same settings for all of
//! them, and no more plans than [`MOST`]. A plan counts if the lock without the bug does not
//! violate it as well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::Check;
use crate::root;
use crate::run::{self, Ended};
use crate::table::{self, Mutant};
use crate::tree;

/// The plans within which the portfolio finds each bug that a hunt can show.
const MOST: u64 = 2_000;
/// The strategies, the default one first.
const STRATEGIES: [&str; 6] = ["portfolio", "random", "swarm", "priorities", "lineage", "bounds"];
/// The lock that runs the code of a file, for bugs that a test notices.
const LOCKS: [(&str, &str); 12] = [
    ("owned_key.rs", "token-lua-renewed --topology single"),
    ("answer.rs", "token-lua-renewed --topology single"),
    ("lease.rs", "token-lua-renewed --topology single"),
    ("defaults.rs", "token-lua-renewed --topology single"),
    ("background.rs", "token-lua-renewed --topology single"),
    ("token_lua_renewed.rs", "token-lua-renewed --topology single"),
    ("token_lua.rs", "fenced --topology single"),
    ("redlock.rs", "redlock --topology independent"),
    ("wait_replicas.rs", "wait-replicas --topology replicated"),
    ("redisson.rs", "redisson --topology single"),
    ("counted_hash.rs", "redisson --topology single"),
    ("replicas.rs", "redisson --topology replicated"),
];

/// The locks that violate their promise within their assumptions even without a planted bug, and
/// the scenario that shows how.
const KNOWN: [(&str, &str); 2] = [
    ("redisson", "scenarios/redisson-late-unlock.toml"),
    ("read-write", "scenarios/read-write-late-unlock.toml"),
];

/// Runs the hunts and prints the table, of all planted bugs of locks or of those with these ids.
/// Returns a line for each bug that the portfolio does not find, unless its entry says why no hunt
/// does.
pub fn all(ids: &str) -> Vec<String> {
    let is_asked = |mutant: &Mutant| ids.is_empty() || ids.split(',').any(|id| id == mutant.id);
    let mutants: Vec<Mutant> = table::read("locks").into_iter().filter(is_asked).collect();
    let folder = root().join("target/mutants/tree");
    tree::copy(&folder);
    let programs = tree::build(&folder, &[], tree::FAST);
    let locks: BTreeSet<&str> = mutants.iter().filter_map(lock).collect();
    let locks: Vec<&str> = locks.into_iter().collect();
    let sound = locks.par_iter().filter_map(|lock| {
        if let Some((_, scenario)) = KNOWN.iter().find(|(name, _)| lock.starts_with(name)) {
            println!("without a mutant: {lock} is violated as {scenario} says");
            return None;
        }
        let found = plans((&folder, &programs), lock, STRATEGIES[0], None)?;
        Some(format!("without a mutant: {lock} is violated after {found} plans"))
    });
    let mut wrong: Vec<String> = sound.collect();
    let rows: Vec<(&Mutant, [Option<u64>; STRATEGIES.len()])> = mutants
        .par_iter()
        .map(|mutant| {
            let of = |lock, word| plans((&folder, &programs), lock, word, Some(&mutant.id));
            let found = lock(mutant)
                .map_or([None; STRATEGIES.len()], |lock| STRATEGIES.map(|word| of(lock, word)));
            println!("{}: {found:?}", mutant.id);
            (mutant, found)
        })
        .collect();
    let heads = STRATEGIES.join(" | ");
    println!("| mutant | {heads} | why not |\n|{}", " --- |".repeat(STRATEGIES.len() + 2));
    for (mutant, found) in &rows {
        let cells = found.map(|plans| plans.map_or("-".to_owned(), |plans| plans.to_string()));
        let why = mutant.no_hunt.as_deref().unwrap_or_default();
        println!("| `{}` | {} | {why} |", mutant.id, cells.join(" | "));
        match (found[0], &mutant.no_hunt) {
            (None, None) => {
                wrong.push(format!("{}: the portfolio does not find it in {MOST}", mutant.id));
            }
            (Some(plans), Some(_)) => {
                wrong.push(format!("{}: found after {plans} plans: no reason", mutant.id));
            }
            _ => {}
        }
    }
    wrong
}

/// The lock and the topology of the hunts for a bug.
fn lock(mutant: &Mutant) -> Option<&str> {
    if let Check::Hunt(what) = &mutant.check {
        // The first two of its options.
        let end = what.match_indices(" --").nth(1)?.0;
        return what[..end].strip_prefix("--lock ");
    }
    let known = LOCKS.iter().find(|(file, _)| mutant.file.ends_with(&format!("/{file}")));
    known.map(|(_, lock)| *lock)
}

/// The plans until a hunt finds something that the lock without the bug does not violate. A hunt
/// that finds something else goes on with the next seed.
fn plans(
    (folder, programs): (&Path, &BTreeMap<String, PathBuf>),
    lock: &str,
    strategy: &str,
    id: Option<&str>,
) -> Option<u64> {
    let mut tried = 0;
    while tried < MOST {
        let check = Check::Hunt(format!(
            "--lock {lock} --within-assumptions --strategy {strategy} --seeds {}..{MOST}",
            tried + 1
        ));
        let Ended { code, said, .. } = run::run(folder, programs, &check, id);
        assert!(code.is_none_or(|code| code <= 2), "{lock} {strategy} {id:?}: {said}");
        tried += run::plans(&said).parse::<u64>().ok()?;
        let plan = run::found(&said).expect("a hunt names its plan");
        if id.is_none() || run::replay(folder, programs, &plan).code != Some(1) {
            return Some(tried);
        }
    }
    None
}
