//! `new`: a project with a lock of one's own, from the example that this project itself tests.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::cli::args::NewLock;
use crate::edge::ending::Exit;
use crate::edge::terminal::say;
use crate::lock::catalogue;
use crate::refusal::Refusal;

/// The lock, its hunt and its tests.
const LOCK: &str = include_str!("../../examples/own_lock.rs");

/// A question about the lock.
const SCENARIO: &str = include_str!("../../examples/own-lock-gc-pause.toml");

/// Stands for the name of the guide, which is that of no lock.
const GUIDE: &str = "\0";

/// The name of that scenario in its new place.
const SCENARIO_NAME: &str = "gc-pause.toml";

/// Writes a new project into a folder that does not exist yet.
pub fn lock(arguments: &NewLock) -> Result<Exit, Refusal> {
    let name = valid(&arguments.name)?;
    let folder = arguments.into.clone().unwrap_or_else(|| name.into());
    let lockstorm = library(&arguments.lockstorm)?;
    let files = [
        ("Cargo.toml", manifest(name, &lockstorm)),
        ("src/main.rs", named(LOCK, name)),
        (SCENARIO_NAME, named(SCENARIO, name)),
    ];
    create(&folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let what = format!("{} exists already", folder.display());
            Refusal::new(what, "name another folder with --into, or move it away")
        }
        _ => unwritable(&folder, &error),
    })?;
    for (file, text) in files {
        let path = folder.join(file);
        fs::write(&path, text).map_err(|error| unwritable(&path, &error))?;
        say(&path.display().to_string());
    }
    say(&format!("now: cd {} && cargo run    # hunts for a violation", folder.display()));
    Ok(Exit::Held)
}

/// Refuses what cannot be the name of a new lock.
fn valid(name: &str) -> Result<&str, Refusal> {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.split('-').all(is_word) {
        let what = format!("'{name}' cannot be the name of a lock");
        return Err(Refusal::new(what, "lower-case words with dashes, as in 'my-lock'"));
    }
    if catalogue::find(name).is_some() {
        let what = format!("there is a lock named '{name}' already");
        return Err(Refusal::new(what, "another name: a scenario could mean either"));
    }
    Ok(name)
}

/// The folder of this library as a path that is valid from anywhere.
fn library(folder: &Path) -> Result<String, Refusal> {
    let found = fs::canonicalize(folder).ok().filter(|path| path.join("Cargo.toml").is_file());
    let path = found.as_deref().and_then(Path::to_str).ok_or_else(|| {
        let what = format!("lockstorm's own source is not in {}", folder.display());
        Refusal::new(what, "name its folder with --lockstorm")
    })?;
    Ok(path.to_owned())
}

/// Creates the folder of a project. It must not exist.
fn create(folder: &Path) -> std::io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(folder)?;
    fs::create_dir(folder.join("src"))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Refusal {
    let what = format!("{} cannot be written: {error}", path.display());
    Refusal::new(what, "name another folder with --into")
}

/// The text of an example for a lock of another name.
fn named(text: &str, name: &str) -> String {
    text.replace("cargo run --example own-lock", "cargo run")
        .replace("examples/own-lock-gc-pause.toml", SCENARIO_NAME)
        .replace("own-locks.md", GUIDE)
        .replace("own-lock", name)
        .replace(GUIDE, "own-locks.md")
        .replace("OwnLock", &type_of(name))
}

/// The name of the type in Rust, which always ends in `Lock`: it is then no keyword, and none of
/// the imported names.
fn type_of(name: &str) -> String {
    let words = name.strip_suffix("-lock").unwrap_or(name).split('-').chain(["lock"]);
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    words.map(capital).collect()
}

fn manifest(name: &str, lockstorm: &str) -> String {
    let package = if name.ends_with("-lock") { name.to_owned() } else { format!("{name}-lock") };
    let path = toml::Value::from(lockstorm);
    format!(
        "\
[package]
name = \"{package}\"
version = \"0.1.0\"
edition = \"2024\"
publish = false

[dependencies]
lockstorm = {{ path = {path} }}

# The simulator, optimised: a hunt over 2,000 plans takes 3 s instead of 38 s.
[profile.dev.package.\"*\"]
opt-level = 2

# It belongs to no workspace around it.
[workspace]
"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;

    use super::{LOCK, SCENARIO, create, manifest, named, type_of, valid};

    #[test]
    fn a_name_becomes_a_type_that_collides_with_nothing() {
        for (name, of) in
            [("mine", "MineLock"), ("my-lock", "MyLock"), ("lock", "LockLock"), ("fn-2", "Fn2Lock")]
        {
            assert_eq!(valid(name).ok(), Some(name));
            assert_eq!(type_of(name), of);
        }
        for wrong in ["", "Mine", "my_lock", "2nd", "a--b", "-a", "a-", "../a", "redlock"] {
            assert!(valid(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_example_is_left_with_no_trace_of_its_own_name() {
        for text in [named(LOCK, "mine"), named(SCENARIO, "mine"), manifest("mine", "/a \"b\"")] {
            let own = text.replace("docs/own-locks.md", "");
            for trace in ["own-lock", "own_lock", "OwnLock", "example"] {
                assert!(!own.contains(trace), "{trace}: {text}");
            }
        }
        assert!(named(LOCK, "mine").contains("docs/own-locks.md"), "the guide has one name");
        assert!(manifest("mine", "/a").parse::<toml::Table>().is_ok());
    }

    #[test]
    fn a_folder_that_exists_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = create(folder.path()).expect_err("a folder that exists").kind();
        let entries = fs::read_dir(folder.path()).expect("the folder").count();
        assert_eq!((refused, entries), (ErrorKind::AlreadyExists, 0));
    }
}
