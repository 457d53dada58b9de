//! Reads, sorts or refuses the files and folders that the user names.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::lock::catalogue::Locks;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::scenario::{self, Scenario};

/// The maximum size of a scenario or a plan, bytes.
const MAX_FILE_SIZE: u64 = 16 * 1024 * 1024;

/// Reads every scenario in `inputs`: files in their order, the `.toml` files of folders by name.
pub fn scenarios(inputs: &[PathBuf]) -> Result<Vec<Scenario>, Refusal> {
    scenarios_with(&Locks::default(), inputs)
}

/// Like [`scenarios`]; they may name each of `locks`.
pub fn scenarios_with(locks: &Locks, inputs: &[PathBuf]) -> Result<Vec<Scenario>, Refusal> {
    let mut read = Vec::new();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for path in files(inputs)? {
        let shown = path.display().to_string();
        let scenario = Scenario::parse_with(locks, &shown, &text(&path)?)?;
        if let Some(other) = names.insert(scenario.name.clone(), shown.clone()) {
            let what = format!("{other} and {shown} are both named '{}'", scenario.name);
            return Err(Refusal::new(what, "a name stands for one scenario and its report"));
        }
        read.push(scenario);
    }
    let known = with_remedies(locks, &read)?;
    scenario::link(&mut read, &known)?;
    Ok(read)
}

/// The scenarios, and the remedies that they name in the same folder. If a file of a remedy is
/// missing, all scenarios of that folder: the name may be misspelt.
fn with_remedies(locks: &Locks, read: &[Scenario]) -> Result<Vec<Scenario>, Refusal> {
    let mut known = read.to_vec();
    for scenario in read {
        let folder = Path::new(&scenario.file).parent();
        let folder = folder.filter(|path| *path != Path::new("")).unwrap_or(Path::new("."));
        for name in &scenario.remedies {
            let path = folder.join(format!("{name}.toml"));
            let is_known = known.iter().any(|other| other.name == *name);
            if !is_known && path.is_file() {
                let shown = path.display().to_string();
                known.push(Scenario::parse_with(locks, &shown, &text(&path)?)?);
            } else if !is_known {
                let files = scenario_files(folder).unwrap_or_default();
                known.extend(files.iter().filter_map(|path| {
                    let shown = path.display().to_string();
                    Scenario::parse_with(locks, &shown, &text(path).ok()?).ok()
                }));
            }
        }
    }
    Ok(known)
}

/// Reads a plan.
pub fn plan(path: &Path) -> Result<Plan, Refusal> {
    plan_with(&Locks::default(), path)
}

/// Like [`plan`]; it may name each of `locks`.
pub fn plan_with(locks: &Locks, path: &Path) -> Result<Plan, Refusal> {
    Plan::from_json_with(locks, &path.display().to_string(), &text(path)?)
}

fn files(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, Refusal> {
    let mut files = Vec::new();
    for input in inputs {
        if input.is_dir() {
            files.extend(scenario_files(input)?);
        } else {
            files.push(input.clone());
        }
    }
    Ok(files)
}

fn scenario_files(folder: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let what = format!("there is no scenario in {}", folder.display());
        return Err(Refusal::new(what, "scenarios are files that end in .toml"));
    }
    Ok(files)
}

fn text(path: &Path) -> Result<String, Refusal> {
    if path.is_dir() {
        return Err(Refusal::new(format!("{} is a folder", path.display()), "name a file in it"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let read = file.take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, &error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_FILE_SIZE) {
        let what = format!("{} is too long to be a scenario or a plan", path.display());
        return Err(Refusal::new(what, format!("at most {MAX_FILE_SIZE} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = format!("{} is not text", path.display());
        Refusal::new(what, format!("byte {at} is not UTF-8"))
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> Refusal {
    let what = format!("{} cannot be read: {error}", path.display());
    Refusal::new(
        what,
        "name a file that exists; lockstorm without arguments and `list scenarios` read the \
         folder scenarios/ below the current one",
    )
}
