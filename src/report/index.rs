//! The table of all scenarios, grouped by lock, as Markdown.

use std::collections::BTreeMap;

use crate::check::verdict::Verdict;
use crate::explain::finding::{Class, Finding};
use crate::explain::naming::verdict_words;
use crate::quantity::count;
use crate::report::content::Table;
use crate::report::markdown;

/// One row of the index, so that findings need not be kept until the index is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The lock's algorithm.
    pub lock: String,
    /// The scenario's name.
    pub scenario: String,
    /// Its question.
    pub ask: String,
    /// `holds`, `unknown`, or the kinds that were violated.
    pub verdict: String,
    /// Whether it was violated.
    pub violated: bool,
    /// Whether the verdict was unknown.
    pub unknown: bool,
    /// The class of the violation.
    pub class: &'static str,
    /// Whether this result was expected; `None` without an expectation.
    pub met: Option<bool>,
}

impl Entry {
    /// The row of a finding.
    pub fn of(finding: &Finding) -> Entry {
        let verdict = &finding.judgement.verdict;
        Entry {
            lock: finding.plan.lock.algorithm.clone(),
            scenario: finding.scenario.clone(),
            ask: finding.ask.clone(),
            verdict: verdict_words(verdict),
            violated: matches!(verdict, Verdict::Violated(_)),
            unknown: matches!(verdict, Verdict::Unknown(_)),
            class: match finding.class.as_ref().map(Class::is_in_model) {
                None => "-",
                Some(true) => "in model",
                Some(false) => "out of model",
            },
            met: finding.expected.as_ref().map(|expected| expected.met),
        }
    }
}

/// Which scenarios are linked to their reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked<'a> {
    /// All of them: the reports are beside the index.
    All,
    /// These; the page with the second name, which a run writes beside this one, links all of them.
    Some(&'a [&'a str], &'a str),
}

impl Linked<'_> {
    fn names(self, scenario: &str) -> bool {
        match self {
            Linked::All => true,
            Linked::Some(scenarios, _) => scenarios.contains(&scenario),
        }
    }

    /// A sentence on where the reports of the other scenarios are.
    fn others(self) -> String {
        match self {
            Linked::All => String::new(),
            Linked::Some(_, all) => format!(
                " The repository keeps the reports that are linked here. `cargo run --release` \
                 writes those of all scenarios, and `{all}` beside this page, which links every \
                 one."
            ),
        }
    }
}

/// The index of all entries.
pub fn page(entries: &[Entry], linked: Linked) -> String {
    let mut out = String::from("# Scenarios\n\n");
    out.push_str(&format!("{}\n", totals(entries)));
    out.push_str(&format!(
        "\nEach scenario asks one question of one lock; the verdict is that of its first seed. A \
         violation is *in model* if the plan, or part of it, shows one while every assumption of \
         the lock is kept, and *out of model* if it only does after one was broken.{}\n",
        linked.others()
    ));
    let mut locks: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        locks.entry(&entry.lock).or_default().push(entry);
    }
    for (lock, mut entries) in locks {
        entries.sort_by(|a, b| a.scenario.cmp(&b.scenario));
        out.push_str(&format!("\n## `{lock}`\n\n"));
        let rows = entries.iter().map(|entry| row(entry, linked)).collect();
        let head = vec!["scenario", "question", "verdict", "class", "as expected"];
        markdown::table(&mut out, &Table { head, rows });
    }
    out
}

fn totals(entries: &[Entry]) -> String {
    let number = |wanted: fn(&&Entry) -> bool| entries.iter().filter(wanted).count();
    let unmet = number(|entry| entry.met == Some(false));
    format!(
        "{}: {} held, {} violated, {} unknown; {}.",
        count(entries.len() as u64, "scenario"),
        number(|entry| !entry.violated && !entry.unknown),
        number(|entry| entry.violated),
        number(|entry| entry.unknown),
        if unmet == 0 { "all as expected".to_owned() } else { format!("{unmet} not as expected") },
    )
}

fn row(entry: &Entry, linked: Linked) -> Vec<String> {
    let name = &entry.scenario;
    vec![
        if linked.names(name) { format!("[{name}]({name}.md)") } else { name.clone() },
        entry.ask.clone(),
        entry.verdict.clone(),
        entry.class.to_owned(),
        match entry.met {
            None => "-".to_owned(),
            Some(true) => "yes".to_owned(),
            Some(false) => "NO".to_owned(),
        },
    ]
}
