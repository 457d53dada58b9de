//! A file of `tests/locks/`: the scripts of a lock, how its callers use it, and what a hunt must
//! say of it. A file may name another one (`like`) and have only what differs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use lockstorm::check::verdict::Kind;
use lockstorm::own::{Extend, TopologyKind};
use serde::Deserialize;
use toml::Table;

/// Comes before each script. KEYS: the lock, its queue and a third key, or the group. ARGV: the
/// token; ms of the lease; ms that a sign of life stays; how often the caller has the lock with
/// this grant; the names of the caller and of its tenure, which begins when it takes the lock that
/// it does not have.
const NAMES: &str = r#"
local call = redis.call
local key, queue, other = KEYS[1], KEYS[2], KEYS[3]
local token, ttl, alive, depth = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local caller, tenure = ARGV[5], ARGV[6]
local time = call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"#;

/// The script of a lock whose acquire does at the end of its patience what a release does.
const AS_RELEASE: &str = "release";

/// A lock as its file states it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// What a hunt within the lock's assumptions must say.
    pub expect: Expect,
    /// The number of plans within which a bug must be found, or that a correct lock has to
    /// withstand.
    pub plans: Option<usize>,
    /// Lua functions that come before each script.
    #[serde(default)]
    functions: String,
    pub acquire: String,
    pub extend: String,
    pub release: String,
    /// A second request of a try that got the lock.
    pub confirm: Option<String>,
    /// A lock that has it has a shared mode.
    pub acquire_shared: Option<String>,
    /// What an acquire does at the end of its patience: a script, or [`AS_RELEASE`].
    pub give_up: Option<String>,
    /// How often a refused acquire tries again, ms; without it, never.
    pub poll_ms: Option<u64>,
    /// How long a waiter's sign of life stays, ms.
    #[serde(default = "three_seconds")]
    pub alive_ms: u64,
    /// Whether an acquire with an unknown outcome tries again, with the same token.
    #[serde(default)]
    pub asks_again: bool,
    /// Whether an acquire replies with the grant's fence.
    #[serde(default)]
    pub fences: bool,
    /// Whether callers acquire groups of keys.
    #[serde(default)]
    pub groups: bool,
    /// Whether the lock promises the order of its queue.
    #[serde(default)]
    pub queues: bool,
    #[serde(default = "one")]
    pub holders: u32,
    #[serde(default = "single")]
    pub topology: TopologyKind,
    // What the hunt does not draw.
    pub clients: Option<u32>,
    pub callers: Option<u32>,
    pub reenter: Option<bool>,
    pub extends: Option<Extend>,
}

/// What a hunt within the lock's assumptions must say.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Expect {
    /// No violation.
    Clean(Clean),
    /// A violation with these kinds.
    Found(Vec<Kind>),
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Clean {
    Clean,
}

fn one() -> u32 {
    1
}

fn three_seconds() -> u64 {
    3_000
}

fn single() -> TopologyKind {
    TopologyKind::Single
}

/// All locks, in the order of the names of their files.
pub fn all() -> impl Iterator<Item = (&'static str, &'static File)> {
    files().iter().map(|(name, file)| (name.as_str(), file))
}

/// The lock of this name.
pub fn named(name: &str) -> &'static File {
    &files()[name]
}

fn files() -> &'static BTreeMap<String, File> {
    static FILES: OnceLock<BTreeMap<String, File>> = OnceLock::new();
    FILES.get_or_init(|| names().into_iter().map(|name| (name.clone(), read(&name))).collect())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks")
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("a readable folder");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    paths.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

fn read(name: &str) -> File {
    let mut file: File = table(name).try_into().unwrap_or_else(|why| panic!("{name}: {why}"));
    if file.give_up.as_deref() == Some(AS_RELEASE) {
        file.give_up = Some(file.release.clone());
    }
    let functions = std::mem::take(&mut file.functions);
    let own = [&mut file.acquire, &mut file.extend, &mut file.release];
    let others = [&mut file.confirm, &mut file.acquire_shared, &mut file.give_up];
    for script in own.into_iter().chain(others.into_iter().flatten()) {
        *script = format!("{NAMES}{functions}{script}");
    }
    file
}

/// The table of a file, with what it takes over from the one that it is like.
fn table(name: &str) -> Table {
    let path = folder().join(name).with_extension("toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{name}: {why}"));
    let mut own: Table = toml::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
    let Some(like) = own.remove("like") else { return own };
    let mut all = table(like.as_str().expect("the name of a file"));
    for of_each in ["expect", "plans"] {
        all.remove(of_each);
    }
    all.extend(own);
    all
}
