//! The README's example of a lock of one's own is correct: its code is compiled here, and the story
//! in it is the one that is found.

use lockstorm::explain::explanation::explain;
use lockstorm::quantity::moment;

/// The README's `tests/lock.rs`, word for word except for its test, which fails.
mod lock {
    include!("lock.rs");

    pub const OWN: Algorithm = MINE;
    pub const ON: TopologyKind = TopologyKind::Single;
}

/// The lock of the guide that renews its lease, word for word.
mod renewed {
    include!("renewed.rs");

    pub const OWN: Algorithm = RENEWED;
}

const README: &str = include_str!("../../../README.md");
const GUIDE: &str = include_str!("../../../docs/own-locks.md");

/// The block of the README in this language that contains these words.
fn block<'a>(language: &str, words: &str) -> &'a str {
    let fence = format!("```{language}\n");
    let mut blocks =
        README.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains(words)).expect("the README has it")
}

#[test]
fn the_lock_of_the_readme_is_the_one_that_is_compiled() {
    assert!(block("rust", "struct Mine").starts_with(include_str!("lock.rs")));
}

#[test]
fn the_story_of_the_readme_is_the_one_that_is_found() {
    let finding =
        lockstorm::test::hunt_own(lock::OWN, lock::ON).within_assumptions().seeds(1..=200).finds();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentences: Vec<String> = explain(&finding)
        .story
        .lines
        .iter()
        .map(|line| words(&format!("{} {}", moment(line.at.at), line.text)))
        .collect();
    let written = words(block("text", "VIOLATED  hunt-mine"));
    let story = sentences.join("\n");
    assert!(
        written.ends_with(&sentences.join(" ")),
        "the README tells another story than seed {}:\n{story}",
        finding.seed
    );
    let saved = format!("hunt-mine-{}-{}.plan.json", finding.seed, finding.plan_hash);
    assert!(README.contains(&saved), "{saved}");
}

#[test]
fn the_lock_of_the_guide_keeps_its_promise() {
    assert!(GUIDE.contains(include_str!("renewed.rs")), "the guide has another lock");
    lockstorm::test::hunt_own(renewed::OWN, lock::ON).within_assumptions().seeds(1..=100).holds();
}
