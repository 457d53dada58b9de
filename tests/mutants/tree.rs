//! The copy of the workspace with all mutants in it: made, and built once.

#![allow(clippy::disallowed_methods, reason = "a build takes real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::table::{self, Mutant};
use crate::{plant, root};

/// The files that the copy needs to be built and to run.
const COPIED: [&str; 10] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "docs",
    "src",
    "sim",
    "tests",
    "scenarios",
    "examples",
    "benches",
];
/// The packages, and the prefix of their targets. The dependencies are those of the workspace.
const PACKAGES: [(&str, &str); 4] = [
    ("lockstorm", ""),
    ("lockstorm-platform", "sim/platform/"),
    ("lockstorm-redis", "sim/redis/"),
    ("lockstorm-world", "sim/world/"),
];
/// The optimisation level of each package.
pub type Levels = [u8; 4];
/// As in a debug build: for most checks fast builds matter more than fast code.
pub const QUICK: Levels = [0, 1, 1, 1];
/// For checks that run many plans.
pub const FAST: Levels = [2, 2, 2, 2];
/// The name of the copy's program, so that it does not replace the real one.
pub const PROGRAM: &str = "lockstorm-mutant";

/// Copies the workspace and plants all mutants, including those that were not requested, so that
/// every share is the same build. An identical existing file keeps its modification time.
pub fn copy(tree: &Path) {
    let mut files = BTreeMap::new();
    for name in COPIED {
        gather(&root().join(name), &mut files);
    }
    let read = |file: &str| fs::read_to_string(root().join(file)).map_err(|why| why.to_string());
    let planted = plant::planted(&table::all(), read).unwrap_or_else(|why| panic!("{why:?}"));
    files.extend(planted.into_iter().map(|(file, text)| (file, text.into_bytes())));
    let lowest = files.get_mut("sim/platform/src/lib.rs").expect("the lowest package has a root");
    lowest.extend_from_slice(b"\npub mod mutant;\n");
    files.insert("sim/platform/src/mutant.rs".to_owned(), plant::SWITCH.into());
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
    if path.ends_with("target") {
        // Build output beside the sources, such as that of cargo-fuzz.
    } else if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder can be read") {
            gather_from(root, &entry.expect("an entry can be read").path(), files);
        }
    } else {
        let name = path.strip_prefix(root).expect("it lies below the root");
        let name = name.to_str().expect("paths are UTF-8").to_owned();
        files.insert(name, fs::read(path).expect("a file can be read"));
    }
}

/// Builds the copy with the dependencies of the workspace; returns the programs by their target.
pub fn build(tree: &Path, mutants: &[Mutant], levels: Levels) -> BTreeMap<String, PathBuf> {
    // More than one package may have a target of this name.
    let tests = mutants.iter().filter_map(|mutant| mutant.check.test());
    let targets: BTreeSet<&str> =
        tests.map(|(target, _)| target.rsplit('/').next().unwrap_or(target)).collect();
    let mut cargo = Command::new(env!("CARGO"));
    // Cargo builds the program for tests beside it, and as a test of its own without any.
    match targets.is_empty() {
        true => cargo.arg("build"),
        false => cargo.args(["test", "--no-run"]),
    };
    cargo.args(["--release", "--locked", "--workspace", "--bins"]);
    for ((name, _), level) in PACKAGES.into_iter().zip(levels) {
        cargo.arg("--config").arg(format!("profile.release.package.{name}.opt-level={level}"));
    }
    for target in &targets {
        match *target {
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

/// The program that a message of cargo names.
fn program(message: &str) -> Option<(String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let executable = PathBuf::from(message["executable"].as_str()?);
    let (target, id) = (&message["target"], message["package_id"].as_str()?);
    let package = id.rsplit(['/', '#']).next()?.split('@').next()?;
    let prefix = PACKAGES.iter().find(|known| known.0 == package)?.1;
    let name = match (target["kind"][0].as_str()?, message["profile"]["test"].as_bool()?) {
        ("lib", true) => format!("{prefix}lib"),
        ("test", _) => format!("{prefix}{}", target["name"].as_str()?),
        ("bin", false) => PROGRAM.to_owned(),
        _ => return None,
    };
    Some((name, executable))
}
