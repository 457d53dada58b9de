//! Hand-made false sentences, each refused by its predicate; the original sentence is true.

use std::collections::BTreeMap;

use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explain::story::{Story, StoryLine};
use lockstorm::scenario::Scenario;

use crate::true_stories::facts::Facts;
use crate::true_stories::{templates, whole, with_causes};

fn found(name: &str) -> Finding {
    let file = format!("{}/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(file).expect("the scenario is there");
    let scenario = Scenario::parse(name, &text).unwrap_or_else(|no| panic!("{}", no.render(false)));
    with_causes(&scenario)
}

fn all(story: &Story) -> impl Iterator<Item = &StoryLine> {
    story.lines.iter().chain(&story.folded)
}

/// (scenario, part of a true sentence, its false replacement)
const FALSE: &[(&str, &str, &str)] = &[
    ("gc-pause-outlives-lease", "granted the lock on n1", "granted the lock on n1 and n2"),
    ("gc-pause-outlives-lease", "its lease runs until 10.000 s", "its lease runs until 10.001 s"),
    ("gc-pause-outlives-lease", "its lease runs until", "its first lease runs until"),
    ("gc-pause-outlives-lease", "is paused for 15 s", "is paused for 14 s"),
    ("gc-pause-outlives-lease", "until 15.509 s", "until 15.508 s"),
    ("gc-pause-outlives-lease", "c1 is paused", "c2 is paused"),
    ("gc-pause-outlives-lease", ", while holding the lock", ", while c2 holds the lock"),
    (
        "gc-pause-outlives-lease",
        "c1's expired key is removed on n1",
        "c2's expired key is removed on n1",
    ),
    (
        "gc-pause-outlives-lease",
        "c1's expired key is removed on n1",
        "c1's expired key is removed on n2",
    ),
    ("gc-pause-outlives-lease", "key is removed on n1.", "key is removed on n1 and n2."),
    ("gc-pause-outlives-lease", "c1's expired key is removed on n1.", "n1 removes c1's key."),
    (
        "gc-pause-outlives-lease",
        "s expired key is removed on n1.",
        "s deletes its own newer key on n1.",
    ),
    ("gc-pause-outlives-lease", "until c2 releases it", "until c1 releases it"),
    ("gc-pause-outlives-lease", "until c2 releases it", "until c2 dies"),
    ("gc-pause-outlives-lease", "c1 and c2 both", "c1 and c3 both"),
    ("gc-pause-outlives-lease", "writes 1 over 2: an update was lost", "writes 1 over 1"),
    ("gc-pause-outlives-lease", "writes 1 over 0.", "writes 1 over 0: an update was lost."),
    ("gc-pause-outlives-lease", "reads 0", "reads 1"),
    ("failover-before-replication", "has not reached it", "has come to it"),
    (
        "failover-before-replication",
        "'s key on n1 has not reached it",
        "'s key on n3 has not reached it",
    ),
    (
        "setnx-holder-crashes",
        "with no time to live: nothing will ever remove it",
        "with time to live left",
    ),
    ("setnx-holder-crashes", "is never let in", "is let in only then"),
    ("setnx-holder-crashes", "'s key is on n1", "'s key is on n2"),
    ("script-cache-lost-at-failover", "with NOSCRIPT", "with READONLY"),
    (
        "sentinel-failover-loses-grant",
        "which followed n1, is a master",
        "which followed n3, is a master",
    ),
    ("sentinel-failover-loses-grant", "suspect that n1 is down", "suspect that n2 is down"),
];

#[test]
fn what_is_false_is_refused() {
    let mut wrong = Vec::new();
    let mut findings: BTreeMap<&str, Finding> = BTreeMap::new();
    for (name, right, false_words) in FALSE {
        let finding = &*findings.entry(name).or_insert_with(|| found(name));
        let facts = Facts::of(finding);
        let story = explain(finding).story;
        let Some(line) = all(&story).find(|line| line.text.contains(right)) else {
            wrong.push(format!("{name} says nowhere '{right}'"));
            continue;
        };
        let text = line.text.replacen(right, false_words, 1);
        if templates::judge(&facts, line).is_err() {
            wrong.push(format!("{name}: '{}' is refused", line.text));
        }
        if templates::judge_text(&facts, line.at, &text).is_ok() {
            wrong.push(format!("{name}: '{text}' passes"));
        }
        let mut later = line.at;
        later.at += 1_000_000;
        if templates::judge_text(&facts, later, &line.text).is_ok() {
            wrong.push(format!("{name}: '{}' passes a millisecond later", line.text));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_story_that_is_wrong_as_a_whole_is_refused() {
    let finding = found("gc-pause-outlives-lease");
    let facts = Facts::of(&finding);
    let story = explain(&finding).story;
    assert_eq!(whole::wrong(&facts, &story), Vec::<String>::new());
    let mut twice = story.clone();
    twice.lines.push(story.lines[0].clone());
    let mut turned = story.clone();
    turned.lines.swap(0, 1);
    let mut long = story.clone();
    long.lines.extend(story.lines.iter().cloned());
    let mut ended = story.clone();
    ended.lines[0].text = "c1 is paused for 1 s, until 0.001 s.".to_owned();
    for story in [twice, turned, long, ended] {
        assert!(!whole::wrong(&facts, &story).is_empty(), "{story:?}");
    }
    let title = "c1 held on past its lease while c2 held the lock, for 2.016 s.";
    assert_eq!(whole::title(&facts, title), Ok(()));
    assert!(whole::title(&facts, &title.replace("2.016", "22.016")).is_err());
}
