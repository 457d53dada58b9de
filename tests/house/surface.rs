//! What users can name stands in a file, so that a change of it shows in a review: the modules for
//! users, and what `own` offers from other modules.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::sources;

/// The modules that README and the guides name. The others are public for this project's tests.
const FOR_USERS: [&str; 7] = ["history", "lock", "own", "plan", "production", "promise", "test"];

/// What is offered, in the order of the files.
const SURFACE: &str = "tests/golden/surface.txt";

#[test]
fn what_users_can_name_is_written_down() {
    let sources = sources();
    let own = sources.iter().find(|(path, _)| path == "src/own.rs").expect("a module own");
    let mut elsewhere = offered_by(&own.1);
    let mut found = String::new();
    for (path, text) in &sources {
        let place = path.strip_prefix("src/").unwrap_or(path);
        let module = place.split(['/', '.']).next().unwrap_or_default();
        let named = elsewhere.remove(&module_of(path));
        let items = match FOR_USERS.contains(&module) {
            true => items(text, &|_| true),
            false => items(text, &|head| named.iter().flatten().any(|name| is_of(head, name))),
        };
        for item in items {
            writeln!(found, "{place}: {item}").expect("it is text");
        }
    }
    assert!(elsewhere.is_empty(), "no file has {elsewhere:?}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(SURFACE);
    #[allow(clippy::disallowed_methods, reason = "whether to write, not what")]
    if std::env::var("LOCKSTORM_GOLDEN").is_ok_and(|word| word == "write") {
        fs::write(&file, &found).expect("the surface is written");
    }
    let known = fs::read_to_string(&file).unwrap_or_default();
    let is_new = |line: &&str| !known.lines().any(|other| other == *line);
    let is_gone = |line: &&str| !found.lines().any(|other| other == *line);
    let new: Vec<&str> = found.lines().filter(is_new).collect();
    let gone: Vec<&str> = known.lines().filter(is_gone).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:#?}\ngone: {gone:#?}\nLOCKSTORM_GOLDEN=write writes {SURFACE} anew"
    );
}

/// What `own` offers, by the module that has it: `crate::check::case`. Other people's crates are
/// left out.
fn offered_by(own: &str) -> BTreeMap<String, Vec<&str>> {
    let mut offered: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in own.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let (module, names) = line.rsplit_once("::").expect("a path");
        let (module, names) = line.split_once("::{").unwrap_or((module, names));
        let is_ours = module.starts_with("crate::") || module.starts_with("lockstorm_platform");
        let names = names.trim_end_matches('}').split(',').map(str::trim);
        let names = names.filter(|name| is_ours && !name.is_empty());
        names.for_each(|name| offered.entry(module.to_owned()).or_default().push(name));
    }
    offered
}

/// The path of the module that a file is, as code of the main package names it.
fn module_of(path: &str) -> String {
    let inside = path.strip_prefix("src/").map(|place| ("crate", place));
    let (root, place) = inside
        .or_else(|| Some(("lockstorm_platform", path.strip_prefix("sim/platform/src/")?)))
        .unwrap_or(("elsewhere", path));
    let place = place.trim_end_matches(".rs").trim_end_matches("/mod");
    format!("{root}::{}", place.replace('/', "::"))
}

/// The first line of each public item of a file, of its public fields and methods, and of the
/// variants of an enum and the functions of a trait. `is_wanted` chooses by the first line of the
/// item or the `impl`. Tests are left out.
fn items<'a>(text: &'a str, is_wanted: &dyn Fn(&str) -> bool) -> Vec<&'a str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut head = "";
    let mut found = Vec::new();
    for line in code.lines() {
        if line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            head = line;
        }
        let inner = line.strip_prefix("    ").unwrap_or_default();
        let is_public = line.trim_start().starts_with("pub ");
        let is_variant = head.starts_with("pub enum")
            && inner.starts_with(|first: char| first.is_ascii_uppercase());
        let is_required = head.starts_with("pub trait")
            && (inner.starts_with("fn ") || inner.starts_with("async fn "));
        if (is_public || is_variant || is_required) && is_wanted(head) {
            let item = line.trim_start().trim_start_matches("pub ");
            found.push(item.trim_end_matches([' ', '{', '(', ',']));
        }
    }
    found
}

/// Whether an item has this name, or an `impl` is one of it.
fn is_of(head: &str, name: &str) -> bool {
    let mut words = head.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let what = ["pub", "const", "async", "fn", "struct", "enum", "trait", "type", "static"];
    match head.starts_with("impl") {
        true => words.any(|word| word == name),
        false => words.find(|word| !what.contains(word)) == Some(name),
    }
}
