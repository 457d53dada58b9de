//! How soon each strategy of a hunt finds the planted bugs of locks: the same settings for all of
//! them, and no more plans than [`MOST`].

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
const STRATEGIES: [&str; 5] = ["portfolio", "random", "swarm", "priorities", "lineage"];
/// The lock that runs the code of a file, for bugs that a test notices.
const LOCKS: [(&str, &str); 10] = [
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
];

/// Runs the hunts and prints the table. Returns a line for each bug that the portfolio does not
/// find, unless its entry says why no hunt does.
pub fn all() -> Vec<String> {
    let mutants = table::read("locks");
    let folder = root().join("target/mutants/tree");
    tree::copy(&folder);
    let programs = tree::build(&folder, &[], tree::FAST);
    let hunted: Vec<(&Mutant, &str)> =
        mutants.iter().filter_map(|mutant| Some((mutant, lock(mutant)?))).collect();
    let locks: BTreeSet<&str> = hunted.iter().map(|(_, lock)| *lock).collect();
    let locks: Vec<&str> = locks.into_iter().collect();
    let sound = locks.par_iter().filter_map(|lock| {
        let found = plans((&folder, &programs), lock, STRATEGIES[0], None)?;
        Some(format!("without a mutant: {lock} is violated after {found} plans"))
    });
    let mut wrong: Vec<String> = sound.collect();
    let rows: Vec<(&Mutant, [Option<u64>; 5])> = hunted
        .par_iter()
        .map(|(mutant, lock)| {
            let of = |word| plans((&folder, &programs), lock, word, Some(&mutant.id));
            let found = STRATEGIES.map(of);
            println!("{}: {found:?}", mutant.id);
            (*mutant, found)
        })
        .collect();
    let heads = STRATEGIES.join(" | ");
    println!("| mutant | {heads} | why not |\n| --- | --- | --- | --- | --- | --- | --- |");
    for (mutant, found) in &rows {
        let cells = found.map(|plans| plans.map_or("-".to_owned(), |plans| plans.to_string()));
        let why = mutant.no_hunt.as_deref().unwrap_or_default();
        println!("| `{}` | {} | {why} |", mutant.id, cells.join(" | "));
        if found[0].is_none() && mutant.no_hunt.is_none() {
            wrong.push(format!("{}: the portfolio does not find it in {MOST} plans", mutant.id));
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

/// The plans until a hunt finds something.
fn plans(
    (folder, programs): (&Path, &BTreeMap<String, PathBuf>),
    lock: &str,
    strategy: &str,
    id: Option<&str>,
) -> Option<u64> {
    let check = Check::Hunt(format!(
        "--lock {lock} --within-assumptions --strategy {strategy} --seeds 1..{MOST}"
    ));
    let Ended { code, said, .. } = run::run(folder, programs, &check, id);
    let found = run::plans(&said).parse().ok();
    assert!(code.is_none_or(|code| code <= 2), "{lock} {strategy} {id:?}: {said}");
    found
}
