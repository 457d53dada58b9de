//! The same contents for a terminal: plain, or with a little colour.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::check::verdict::{Kind, Verdict};
use crate::explain::assumption::beyond;
use crate::explain::explanation::Explanation;
use crate::explain::finding::Finding;
use crate::explain::naming::{class_words, verdict_words};
use crate::explore::examine::word;
use crate::quantity::{moment, rounded, three_digits};
use crate::report::causes;
use crate::report::chapter::{Block, Chapter};
use crate::report::content::{self, Table};
use crate::report::diagnosis::healed;
use crate::report::{service, settings};

/// The maximum width of a sentence before it is wrapped.
const WIDTH: usize = 96;

/// The report of one finding.
pub fn page(finding: &Finding, explanation: &Explanation, colour: bool) -> String {
    let pen = Pen { colour };
    let mut out = String::new();
    heading(&mut out, finding, explanation, pen);
    if let Some(mechanism) = &explanation.mechanism {
        wrapped(
            &mut out,
            "  how:    ",
            &format!("{} ({})", mechanism.sentence, mechanism.how.word()),
        );
    }
    let broken = finding.class.is_some();
    let lines = if broken { &explanation.assumptions } else { &explanation.ledger };
    if !lines.is_empty() {
        section(&mut out, content::assumptions_title(finding), pen);
        for sentence in lines {
            wrapped(&mut out, "  - ", sentence);
        }
    }
    if !explanation.story.lines.is_empty() {
        section(&mut out, "The story", pen);
    }
    for line in &explanation.story.lines {
        wrapped(&mut out, &format!("{:>12}  ", moment(line.at.at)), &line.text);
    }
    if !explanation.causes.is_empty() {
        section(&mut out, "What made the difference", pen);
        for sentence in &explanation.causes {
            wrapped(&mut out, "  - ", sentence);
        }
    }
    for (title, table) in [
        ("One thing changed", causes::but_for(finding)),
        ("Thresholds", causes::thresholds(finding)),
        ("Remedies, run on the same plan", causes::remedies(finding)),
        ("Counts", content::counts(finding)),
        ("Availability", service::table(finding)),
        ("Violations", content::violations(finding)),
        ("Faults", content::faults(finding)),
        ("Settings", settings::table(finding)),
    ] {
        if !table.rows.is_empty() {
            section(&mut out, title, pen);
            columns(&mut out, &table);
        }
        if title == "Thresholds"
            && let Some(note) = causes::end_note(finding)
        {
            wrapped(&mut out, "  ", &note);
        }
        if title == "Violations" {
            for more in content::more_violations(finding).iter().chain(&explanation.arguments) {
                wrapped(&mut out, "  ", more);
            }
        }
    }
    closing(&mut out, finding, pen);
    out
}

/// A report in chapters, each under its title.
pub fn chapters(chapters: &[Chapter]) -> String {
    let (mut out, pen) = (String::new(), Pen { colour: false });
    for Chapter { title, blocks } in chapters {
        section(&mut out, title, pen);
        blocks.iter().for_each(|block| part(&mut out, block));
    }
    out
}

fn part(out: &mut String, block: &Block) {
    match block {
        Block::Heading(title) => {
            line(out, "");
            wrapped(out, "", title);
        }
        Block::Text(text) => wrapped(out, "  ", text),
        Block::Items(items) => items.iter().for_each(|item| wrapped(out, "  - ", item)),
        Block::Story(lines) => {
            for (at, text) in lines {
                wrapped(out, &format!("{:>12}  ", moment(*at)), text);
            }
        }
        Block::Code(lines) => lines.lines().for_each(|row| line(out, &format!("    {row}"))),
        Block::Table(table) if table.rows.is_empty() => {}
        Block::Table(table) => columns(out, table),
    }
}

/// The finding in short, one line for each part: the sentence, how it became possible, what made
/// the difference, the thresholds, the margin, and the remedies. For a run that held: what struck,
/// and how close it came.
pub fn short(finding: &Finding, explanation: &Explanation) -> Vec<String> {
    let mut out = String::new();
    heading(&mut out, finding, explanation, Pen { colour: false });
    possible(&mut out, explanation);
    if matches!(finding.judgement.verdict, Verdict::Holds) {
        for line in &explanation.story.lines {
            wrapped(&mut out, &format!("{:>12}  ", moment(line.at.at)), &line.text);
        }
        for (index, sentence) in beyond(finding).iter().enumerate() {
            wrapped(&mut out, if index == 0 { "  beyond: " } else { "          " }, sentence);
        }
    }
    for (index, sentence) in explanation.causes.iter().enumerate() {
        wrapped(&mut out, if index == 0 { "  why:    " } else { "          " }, sentence);
    }
    let thresholds = causes::thresholds(finding).rows;
    for (index, row) in thresholds.iter().enumerate() {
        let lead = if index == 0 { "  from:   " } else { "          " };
        wrapped(&mut out, lead, &format!("{} ({} here): {}", row[0], row[1], row[2]));
    }
    if let Some(note) = causes::end_note(finding) {
        wrapped(&mut out, "          ", &note);
    }
    if let (Verdict::Violated(_), Some(miss)) =
        (&finding.judgement.verdict, finding.judgement.nearest_miss)
    {
        // With two holders, the write of either may have been early enough.
        if miss < 0 {
            let by = rounded(miss.unsigned_abs());
            let margin =
                format!("a write came {by} after another could have been granted the lock");
            wrapped(&mut out, "  margin: ", &margin);
        }
    }
    remedies(&mut out, finding);
    out.lines().map(str::to_owned).collect()
}

/// A verdict in a few words.
pub fn found(finding: &Finding) -> String {
    match &finding.judgement.verdict {
        Verdict::Unknown(why) => format!("unknown: {why}"),
        Verdict::Holds => match finding.judgement.nearest_miss {
            Some(miss) if miss < 0 => {
                let by = rounded(miss.unsigned_abs());
                format!("holds, though a write came {by} after another could have got the lock")
            }
            Some(miss) => format!("holds (nearest miss {})", three_digits(miss)),
            None => "holds".to_owned(),
        },
        Verdict::Violated(violations) => {
            let kinds: BTreeSet<Kind> = violations.iter().map(|violation| violation.kind).collect();
            let kinds: Vec<&str> = kinds.into_iter().map(Kind::word).collect();
            let class = word(finding).map_or(String::new(), |class| class.word().to_owned());
            // Some kinds of a run may be in-model, and others not.
            let some = finding
                .class
                .as_ref()
                .filter(|class| !class.in_model.is_empty() && !class.out_of_model.is_empty());
            let class = some.map_or(class.clone(), |some| {
                let kinds: Vec<&str> = some.in_model.iter().map(|kind| kind.word()).collect();
                format!("{class}: {}", kinds.join(", "))
            });
            let class = if class.is_empty() { class } else { format!(" ({class})") };
            kinds.join(", ") + &class
        }
    }
}

/// How a violation became possible, and the assumptions that it broke.
pub fn how(explanation: &Explanation) -> Vec<String> {
    let mut out = String::new();
    possible(&mut out, explanation);
    out.lines().map(str::to_owned).collect()
}

fn possible(out: &mut String, explanation: &Explanation) {
    if let Some(mechanism) = &explanation.mechanism {
        let how = mechanism.how.word();
        wrapped(out, "  how:    ", &format!("{} ({how})", mechanism.sentence));
    }
    for (index, sentence) in explanation.assumptions.iter().enumerate() {
        wrapped(out, if index == 0 { "  broke:  " } else { "          " }, sentence);
    }
}

fn remedies(out: &mut String, finding: &Finding) {
    let mut last = None;
    for (effect, sentence) in healed(finding) {
        let word = effect.word().filter(|_| last != Some(effect));
        let lead = word.map_or_else(|| " ".repeat(10), |word| format!("  {word}:  "));
        wrapped(out, &lead, &sentence);
        last = Some(effect);
    }
}

/// The style of emphasis.
#[derive(Clone, Copy)]
struct Pen {
    colour: bool,
}

impl Pen {
    fn mark(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn heading(out: &mut String, finding: &Finding, explanation: &Explanation, pen: Pen) {
    let is_close = finding.judgement.nearest_miss.is_some_and(|miss| miss < 0);
    let (code, word) = match finding.judgement.verdict {
        // Another caller could have acquired the lock, so this is no clean result.
        Verdict::Holds if is_close => ("1;33", "HELD"),
        Verdict::Holds => ("1;32", "HELD"),
        Verdict::Violated(_) => ("1;31", "VIOLATED"),
        Verdict::Unknown(_) => ("1;33", "UNKNOWN"),
    };
    let mut remarks = vec![verdict_words(&finding.judgement.verdict)];
    if finding.class.is_some() {
        remarks.push(class_words(finding));
    }
    remarks.extend(finding.expected.as_ref().map(|expected| match expected.met {
        true => "as expected".to_owned(),
        false => format!("NOT as expected ({})", expected.text),
    }));
    line(out, &format!("{}  {}", pen.mark(code, word), pen.mark("1", &finding.scenario)));
    wrapped(out, "  ", &explanation.verdict);
    line(out, &format!("  ({})", remarks.join("; ")));
    line(out, "");
    if !finding.ask.is_empty() {
        wrapped(out, "  asks:   ", &finding.ask);
    }
    wrapped(out, "  tested: ", &content::subject(finding));
    if !finding.note.is_empty() {
        wrapped(out, "  note:   ", &finding.note);
    }
}

fn closing(out: &mut String, finding: &Finding, pen: Pen) {
    section(out, "Reproduce", pen);
    for command in content::commands(finding) {
        line(out, &format!("  {command}"));
    }
    let Finding { plan_hash, trace_hash, records, engine, .. } = finding;
    line(out, &format!("  plan {plan_hash}, trace {trace_hash} ({records} records), {engine}"));
    section(out, "Not tested", pen);
    for untested in content::untested(finding) {
        wrapped(out, "  - ", &untested);
    }
}

fn section(out: &mut String, title: &str, pen: Pen) {
    line(out, "");
    line(out, &pen.mark("1", title));
}

/// A table in columns as wide as their widest cell.
fn columns(out: &mut String, table: &Table) {
    let head: Vec<String> = table.head.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<&Vec<String>> = std::iter::once(&head).chain(&table.rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        line(out, format!("  {}", cells.join("  ")).trim_end());
    }
}

/// A sentence after a lead, with hanging indentation.
fn wrapped(out: &mut String, lead: &str, sentence: &str) {
    let indent = lead.chars().count();
    let mut current = lead.to_owned();
    let mut filled = indent;
    for word in sentence.split_whitespace() {
        let length = word.chars().count();
        if filled > indent && filled + 1 + length > WIDTH {
            line(out, &current);
            current = " ".repeat(indent);
            filled = indent;
        }
        if filled > indent {
            current.push(' ');
            filled += 1;
        }
        current.push_str(word);
        filled += length;
    }
    line(out, &current);
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string takes all");
}
