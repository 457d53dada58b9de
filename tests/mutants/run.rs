//! The copy of the workspace with all mutants in it: made, built once, and run for each of them.

#![allow(clippy::disallowed_methods, reason = "processes are waited for in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::Check;
use crate::table::{self, Mutant};
use crate::{plant, root};

/// What the copy needs to be built and to run.
const COPIED: [&str; 8] =
    ["Cargo.toml", "Cargo.lock", "src", "sim", "tests", "scenarios", "examples", "benches"];
/// The name of the program of the copy, so that it does not take the place of the real one.
const PROGRAM: &str = "lockstorm-mutant";
/// A mutant that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(240);

/// How a check ended.
struct Ended {
    /// The exit code; none if it was ended from outside.
    code: Option<i32>,
    said: String,
    took: Duration,
}

/// Runs what must notice the mutants, without and with each of them, and prints the table. A line
/// for each that was not noticed, and for each check that is not content without a mutant.
pub fn all(mutants: &[Mutant]) -> Vec<String> {
    let tree = root().join("target/mutants/tree");
    copy(&tree);
    let programs = build(&tree, mutants);
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

/// Every check once; of hunts that differ in their number of seeds the longest.
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

/// A hunt and a scenario end with 1 when they find something, a test with 101.
fn notices(check: &Check, ended: &Ended) -> bool {
    ended.code == Some(if check.test().is_some() { 101 } else { 1 })
}

/// After how many plans a hunt has found something.
fn plans(said: &str) -> &str {
    let found = said.split_once("found after ");
    found.and_then(|(_, rest)| rest.split_once(" plans")).map_or("", |(plans, _)| plans)
}

/// Copies the workspace and plants all mutants, also those that are not asked for, so that every
/// share is the same build. A file that is there already and the same is left as old as it is.
fn copy(tree: &Path) {
    let mut files = BTreeMap::new();
    for name in COPIED {
        gather(&root().join(name), &mut files);
    }
    let read = |file: &str| fs::read_to_string(root().join(file)).map_err(|why| why.to_string());
    let planted = plant::planted(&table::all(), read).unwrap_or_else(|why| panic!("{why:?}"));
    files.extend(planted.into_iter().map(|(file, text)| (file, text.into_bytes())));
    let sim = files.get_mut("sim/src/lib.rs").expect("the other crate has a root");
    sim.extend_from_slice(b"\npub mod mutant;\n");
    files.insert("sim/src/mutant.rs".to_owned(), plant::SWITCH.into());
    let manifest = files.get_mut("Cargo.toml").expect("the workspace has a manifest");
    let text = String::from_utf8_lossy(manifest).replacen(
        "[package]\n",
        &format!(
            "[[bin]]\nname = {PROGRAM:?}\npath = \"src/main.rs\"\n\n[package]\nautobins = false\n"
        ),
        1,
    );
    *manifest = text.into_bytes();
    let mut stale = BTreeMap::new();
    if tree.exists() {
        gather_from(tree, tree, &mut stale);
    }
    for file in stale.keys().filter(|file| !files.contains_key(*file)) {
        fs::remove_file(tree.join(file)).expect("a copied file can be removed");
    }
    for (file, bytes) in files.iter().filter(|(file, bytes)| stale.get(*file) != Some(*bytes)) {
        let path = tree.join(file);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file can be copied");
    }
}

fn gather(path: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    gather_from(root(), path, files);
}

fn gather_from(root: &Path, path: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder can be read") {
            gather_from(root, &entry.expect("an entry can be read").path(), files);
        }
    } else {
        let name = path.strip_prefix(root).expect("it lies below the root");
        let name = name.to_str().expect("paths are UTF-8").to_owned();
        files.insert(name, fs::read(path).expect("a file can be read"));
    }
}

/// Builds the copy with the dependencies of the workspace; programs by their target.
fn build(tree: &Path, mutants: &[Mutant]) -> BTreeMap<String, PathBuf> {
    let targets: BTreeSet<&str> =
        mutants.iter().filter_map(|mutant| mutant.check.test()).map(|(target, _)| target).collect();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--no-run", "--release", "--locked", "--workspace", "--bins"]);
    // Both crates are built quickly rather than well; the dependencies are those of the workspace.
    for (name, level) in [("lockstorm", 1), ("lockstorm-sim", 2)] {
        cargo.arg("--config").arg(format!("profile.release.package.{name}.opt-level={level}"));
    }
    for target in &targets {
        match target.trim_start_matches("sim/") {
            "lib" => cargo.arg("--lib"),
            name => cargo.args(["--test", name]),
        };
    }
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let target_dir = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    cargo.env("CARGO_TARGET_DIR", root().join(target_dir));
    cargo.current_dir(tree).stdin(Stdio::null()).stderr(Stdio::piped());
    let since = Instant::now();
    let output = cargo.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the mutants cannot be built:\n{said}");
    println!("{:7.1} s  to build every mutant", since.elapsed().as_secs_f64());
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    messages.lines().filter_map(program).collect()
}

/// The program that a message of cargo tells of.
fn program(message: &str) -> Option<(String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let executable = PathBuf::from(message["executable"].as_str()?);
    let (target, id) = (&message["target"], message["package_id"].as_str()?);
    let prefix = if id.contains("/sim#") || id.contains("lockstorm-sim") { "sim/" } else { "" };
    let name = match (target["kind"][0].as_str()?, message["profile"]["test"].as_bool()?) {
        ("lib", true) => format!("{prefix}lib"),
        ("test", _) => format!("{prefix}{}", target["name"].as_str()?),
        ("bin", false) => PROGRAM.to_owned(),
        _ => return None,
    };
    Some((name, executable))
}

/// Runs a check with that mutant switched on, or with none.
fn run(
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
            command.arg("hunt").args(what.split_whitespace()).args(["--jobs", "1", "--report"]);
            command.arg(&folder)
        }
        Check::Run(file) => command.args(["run", file]),
        Check::Test(_) => command.args(check.test().map(|(_, name)| name)),
    };
    let log = folder.join(format!("{}.txt", check.words().replace(['/', ' ', ':'], "-")));
    let out = File::create(&log).expect("what is said can be kept");
    command.current_dir(tree).stdin(Stdio::null());
    command.stderr(out.try_clone().expect("a file can be shared")).stdout(out);
    command
        .env("INSTA_UPDATE", "no")
        .env_remove("LOCKSTORM_MUTANTS")
        .env_remove("LOCKSTORM_MUTANT");
    command.envs(id.map(|id| ("LOCKSTORM_MUTANT", id)));
    let since = Instant::now();
    let mut child = command.spawn().expect("the program starts");
    let code = loop {
        if let Some(status) = child.try_wait().expect("a child can be asked") {
            break status.code();
        }
        if since.elapsed() > LONGEST {
            child.kill().expect("a child can be ended");
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Ended { code, said: fs::read_to_string(log).unwrap_or_default(), took: since.elapsed() }
}
