//! Every sentence of a story is true, by predicates that share nothing with its rendering.
//!
//! A sentence is matched against the templates of `templates`, by its text alone. Each template has
//! a predicate over the recorded history and the plan; a sentence that no template matches is
//! refused. Requirements on a story as a whole are in `whole`. The stories are those of drawn plans
//! on every lock and topology, violated or held, of all scenarios, and of the hand-written histories
//! that name their mechanism.
//!
//! `LOCKSTORM_STORIES` sets the number of hunted violations, and half of it are runs that held;
//! `LOCKSTORM_FROM` the first seed; with `LOCKSTORM_PRINT=1` each sentence is printed.

mod accesses;
mod answers;
mod calm;
mod drawn;
mod facts;
mod faults;
mod grants;
mod keys;
mod liveness;
mod orders;
mod pattern;
mod places;
mod refused;
mod roles;
mod shared;
mod templates;
mod whole;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explain::story::StoryLine;
use lockstorm::explore::examine;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};

use crate::amount::{amount, number, sample};
use crate::story::Story;
use crate::true_stories::facts::Facts;
use crate::{NO_TIME, histories};

/// The default number of hunted violations.
const DEFAULT: usize = 100;
/// The maximum number of false sentences of one kind that are shown.
const SHOWN: usize = 3;

/// The sentences that were read, and the false ones among them.
#[derive(Default)]
struct Tally {
    stories: usize,
    sentences: usize,
    sentence: BTreeMap<&'static str, usize>,
    wrong: BTreeMap<String, Vec<String>>,
}

impl Tally {
    fn join(mut self, other: Tally) -> Tally {
        self.stories += other.stories;
        self.sentences += other.sentences;
        for (pattern, count) in other.sentence {
            *self.sentence.entry(pattern).or_default() += count;
        }
        for (kind, wrong) in other.wrong {
            self.wrong.entry(kind).or_default().extend(wrong);
        }
        self
    }

    /// Reads all sentences of a finding.
    fn read(mut self, finding: &Finding) -> Tally {
        let facts = Facts::of(finding);
        let explanation = explain(finding);
        let name = format!("{} of seed {}", finding.plan.name, finding.seed);
        self.stories += 1;
        let mut wrong = |kind: &str, line: String| {
            self.wrong.entry(kind.to_owned()).or_default().push(format!("{name}: {line}"));
        };
        for line in all_lines(&explanation.story) {
            self.sentences += 1;
            if number("LOCKSTORM_PRINT").is_some() {
                println!("{name}: {}", shown(line));
            }
            match templates::judge(&facts, line) {
                Ok(pattern) => *self.sentence.entry(pattern).or_default() += 1,
                Err((pattern, why)) => wrong(pattern, format!("'{}': {why}", shown(line))),
            }
        }
        for why in whole::wrong(&facts, &explanation.story) {
            wrong("as a whole", why);
        }
        if let Err(why) = whole::title(&facts, &explanation.verdict) {
            wrong("the title", format!("'{}': {why}", explanation.verdict));
        }
        self
    }

    /// The counts, and a panic if anything is false.
    fn report(self, what: &str) {
        println!("{what}: {} stories, {} sentences", self.stories, self.sentences);
        let mut sentence: Vec<_> = self.sentence.iter().collect();
        sentence.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (pattern, count) in sentence {
            println!("{count:8}  {pattern}");
        }
        self.check(what);
    }

    /// Panics if anything is false.
    fn check(self, what: &str) {
        let mut text = String::new();
        for (kind, wrong) in &self.wrong {
            text += &format!("\n{} of '{kind}', as\n", wrong.len());
            wrong.iter().take(SHOWN).for_each(|line| text += &format!("  {line}\n"));
        }
        assert!(self.wrong.is_empty(), "false sentences in {what}:{text}");
    }
}

/// Panics if a sentence of a finding's story is false.
pub fn is_true(finding: &Finding) {
    Tally::default().read(finding).check("the story");
}

/// The told lines, and the folded ones.
fn all_lines(story: &lockstorm::explain::story::Story) -> impl Iterator<Item = &StoryLine> {
    story.lines.iter().chain(&story.folded)
}

fn shown(line: &StoryLine) -> String {
    format!("{}.{:03} s {}", line.at.at / 1_000_000_000, line.at.at / 1_000_000 % 1_000, line.text)
}

#[test]
fn every_sentence_of_a_hunted_violation_is_true() {
    drawn_stories(amount("LOCKSTORM_STORIES", DEFAULT), true).report("hunted violations");
}

#[test]
fn every_sentence_of_a_drawn_run_that_held_is_true() {
    let stories = amount("LOCKSTORM_STORIES", DEFAULT) / 2;
    drawn_stories(stories, false).report("runs that held");
}

#[test]
fn every_sentence_of_a_history_with_a_mechanism_is_true() {
    let sentence = histories::expected();
    assert!(!sentence.is_empty(), "no history names its mechanism");
    let read = |tally: Tally, (finding, _): &(Finding, Story)| tally.read(finding);
    sentence.iter().fold(Tally::default(), read).report("histories");
}

fn drawn_stories(stories: usize, violated: bool) -> Tally {
    let from = number("LOCKSTORM_FROM").unwrap_or(1) as u64;
    let rows = sample(drawn::rows());
    let quota = stories.div_ceil(rows.len());
    let read = |row: &drawn::Row| {
        let found = drawn::findings(row, from, violated).take(quota);
        found.fold(Tally::default(), |tally, finding| tally.read(&finding))
    };
    let tally = rows.par_iter().map(read).reduce(Tally::default, Tally::join);
    assert!(tally.stories * 2 > stories, "only {} stories were found", tally.stories);
    tally
}

/// What a scenario's first seed comes to, with its causes: what a story is made of.
fn with_causes(scenario: &Scenario) -> Finding {
    let lab = Lab::default();
    let found = examine::unexplained(&lab, scenario, scenario.seeds()[0]);
    examine::explained(&lab, Some(NO_TIME), &[], found)
}

/// A file of `tests/stories/` is a scenario whose first comments are what sentences of its story, or
/// that of its verdict, say, and what none says.
#[test]
fn stories_of_plans_say_what_happened_and_are_true() {
    let mut tally = Tally::default();
    for file in fs::read_dir("tests/stories").expect("plans") {
        let path = file.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a scenario");
        let scenario = Scenario::parse(&path.to_string_lossy(), &text).expect("a scenario");
        let finding = with_causes(&scenario);
        let explanation = explain(&finding);
        let mut sentence: Vec<String> = all_lines(&explanation.story).map(shown).collect();
        sentence.push(explanation.verdict);
        for (word, is_right) in [("says", true), ("never", false)] {
            let lead = format!("# {word} = \"");
            for words in text.lines().filter_map(|line| line.strip_prefix(&lead)) {
                let words = words.trim_end_matches('"');
                let is_stated = sentence.iter().any(|line| line.contains(words));
                let story = sentence.join("\n");
                assert!(is_stated == is_right, "{}: {word} '{words}':\n{story}", path.display());
            }
        }
        tally = tally.read(&finding);
    }
    tally.report("plans");
}

#[test]
fn every_sentence_of_the_scenarios_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = fs::read_dir(folder).expect("the scenarios are there");
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let scenario = Scenario::parse(&name, &fs::read_to_string(file).unwrap());
        let scenario = scenario.unwrap_or_else(|no| panic!("{}", no.render(false)));
        let finding = with_causes(&scenario);
        Tally::default().read(&finding)
    };
    let files = sample(files);
    files.par_iter().map(read).reduce(Tally::default, Tally::join).report("scenarios");
}
