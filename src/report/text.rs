//! The same contents for a terminal: plain, or with a little colour.

use std::collections::BTreeSet;
use std::fmt::Write;

use lockstorm_platform::time::{Nanos, SECOND};

use crate::check::verdict::{Kind, Verdict};
use crate::explain::assumption::beyond;
use crate::explain::experiment::{Remedied, ServiceLevel};
use crate::explain::explanation::Explanation;
use crate::explain::finding::Finding;
use crate::explain::naming::{class_words, verdict_words};
use crate::explore::examine::word;
use crate::quantity::{length, list, moment, rounded, three_digits};
use crate::report::causes;
use crate::report::chapter::{Block, Chapter};
use crate::report::content::{self, Table};
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

/// A remedy is reported to cost availability if the lock is unavailable for longer by more than
/// this, ns.
const LONGER: Nanos = 5 * SECOND;

/// What a remedy costs that frees a lock which no caller could acquire: a longer time without the
/// lock.
fn price(finding: &Finding, tried: &Remedied) -> String {
    let own = ServiceLevel::of(&finding.judgement.availability).longest_unavailable;
    let (with, signature) = (tried.service.longest_unavailable, finding.signature.as_ref());
    let is_shut = signature.is_some_and(|signature| {
        [Kind::Leak, Kind::Stuck].iter().any(|kind| signature.kinds.contains(kind))
    });
    match is_shut && with > own.saturating_add(LONGER) {
        true => format!(
            ", but nobody could get the lock here for {} ({} without it)",
            length(with),
            length(own)
        ),
        false => String::new(),
    }
}

/// The remedies that were run: those that cure, that help in this run, and that leave less. Each
/// sentence has its word, a remark has none.
pub(super) fn healed(finding: &Finding) -> Vec<(&'static str, String)> {
    let mut said = Vec::new();
    let tried = finding.experiments.iter().flat_map(|tried| &tried.remedies);
    let (healed, others): (Vec<_>, Vec<_>) =
        tried.filter(|tried| !tried.is_unknown).partition(|tried| tried.kinds.is_empty());
    // A remedy that is violated on another seed of the same plan helps only in this run, and is no
    // cure. Neither is a remedy whose fresh seeds do not differ from those of the plan without it.
    let without = finding.experiments.iter().find_map(|experiments| experiments.on_fresh);
    let cures =
        |tried: &&Remedied| without.is_some_and(|without| without.is_cured_by(tried.on_fresh));
    let (cures, helps): (Vec<_>, Vec<_>) = healed.into_iter().partition(cures);
    for (word, remedies) in [("heals", cures), ("helps", helps)] {
        for tried in remedies {
            let (name, fresh) = (&tried.name, causes::fresh_words(tried.on_fresh));
            let held = match word {
                _ if tried.on_fresh.unknown == tried.on_fresh.runs => {
                    "here; no fresh seed tests it".to_owned()
                }
                "helps" if without.is_some_and(|it| it.is_harmed_by(tried.on_fresh)) => {
                    format!("here, but on no more than {fresh} fresh seeds: fewer than without it")
                }
                "helps" => format!("here and on {fresh} fresh seeds"),
                _ => format!("on {fresh} fresh seeds"),
            };
            let price = price(finding, tried);
            said.push((word, format!("{name}; it held {held}{price}")));
        }
    }
    let has_healed = !said.is_empty();
    if let Some(without) = without.filter(|_| has_healed) {
        let fresh = causes::fresh_words(without);
        said.push(("", format!("(without any: {fresh} fresh seeds)")));
    }
    if finding.experiments.as_ref().is_some_and(|tried| tried.undone.is_empty())
        && matches!(finding.judgement.verdict, Verdict::Violated(_))
        && !has_healed
    {
        let tried = finding.experiments.iter().flat_map(|tried| &tried.remedies);
        said.push(("heals", nothing_heals(&tried.collect::<Vec<_>>())));
    }
    let own = finding.signature.as_ref().map_or(&[][..], |signature| &signature.kinds);
    let is_less = |tried: &&Remedied| {
        tried.kinds.len() < own.len() && tried.kinds.iter().all(|kind| own.contains(kind))
    };
    for tried in others.into_iter().filter(is_less) {
        let left = tried.kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
        said.push(("eases", format!("{}; what is left: {left}", tried.name)));
    }
    said
}

fn remedies(out: &mut String, finding: &Finding) {
    let mut last = "";
    for (word, sentence) in healed(finding) {
        let lead = if word.is_empty() || word == last { "" } else { word };
        let lead = if lead.is_empty() { " ".repeat(10) } else { format!("  {lead}:  ") };
        wrapped(out, &lead, &sentence);
        last = word;
    }
}

/// A sentence that no remedy heals. A remedy whose run tests nothing was not seen to fail.
fn nothing_heals(tried: &[&Remedied]) -> String {
    let unknown = tried.iter().filter(|tried| tried.is_unknown);
    let each = unknown.map(|tried| format!("{} ({})", tried.name, tried.diff.join("; ")));
    let each: Vec<String> = each.collect();
    let untested = match each.len() {
        0 => String::new(),
        some => format!("; {some} of them tested nothing: {}", list(&each)),
    };
    match (tried.len(), each.len()) {
        (0, _) => "no known remedy applies here".to_owned(),
        (1, 0) => format!("not the one remedy that was tried: {}", tried[0].name),
        (1, 1) => format!("unknown: the one remedy that was tried tested nothing: {}", each[0]),
        (all, unknown) if all == unknown => {
            format!("unknown: the {all} remedies that were tried tested nothing: {}", list(&each))
        }
        (all, _) => format!("none of the {all} remedies that were tried{untested}"),
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
