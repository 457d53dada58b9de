//! The rules of the house, checked over the source text: allowed dependencies and maximum sizes.
//!
//! - [`paths`]: the paths in Rust code
//! - [`circles`]: files that use each other
//! - [`documents`]: what documents list or count
//! - [`surface`]: what users can name

mod circles;
mod documents;
mod paths;
mod surface;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::circles::Uses;

/// (a package of `sim/`, the lockstorm packages that it may depend on)
///
/// The compiler enforces these walls; this test ensures that no manifest adds a dependency. Tests
/// may depend on higher packages.
const WALLS: &[(&str, &[&str])] = &[
    ("sim/platform", &[]),
    ("sim/redis", &["lockstorm-platform"]),
    ("sim/world", &["lockstorm-platform"]),
    ("sim/fake-redis", &["lockstorm-platform", "lockstorm-redis", "lockstorm-world"]),
    (".", &["lockstorm-platform", "lockstorm-redis", "lockstorm-world"]),
];

/// (prefix of file paths, words that must not appear in their code, why)
const NEVER: &[(&str, &[&str], &str)] = &[
    (
        "src/promise/",
        &[
            "crate::lock",
            "crate::history",
            "crate::plan",
            "crate::run",
            "crate::check",
            "lockstorm_world",
            "lockstorm_redis",
        ],
        "a promise is data that every checker can read",
    ),
    (
        "src/lock/client/",
        &["crate::lock::algorithm", "crate::lock::catalogue", "crate::lock::assumptions"],
        "algorithms stand on the client",
    ),
    (
        "src/lock/",
        &["crate::history", "crate::workload", "crate::plan", "crate::run", "crate::check"],
        "a lock knows its host and its nodes alone",
    ),
    (
        "src/reading/",
        &[
            "lockstorm_world",
            "lockstorm_redis",
            "lockstorm_platform::host",
            "crate::check",
            "crate::custody",
            "crate::lock",
            "crate::plan",
            "crate::run",
            "crate::workload",
        ],
        "a reading sees a history or a trace alone",
    ),
    (
        "src/check/",
        &[
            "lockstorm_world",
            "lockstorm_redis",
            "lockstorm_platform::host",
            "lockstorm_platform::fault",
            "lockstorm_platform::rng",
            "crate::lock",
            "crate::plan",
            "crate::run",
            "crate::workload",
        ],
        "a checker sees a history and its terms",
    ),
    (
        "src/ledger/",
        &[
            "lockstorm_world",
            "lockstorm_redis",
            "lockstorm_platform::host",
            "crate::run",
            "crate::check",
            "crate::explain",
        ],
        "the ledger reads histories and plans",
    ),
    (
        "src/custody/",
        &[
            "lockstorm_world",
            "lockstorm_redis",
            "lockstorm_platform::host",
            "crate::plan",
            "crate::run",
            "crate::serve",
        ],
        "custody is judged from what the nodes wrote down",
    ),
    (
        "src/production/",
        &[
            "lockstorm_world",
            "crate::history",
            "crate::run",
            "crate::check",
            "crate::hunt",
            "crate::confirm",
        ],
        "a lock in production needs no world, and nothing judges it",
    ),
    ("src/explore/", &["crate::hunt"], "what is learned about one plan needs no hunt"),
    (
        "src/report/",
        &["lockstorm_world", "lockstorm_redis", "crate::run"],
        "a report renders values",
    ),
    (
        "src/explain",
        &["lockstorm_world", "lockstorm_redis", "crate::run"],
        "an explanation runs nothing",
    ),
];

/// (word, files that may use it, why)
const DOORS: &[(&str, &[&str], &str)] = &[
    ("rand_chacha", &["sim/platform/src/rng.rs"], "randomness has one door"),
    (
        "redis_protocol",
        &["sim/redis/src/frame", "sim/redis/src/cluster/slots.rs"],
        "the codec has one door, and the hash of slots",
    ),
    (
        "mlua",
        &["sim/redis/src/script", "sim/redis/src/script_state/libraries.rs"],
        "Lua has one door",
    ),
    ("xxhash_rust", &["sim/platform/src/trace.rs"], "the trace hash has one door"),
    (
        "turmoil::",
        &[
            "sim/world/src/engine/turmoil",
            "sim/world/src/engine/kind.rs",
            "sim/fake-redis/src/sim.rs",
        ],
        "turmoil is an engine, and where a server of a user's own stands",
    ),
    ("tokio::runtime", &["sim/world/src/engine/live"], "runtimes are turmoil's, our own and live"),
    (
        "tokio::net",
        &["sim/world/src/engine/live", "src/production/socket.rs"],
        "real sockets are those of the live engine and of locks in production",
    ),
    ("tokio::signal", &["sim/world/src/engine/live"], "only a live world is ended from outside"),
    (
        "tokio::time",
        &[
            "sim/world/src/engine/live",
            "sim/world/src/engine/tasks/sleep.rs",
            "src/production/system_clock.rs",
        ],
        "timers follow an engine's time, and in production that of the system",
    ),
    (
        "std::fs",
        &["src/cli", "src/edge", "src/confirm/processes.rs"],
        "only the edge touches files, and what starts real servers in theirs",
    ),
    ("Stdio", &["src/confirm/processes.rs"], "one door starts processes"),
    (
        "rustix",
        &["src/confirm/processes.rs", "src/production/system_clock.rs"],
        "one door sends signals, and one reads the clocks of production",
    ),
    ("getrandom", &["src/production/chance.rs"], "only owner values in production are no draws"),
    ("tempfile", &["src/confirm/processes.rs"], "one door makes folders that pass"),
    (
        "std::net::Tcp",
        &["sim/world/src/engine/live", "src/confirm/processes.rs"],
        "real sockets are the live engine's",
    ),
    (
        "std::env",
        &["src/cli", "src/edge/environment.rs", "src/main.rs"],
        "the environment is read by the command line, and where a shard finds its number",
    ),
    ("println!", &[], "only the edge prints"),
    ("io::stdout", &["src/cli", "src/edge"], "only the edge prints"),
    ("crate::cli::", &["src/cli"], "nothing depends on the command line"),
    ("crate::edge::", &["src/cli", "src/edge", "src/test/"], "what is outside is met last"),
    (
        "std::thread",
        &[
            "src/cli",
            "src/edge/watchdog.rs",
            "src/confirm/processes.rs",
            "sim/fake-redis/src/thread.rs",
            "sim/fake-redis/src/blocking.rs",
        ],
        "a world runs on one thread, and has not begun while servers start",
    ),
    ("HashMap", &[], "its order is chance"),
    ("SystemTime", &["sim/world/src/engine/live.rs"], "real time is the live engine's"),
    (
        "Instant::now",
        &["sim/world/src/engine/live.rs", "src/cli", "src/edge/clock.rs", "src/edge/watchdog.rs"],
        "real time is the live engine's",
    ),
];

/// (a package whose files form circles, why that is allowed)
const TIED_FILES: &[(&str, &str)] = &[];

/// (a package whose folders form circles, why that is allowed)
const TIED_FOLDERS: &[(&str, &str)] = &[];

/// Maximum length of a file and maximum width of a line; clippy checks the length of functions.
const MAX_FILE_LINES: usize = 500;
const WIDEST_LINE: usize = 100;

#[test]
fn no_module_uses_a_higher_one() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (_, words, why) in NEVER.iter().filter(|rule| path.starts_with(rule.0)) {
            for (number, line) in code_lines(&text) {
                if words.iter().any(|word| line.contains(word)) {
                    wrong.push(format!("{path}:{number}: {why}: {}", line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_package_is_built_with_what_lies_below_it_alone() {
    for (package, allowed) in WALLS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("Cargo.toml");
        let text = fs::read_to_string(path).expect("a manifest can be read");
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        let used = manifest["dependencies"].as_table().expect("dependencies are a table");
        let ours: Vec<&str> =
            used.keys().map(String::as_str).filter(|name| name.starts_with("lockstorm")).collect();
        assert_eq!(ours, *allowed, "of {package}");
    }
}

#[test]
fn no_files_stand_in_a_circle() {
    check_circles(TIED_FILES, |uses| uses);
}

#[test]
fn no_folders_stand_in_a_circle() {
    check_circles(TIED_FOLDERS, |uses| circles::of_folders(&uses));
}

fn check_circles(tied: &[(&str, &str)], among: impl Fn(Uses) -> Uses) {
    let (mut wrong, mut needed) = (Vec::new(), Vec::new());
    for package in packages() {
        let below = Path::new(&package).join("src");
        let own = sources().into_iter().filter_map(|(path, text)| {
            let path = Path::new(&path).strip_prefix(&below).ok()?;
            Some((path.to_str().expect("paths are UTF-8").to_owned(), text))
        });
        let found = circles::circles(&among(circles::of_files(&own.collect::<Vec<_>>())));
        if !tied.iter().any(|(name, _)| *name == package) {
            wrong.extend(found.iter().map(|circle| format!("{}: {circle}", below.display())));
        } else if !found.is_empty() {
            needed.push(package);
        }
    }
    let needless = tied.iter().filter(|(name, _)| !needed.iter().any(|package| package == name));
    wrong.extend(needless.map(|(name, why)| format!("{name} has no circle and need not be {why}")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_door_is_the_only_one() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (word, doors, why) in DOORS {
            if doors.iter().any(|door| path.starts_with(door)) {
                continue;
            }
            for (number, line) in code_lines(&text).filter(|(_, line)| line.contains(word)) {
                wrong.push(format!("{path}:{number}: {why}: {}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let length = text.lines().count();
        if length > MAX_FILE_LINES {
            wrong.push(format!("{path} has {length} lines, the house allows {MAX_FILE_LINES}"));
        }
        if !text.starts_with("//!") {
            wrong.push(format!("{path} does not open with what it is"));
        }
        let wide = text.lines().enumerate().find(|(_, line)| line.chars().count() > WIDEST_LINE);
        if let Some((index, _)) = wide {
            wrong.push(format!("{path}:{} is wider than {WIDEST_LINE}", index + 1));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn names_say_what_things_are() {
    let vague = ["util", "utils", "helper", "helpers", "manager", "common", "core", "types"];
    let wrong: Vec<String> = sources()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.split(['/', '.', '_']).any(|part| vague.contains(&part)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_type_name_is_defined_once_in_a_package() {
    let mut defined: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let package = path.split("src/").next().expect("a path has a start").to_owned();
        let before = [""].into_iter().chain(text.lines());
        for (index, (line, before)) in text.lines().zip(before).enumerate() {
            // A type that a feature replaces has one definition in each build.
            let Some(name) = defines(line).filter(|_| !before.starts_with("#[cfg(not(")) else {
                continue;
            };
            let place = format!("{path}:{}", index + 1);
            defined.entry((package.clone(), name.to_owned())).or_default().push(place);
        }
    }
    let wrong: Vec<String> = defined
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|((_, name), places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The type that a line at the top of a file defines.
fn defines(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let line = line.strip_prefix("pub(super) ").unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let (word, rest) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type"].contains(&word);
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    is_type.then_some(name)
}

/// The lines outside of comments and of unit tests, with their numbers.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
    let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.map(|(index, line)| (index + 1, line))
}

/// Every source file of all packages, as (path from the root, text).
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for package in packages() {
        gather(&root.join(package).join("src"), &mut files);
    }
    files.sort();
    let text = |path: PathBuf| {
        let name = path.strip_prefix(root).expect("it lies below the root").to_str();
        let name = name.expect("paths are UTF-8").to_owned();
        (name, fs::read_to_string(&path).expect("a source file can be read"))
    };
    files.into_iter().map(text).collect()
}

/// The folders of all packages, relative to the root. The root is a package itself.
fn packages() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("Cargo.toml")).expect("the manifest can be read");
    let manifest: toml::Table = text.parse().expect("a manifest is TOML");
    let members = manifest["workspace"]["members"].as_array().expect("members are a list");
    let members = members.iter().map(|member| member.as_str().expect("a member is a folder"));
    let mut packages: Vec<String> = members.map(str::to_owned).collect();
    packages.push(String::new());
    packages
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            gather(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}
