//! What the profile of a lock or of a client library says, and the committed pages: each is what
//! the program writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use lockstorm::hunt::matrix::{Contender, MatrixRow};
use lockstorm::hunt::profile::Profile;
use lockstorm::report::page::Page;
use lockstorm::report::profile::{
    FOLDER, INDEX, index, index_start, page, page_name, page_start, text,
};
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::amount::{is_whole, number};
use crate::scenarios::{root, scenarios};

#[test]
fn a_scenario_of_a_library_is_on_the_page_of_that_library_alone() {
    let text_of = "name = \"of-redsync\"\nask = \"Does it hold?\"\n\
                   topology = { kind = \"independent\", nodes = 5 }\n\
                   lock = { library = \"redsync\", ttl = \"10s\" }\n";
    let scenarios = [Scenario::parse("of-redsync.toml", text_of).expect("it is valid")];
    let has_it = |name: &str| {
        let contender = Contender::find(name).expect("it is known");
        text(&Profile::of(&Lab::default(), contender, &scenarios)).contains("- of-redsync: Does it")
    };
    let found = ["redsync", "redlock", "rslock"].map(has_it);
    assert_eq!(found, [true, false, false]);
}

/// A page that did not say what an option is where a scenario omits it would be of no use.
#[test]
fn an_option_has_its_default_on_the_page_of_a_lock_and_its_own_value_on_that_of_a_library() {
    let line = |name: &str, key: &str| {
        let contender = Contender::find(name).expect("it is known");
        let text = text(&Profile::of(&Lab::default(), contender, &[]));
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{key} ")));
        let words: Vec<&str> = line.expect("it has it").split_whitespace().take(3).collect();
        words[1..].join(" ")
    };
    for (name, key, value) in [
        ("redlock", "replies", "all whether"),
        ("redlock", "tries", "3 number"),
        ("redlock", "timeout", "50 ms"),
        ("redlock", "quorum", "- how"),
        ("redlock", "resend", "0 how"),
        ("pottery", "replies", "quorum whether"),
        ("redsync", "tries", "32 number"),
        ("token-lua-renewed", "cancel_renewal", "false whether"),
    ] {
        assert_eq!(line(name, key), value, "{key} of {name}");
    }
}

/// The folder of the committed pages.
fn folder() -> PathBuf {
    root().join(FOLDER)
}

/// What is committed under this name; nothing if there is no such file.
fn committed(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_default()
}

const AGAIN: &str = "just pages writes them anew, or \
                     LOCKSTORM_GOLDEN=write cargo test --release --test lab pages::";

/// Whether the pages are written, which takes a release build.
fn is_written() -> bool {
    let is_written = std::env::var_os("LOCKSTORM_GOLDEN").is_some_and(|word| word == "write");
    assert!(!is_written || is_whole(), "a debug build writes no pages: write with --release");
    is_written
}

/// What breaks a lock takes long to find: a release build compares it.
#[test]
fn each_page_begins_with_what_the_lock_is_and_none_is_left_of_a_lock_that_is_gone() {
    if is_written() {
        return;
    }
    let (all, scenarios) = (Contender::all(), scenarios());
    let differs = |contender: &&Contender| {
        let start = page_start(&Profile::of(&Lab::default(), **contender, &scenarios));
        !committed(&page_name(contender)).starts_with(&start)
    };
    let mut stale: Vec<String> = all.par_iter().filter(differs).map(page_name).collect();
    stale.extend((!committed(INDEX).starts_with(&index_start(&all))).then(|| INDEX.to_owned()));
    assert!(stale.is_empty(), "not what the code does: {stale:?} in {FOLDER}: {AGAIN}");
    let names: BTreeSet<String> = all.iter().map(page_name).chain([INDEX.to_owned()]).collect();
    let files = fs::read_dir(folder()).expect("the pages are there").map(|file| file.unwrap());
    let files = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, files, "the files of {FOLDER} are not the pages");
}

/// How many commits it takes until all pages were compared.
const PART: usize = 10;

/// The tenth of the pages that is compared is that of `LOCKSTORM_TENTH`, another one with each
/// commit in CI.
#[test]
#[cfg_attr(debug_assertions, ignore = "minutes: a release build compares them")]
fn the_committed_pages_are_what_the_program_writes() {
    let is_written = is_written();
    let (all, scenarios) = (Contender::all(), scenarios());
    let tenth = number("LOCKSTORM_TENTH").unwrap_or(1);
    let tried =
        all.iter().enumerate().filter(|(nth, _)| is_written || (nth + tenth).is_multiple_of(PART));
    let tried: Vec<&Contender> = tried.map(|(_, contender)| contender).collect();
    let made = tried.par_iter().map(|contender| {
        let profile = Profile::of(&Lab::default(), **contender, &scenarios);
        let damage = profile.damage(&Lab::default());
        (page(&profile, &damage), damage.row)
    });
    let (mut pages, rows): (Vec<Page>, Vec<MatrixRow>) = made.unzip();
    let index = index(&all, &rows);
    if is_written {
        pages.push(index.clone());
        pages.iter().for_each(|page| fs::write(folder().join(&page.name), &page.text).unwrap());
    }
    let stale = pages.iter().filter(|page| committed(&page.name) != page.text);
    let stale: Vec<&str> = stale.map(|page| page.name.as_str()).collect();
    assert!(stale.is_empty(), "not what the program writes: {stale:?} in {FOLDER}: {AGAIN}");
    let known = committed(INDEX);
    let lines: BTreeSet<&str> = known.lines().collect();
    let new: Vec<&str> = index.text.lines().filter(|line| !lines.contains(line)).collect();
    assert!(new.is_empty(), "not in {FOLDER}/{INDEX}: {AGAIN}\n{}", new.join("\n"));
}
