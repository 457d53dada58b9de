//! What documents list or count is what there is.

use std::fs;
use std::path::Path;

use lockstorm::check::verdict::Kind;
use lockstorm::lock::library::{KnownFrom, LIBRARIES};

fn text(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(file).unwrap_or_else(|why| panic!("{path}: {why}"))
}

#[test]
fn the_readme_says_what_each_verdict_means() {
    let readme = text("README.md");
    let (_, table) = readme.split_once("| verdict | meaning |").expect("a table of verdicts");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let explained: Vec<&str> =
        rows.filter_map(|row| row.split('|').nth(1)).flat_map(|kinds| kinds.split(',')).collect();
    let explained: Vec<&str> = explained.iter().map(|kind| kind.trim()).collect();
    for kind in Kind::ALL {
        let word = kind.word().replace('-', " ");
        assert!(explained.contains(&&*word), "no row for '{word}': {explained:?}");
    }
    assert_eq!(explained.len(), Kind::ALL.len(), "{explained:?}");
}

#[test]
fn the_number_of_planted_bugs_is_that_of_the_tables() {
    let tables =
        ["locks", "world", "checkers"].map(|name| text(&format!("tests/mutants/{name}.toml")));
    let planted = tables.iter().map(|table| table.matches("[[mutant]]").count()).sum::<usize>();
    let log = text("CHANGELOG.md");
    let (_, rest) = log.split_once("more than ").expect("a number of mutants");
    let (said, rest) = rest.split_once(' ').expect("words");
    assert!(rest.starts_with("mutants of locks"), "another sentence: {rest}");
    let said: usize = said.parse().expect("a number");
    assert!(said < planted && planted <= said + 100, "there are {planted}");
}

#[test]
fn the_readme_counts_the_scenarios_and_the_page_of_libraries_names_some() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let names = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let names = names.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let names: Vec<String> =
        names.map(|path| path.file_stem().unwrap().display().to_string()).collect();
    let said = format!("That is one of {} scenarios.", names.len());
    assert!(text("README.md").contains(&said), "the README does not say: {said}");
    let page = text("docs/libraries.md");
    let (_, table) = page.split_once("| report | what happened | scenario |").expect("a table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    for row in rows {
        let name = row.rsplit('|').nth(1).expect("a cell").trim().trim_matches('`');
        assert!(names.iter().any(|known| known == name), "there is no scenario '{name}'");
    }
}

/// A library is said to behave as it does where the page of libraries says that it was seen or read.
#[test]
fn each_library_stands_in_the_page_with_what_it_is_known_from() {
    let page = text("docs/libraries.md");
    for library in &LIBRARIES {
        let (name, version) = (library.name, library.version);
        let evidence = match library.known {
            KnownFrom::Source(commit) => format!("source {commit}"),
            KnownFrom::Wire => format!("tests/wire/{name}-{version}.txt"),
        };
        assert!(page.contains(&evidence), "{name} {version}: {evidence}");
        let is_there = library.known != KnownFrom::Wire || !text(&evidence).is_empty();
        assert!(is_there, "{evidence} is empty");
    }
}
