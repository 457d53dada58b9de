//! The check that must notice a mutant: a hunt, a scenario, or a test by its name.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::root;

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Check {
    /// The arguments of `lockstorm hunt`: it must find a violation.
    Hunt(String),
    /// A scenario: its expectation must not be met.
    Run(String),
    /// `target module::name`, with `lib` for unit tests and a package's folder before its targets,
    /// as in `sim/redis/lib`: one of the tests with that name must fail.
    Test(String),
}

impl Check {
    /// The words of the table.
    pub fn words(&self) -> String {
        match self {
            Check::Hunt(what) => format!("hunt {}", what.replace("--", "")),
            Check::Run(file) => format!("run {}", file.trim_start_matches("scenarios/")),
            Check::Test(name) => format!("test {name}"),
        }
    }

    /// The target and the name of a test.
    pub fn test(&self) -> Option<(&str, &str)> {
        match self {
            Check::Test(name) => name.split_once(' '),
            _ => None,
        }
    }

    /// A check that includes this one: a hunt with more seeds.
    pub fn widened(&self, seeds: u64) -> Check {
        match self {
            Check::Hunt(what) => Check::Hunt(format!("{} --seeds 1..{seeds}", self.base(what))),
            other => other.clone(),
        }
    }

    /// A hunt without its seeds, and their number.
    pub fn hunt(&self) -> Option<(String, u64)> {
        let Check::Hunt(what) = self else { return None };
        let (_, seeds) = what.split_once("--seeds 1..")?;
        Some((self.base(what), seeds.split(' ').next()?.parse().ok()?))
    }

    fn base(&self, what: &str) -> String {
        what.split("--seeds").next().unwrap_or_default().trim().to_owned()
    }

    /// Whether what it names exists.
    ///
    /// # Errors
    /// What does not exist.
    pub fn is_there(&self) -> Result<(), String> {
        match self {
            Check::Hunt(what) => {
                self.hunt().map(drop).ok_or(format!("'{what}' does not end with seeds from 1 on"))
            }
            Check::Run(file) if root().join(file).exists() => Ok(()),
            Check::Run(file) => Err(format!("there is no {file}")),
            Check::Test(test) => {
                let (target, name) = self.test().ok_or(format!("'{test}' names no test"))?;
                let file = name.split("::").next().unwrap_or(name);
                let module = root().join("tests/program").join(file).with_extension("rs");
                // Most start the program by its own name, and the copy's has another.
                if target == "program" && texts(&[module]).contains("CARGO_BIN_EXE") {
                    return Err(format!("'{test}' would run the program without the mutant"));
                }
                let texts = texts(&sources(target, name));
                let last = name.rsplit("::").next().unwrap_or(name);
                let stands = last == "tests" || texts.contains(&format!("fn {last}()"));
                let is_there = !texts.is_empty() && stands;
                is_there.then_some(()).ok_or(format!("there is no test '{test}'"))
            }
        }
    }
}

/// The possible source files of a test; they may not exist.
fn sources(target: &str, name: &str) -> Vec<PathBuf> {
    let (folder, target) = match target.rsplit_once('/') {
        Some((folder, target)) => (root().join(folder), target),
        None => (root().to_path_buf(), target),
    };
    if target == "lib" {
        let module = name.trim_end_matches("::tests").replace("::", "/");
        let path = folder.join("src").join(module);
        return vec![path.with_extension("rs"), path.join("mod.rs"), path.join("tests.rs")];
    }
    let whole = folder.join("tests").join(target);
    let module = whole.join(name.split("::").next().unwrap_or(name));
    let inside = [&whole, &module].map(|folder| fs::read_dir(folder).into_iter().flatten());
    let files = inside.into_iter().flatten().flatten().map(|entry| entry.path());
    files.chain([whole.with_extension("rs")]).collect()
}

fn texts(files: &[PathBuf]) -> String {
    let is_code = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "rs");
    let read = |file: &PathBuf| fs::read_to_string(Path::new(file)).ok();
    files.iter().filter(is_code).filter_map(read).collect()
}
