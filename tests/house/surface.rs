//! What the modules for users offer stands in a file, so that a change of it shows in a review.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::sources;

/// The modules that README and the guides name. The others are public for this project's tests.
const FOR_USERS: [&str; 6] = ["history", "lock", "own", "plan", "promise", "test"];

/// What is offered, in the order of the files.
const SURFACE: &str = "tests/golden/surface.txt";

#[test]
fn what_users_can_name_is_written_down() {
    let mut found = String::new();
    for (path, text) in sources() {
        let Some(place) = path.strip_prefix("src/") else { continue };
        let module = place.split(['/', '.']).next().unwrap_or_default();
        if FOR_USERS.contains(&module) {
            items(&text).for_each(|item| writeln!(found, "{place}: {item}").expect("it is text"));
        }
    }
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

/// The first line of each public item, field and method of a file, without its tests.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().map(str::trim);
    lines.filter_map(|line| Some(line.strip_prefix("pub ")?.trim_end_matches([' ', '{', '(', ','])))
}
