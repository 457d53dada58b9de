//! The files in `scenarios/` as texts: each can be read, and says in plain words what it asks.
//! What they come to when they are run is held elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lockstorm::plan::algorithm::ALGORITHMS;
use lockstorm::scenario::Scenario;
use lockstorm::scenario::expectation::Expectation;

fn all() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &Path| {
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(path).unwrap();
        let scenario =
            Scenario::parse(&stem, &text).unwrap_or_else(|no| panic!("{}", no.render(false)));
        (stem, scenario)
    };
    paths.iter().map(|path| read(path)).collect()
}

#[test]
fn every_file_is_one_question_in_plain_words() {
    let mut questions = BTreeSet::new();
    for (stem, scenario) in all() {
        assert_eq!(scenario.name, stem);
        assert!(scenario.text.starts_with("# "), "{stem}: the first line says it in plain words");
        assert!(scenario.ask.ends_with('?'), "{stem}: {}", scenario.ask);
        assert!(questions.insert(scenario.ask), "{stem} asks what another file asks");
        assert_ne!(scenario.expect, Expectation::Unstated, "{stem}");
    }
    assert!(questions.len() >= 24);
}

#[test]
fn every_lock_has_a_file() {
    let tried: BTreeSet<String> =
        all().into_iter().map(|(_, scenario)| scenario.plan(1).lock.algorithm).collect();
    for algorithm in ALGORITHMS {
        assert!(tried.contains(algorithm.name), "no scenario tries {}", algorithm.name);
    }
}
