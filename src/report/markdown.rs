//! Markdown for a pull request: the verdict first, the raw data last.

use std::fmt::Write;

use crate::explain::explanation::Explanation;
use crate::explain::finding::{Expected, Finding};
use crate::explain::naming::{class_words, verdict_words};
use crate::quantity::moment;
use crate::report::causes;
use crate::report::chapter::{Block, Chapter};
use crate::report::content::{self, Table};
use crate::report::{service, settings};

/// The report of one finding; its picture is expected beside it as `NAME.svg`.
pub fn page(finding: &Finding, explanation: &Explanation) -> String {
    let mut out = String::new();
    heading(&mut out, finding, explanation);
    mechanism(&mut out, explanation);
    assumptions(&mut out, finding, explanation);
    story(&mut out, explanation);
    why(&mut out, finding, explanation);
    let name = &finding.scenario;
    section(&mut out, "Picture");
    line(&mut out, &format!("![{}]({name}.svg)", bracketed(&explanation.verdict)));
    section(&mut out, "Counts");
    table(&mut out, &content::counts(finding));
    section(&mut out, "Availability");
    table(&mut out, &service::table(finding));
    let violations = content::violations(finding);
    if !violations.rows.is_empty() {
        section(&mut out, "Violations");
        table(&mut out, &violations);
        for more in content::more_violations(finding).iter().chain(&explanation.arguments) {
            line(&mut out, "");
            line(&mut out, &escaped(more));
        }
    }
    section(&mut out, "Faults");
    let faults = content::faults(finding);
    if faults.rows.is_empty() {
        line(&mut out, "None.");
    } else {
        table(&mut out, &faults);
    }
    let set = settings::table(finding);
    if !set.rows.is_empty() {
        section(&mut out, "Settings");
        table(&mut out, &set);
    }
    reproduce(&mut out, finding);
    section(&mut out, "Not tested");
    for untested in content::untested(finding) {
        line(&mut out, &format!("- {untested}"));
    }
    out
}

/// A report in chapters, each under its title.
pub fn chapters(chapters: &[Chapter]) -> String {
    let mut out = String::new();
    for Chapter { title, blocks } in chapters {
        section(&mut out, title);
        let is_empty =
            |block: &&Block| matches!(block, Block::Table(table) if table.rows.is_empty());
        for (nth, block) in blocks.iter().filter(|block| !is_empty(block)).enumerate() {
            if nth > 0 {
                line(&mut out, "");
            }
            part(&mut out, block);
        }
    }
    out
}

fn part(out: &mut String, block: &Block) {
    match block {
        Block::Heading(title) => line(out, &format!("### {}", escaped(title))),
        Block::Text(text) => line(out, &escaped(text)),
        Block::Items(items) => {
            items.iter().for_each(|item| line(out, &format!("- {}", escaped(&capitalised(item)))));
        }
        Block::Story(lines) => {
            for (nth, (at, text)) in (1..).zip(lines) {
                line(out, &format!("{nth}. `{}` {}", moment(*at), escaped(text)));
            }
        }
        Block::Code(lines) => line(out, &format!("```\n{}\n```", lines.trim_end())),
        Block::Table(rows) => table(out, rows),
    }
}

fn heading(out: &mut String, finding: &Finding, explanation: &Explanation) {
    line(out, &format!("# {}", explanation.verdict));
    line(out, "");
    let mut badges = vec![format!("**{}**", verdict_words(&finding.judgement.verdict))];
    if finding.class.is_some() {
        badges.push(class_words(finding));
    }
    badges.extend(finding.expected.as_ref().map(expectation));
    line(out, &badges.join(" \u{b7} "));
    line(out, "");
    if finding.ask.is_empty() {
        line(out, &format!("Found by a hunt: {}.", content::subject(finding)));
    } else {
        line(out, &format!("> {}", finding.ask));
        line(out, "");
        line(out, &format!("Scenario `{}`: {}.", finding.scenario, content::subject(finding)));
    }
    if !finding.note.is_empty() {
        line(out, "");
        line(out, &finding.note);
    }
}

/// Whether the expectation was met, in words.
pub fn expectation(expected: &Expected) -> String {
    match expected.met {
        true => "as expected".to_owned(),
        false => format!("**not as expected** ({})", expected.text),
    }
}

fn assumptions(out: &mut String, finding: &Finding, explanation: &Explanation) {
    let lines =
        if finding.class.is_some() { &explanation.assumptions } else { &explanation.ledger };
    if lines.is_empty() {
        return;
    }
    section(out, content::assumptions_title(finding));
    for sentence in lines {
        line(out, &format!("- {}", capitalised(sentence)));
    }
}

fn story(out: &mut String, explanation: &Explanation) {
    if explanation.story.lines.is_empty() {
        return;
    }
    section(out, "The story");
    for (index, beat) in explanation.story.lines.iter().enumerate() {
        line(out, &format!("{}. `{}` {}", index + 1, moment(beat.at.at), escaped(&beat.text)));
    }
}

/// How the violation became possible, as a separate line.
fn mechanism(out: &mut String, explanation: &Explanation) {
    if let Some(mechanism) = &explanation.mechanism {
        let word = mechanism.how.word();
        line(out, "");
        line(out, &format!("**How:** {} (`{word}`)", escaped(&mechanism.sentence)));
    }
}

/// What made the difference when it was changed, and the thresholds.
fn why(out: &mut String, finding: &Finding, explanation: &Explanation) {
    if !explanation.causes.is_empty() {
        section(out, "What made the difference");
        for sentence in &explanation.causes {
            line(out, &format!("- {}", escaped(sentence)));
        }
    }
    for tried in [causes::but_for(finding), causes::thresholds(finding)] {
        if !tried.rows.is_empty() {
            line(out, "");
            table(out, &tried);
        }
    }
    if let Some(note) = causes::end_note(finding) {
        line(out, "");
        line(out, &escaped(&note));
    }
    let remedies = causes::remedies(finding);
    if !remedies.rows.is_empty() {
        section(out, "Remedies, run on the same plan");
        table(out, &remedies);
    }
}

fn reproduce(out: &mut String, finding: &Finding) {
    section(out, "Reproduce");
    let commands = content::commands(finding);
    if !commands.is_empty() {
        line(out, "```sh");
        for command in commands {
            line(out, &command);
        }
        line(out, "```");
        line(out, "");
    }
    line(out, "```rust");
    for code in content::test_snippet(finding) {
        line(out, &code);
    }
    line(out, "```");
    line(out, "");
    line(
        out,
        &format!(
            "Plan `{}`, trace `{}` over {} records, engine `{}`.",
            finding.plan_hash, finding.trace_hash, finding.records, finding.engine
        ),
    );
}

/// A name that leads to a file.
pub fn link(name: &str, to: &str) -> String {
    format!("[`{name}`]({to})")
}

/// A table in Markdown.
pub fn table(out: &mut String, table: &Table) {
    line(out, &format!("| {} |", table.head.join(" | ")));
    line(out, &format!("|{}", " --- |".repeat(table.head.len())));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
        line(out, &format!("| {} |", cells.join(" | ")));
    }
}

fn section(out: &mut String, title: &str) {
    line(out, "");
    line(out, &format!("## {title}"));
    line(out, "");
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string takes all");
}

/// Text with Markdown's special characters escaped: `c1 <-> n1` is not a tag, `a|b` is not two
/// cells.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

fn bracketed(text: &str) -> String {
    text.replace('[', "(").replace(']', ")")
}

/// A sentence with an initial capital, unless it begins with a name such as `c1`.
pub(super) fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
