//! Runs the checks: once without any mutant, then with each of them switched on.

#![allow(clippy::disallowed_methods, reason = "processes are waited for in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::Check;
use crate::root;
use crate::table::Mutant;
use crate::tree::{self, PROGRAM};

/// A mutant that takes longer hangs.
const MAX_LENGTH: Duration = Duration::from_secs(240);

/// How a check ended.
pub struct Ended {
    /// The exit code; `None` if it was killed.
    pub code: Option<i32>,
    /// What it has written.
    pub said: String,
    took: Duration,
}

/// Runs the checks without and with each mutant, and prints the table. Returns a line for each
/// mutant that was not noticed, and for each check that fails without a mutant.
pub fn all(mutants: &[Mutant]) -> Vec<String> {
    let tree = root().join("target/mutants/tree");
    tree::copy(&tree);
    let programs = tree::build(&tree, mutants, tree::QUICK);
    let run = |check: &Check, id: Option<&str>| run(&tree, &programs, check, id);
    let calm: Vec<Check> = widest(mutants);
    let baseline: Vec<Option<String>> = calm
        .par_iter()
        .map(|check| {
            let ended = run(check, None);
            println!("{:7.1} s  without a mutant: {}", ended.took.as_secs_f64(), check.words());
            let why = || format!("without a mutant: {} says\n{}", check.words(), ended.said);
            (!is_content(check, &ended)).then(why)
        })
        .collect();
    let mut wrong: Vec<String> = baseline.into_iter().flatten().collect();
    let ended: Vec<(&Mutant, Ended)> =
        mutants.par_iter().map(|mutant| (mutant, run(&mutant.check, Some(&mutant.id)))).collect();
    println!("| mutant | noticed by | plans | seconds |\n| --- | --- | --- | --- |");
    for (mutant, ended) in &ended {
        let noticed = notices(&mutant.check, ended);
        let by = if noticed { mutant.check.words() } else { "**nobody**".to_owned() };
        let (plans, took) = (plans(&ended.said), ended.took.as_secs_f64());
        println!("| `{}` | {by} | {plans} | {took:.1} |", mutant.id);
        if !noticed {
            let (words, code) = (mutant.check.words(), ended.code);
            let last = ended.said.lines().rev().take(4).collect::<Vec<_>>().join("\n    ");
            wrong.push(format!("{}: not noticed by {words}: {code:?}\n    {last}", mutant.id));
        }
    }
    wrong
}

/// Every check once; of hunts that differ only in their number of seeds, the longest.
fn widest(mutants: &[Mutant]) -> Vec<Check> {
    let mut hunts: BTreeMap<String, (u64, &Check)> = BTreeMap::new();
    let mut others = BTreeSet::new();
    for check in mutants.iter().map(|mutant| &mutant.check) {
        match check.hunt() {
            None => _ = others.insert(check.clone()),
            Some((base, seeds)) => {
                let most = hunts.entry(base).or_insert((seeds, check));
                most.0 = most.0.max(seeds);
            }
        }
    }
    let hunts = hunts.into_values().map(|(seeds, check)| check.widened(seeds));
    hunts.chain(others).collect()
}

fn is_content(check: &Check, ended: &Ended) -> bool {
    let tested = check.test().is_none() || !ended.said.contains("running 0 tests");
    ended.code == Some(0) && tested
}

/// A hunt and a scenario exit with 1 when they find something, a test with 101.
fn notices(check: &Check, ended: &Ended) -> bool {
    ended.code == Some(if check.test().is_some() { 101 } else { 1 })
}

/// The number of plans after which a hunt found something.
pub fn plans(said: &str) -> &str {
    let found = said.split_once("found after ");
    found.and_then(|(_, rest)| rest.split_once(" plan")).map_or("", |(plans, _)| plans)
}

/// The plan that a hunt with that mutant has written.
pub fn found(said: &str) -> Option<PathBuf> {
    said.split_whitespace().find(|word| word.ends_with(".plan.json")).map(PathBuf::from)
}

/// Runs a check with that mutant switched on, or with none.
pub fn run(
    tree: &Path,
    programs: &BTreeMap<String, PathBuf>,
    check: &Check,
    id: Option<&str>,
) -> Ended {
    let wanted = check.test().map_or(PROGRAM, |(target, _)| target);
    let program = programs.get(wanted).unwrap_or_else(|| panic!("cargo built no '{wanted}'"));
    let folder = root().join("target/mutants/said").join(id.unwrap_or("none"));
    fs::create_dir_all(&folder).expect("a folder for what is said");
    let mut command = Command::new(program);
    match check {
        Check::Hunt(what) => {
            command
                .arg("hunt")
                .args(what.split_whitespace())
                .args(["--first", "--jobs", "1", "--report"]);
            command.arg(&folder)
        }
        Check::Run(file) => command.args(["run", file]),
        // A debug build leaves out what is long.
        Check::Test(_) => command.args(check.test().map(|(_, name)| name)).arg("--include-ignored"),
    };
    let log = folder.join(format!("{}.txt", check.words().replace(['/', ' ', ':'], "-")));
    carry_out(command, tree, &log, id)
}

/// Replays a plan that a hunt with a mutant found, without one.
pub fn replay(tree: &Path, programs: &BTreeMap<String, PathBuf>, plan: &Path) -> Ended {
    let mut command = Command::new(&programs[PROGRAM]);
    command.arg("replay").arg(plan);
    carry_out(command, tree, &plan.with_extension("txt"), None)
}

/// Runs a command in the tree, with that mutant switched on, or with none.
fn carry_out(mut command: Command, tree: &Path, log: &Path, id: Option<&str>) -> Ended {
    let out = File::create(log).expect("what is said can be kept");
    command.current_dir(tree).stdin(Stdio::null());
    command.stderr(out.try_clone().expect("a file can be shared")).stdout(out);
    // Whichever part a test tries by default, a planted bug may show in the rest.
    command
        .env("INSTA_UPDATE", "no")
        .env("LOCKSTORM_WHOLE", "1")
        .env_remove("LOCKSTORM_MUTANTS")
        .env_remove("LOCKSTORM_MUTANT");
    command.envs(id.map(|id| ("LOCKSTORM_MUTANT", id)));
    let since = Instant::now();
    let mut child = command.spawn().expect("the program starts");
    let code = loop {
        if let Some(status) = child.try_wait().expect("a child can be asked") {
            break status.code();
        }
        if since.elapsed() > MAX_LENGTH {
            child.kill().expect("a child can be ended");
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Ended { code, said: fs::read_to_string(log).unwrap_or_default(), took: since.elapsed() }
}
