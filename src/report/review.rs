//! The review of a lock, as chapters: each is a value, so that another one may join them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use lockstorm_platform::fault::verbs;
use serde::Serialize;

use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explain::{assumption, promise};
use crate::hunt::matrix::{Cell, CellViolation, FAMILIES, Family};
use crate::hunt::parameter::Parameter;
use crate::hunt::review::{Judged, Review, Searched, Weakness};
use crate::lock::algorithm::Algorithm;
use crate::lock::catalogue;
use crate::lock::options::OPTIONS;
use crate::promise::Bounded;
use crate::quantity::{count, list, signed};
use crate::report::chapter::{Block, Chapter};
use crate::report::content::{self, Table};
use crate::report::hunt::{self, Audience};
use crate::report::page::Page;
use crate::report::{causes, diagnosis, mark, markdown, matrix, service, settings, text};

/// The number of ways to break a lock that a cell of its row names.
const MAX_WAYS: usize = 2;

/// The review for a terminal.
pub fn text(review: &Review, audience: &Audience<'_>) -> String {
    let (code, subject) = (word(review.judged()), content::subject(&review.quiet));
    let head = format!("{code}  {}\n  {}\n  {subject}\n", review.name, verdict(review));
    head + &text::chapters(&chapters(review, audience))
}

/// The files of a review: its report, and the plan of each way to break the lock.
pub fn pages(review: &Review, audience: &Audience<'_>) -> Vec<Page> {
    let subject = content::subject(&review.quiet);
    let command = audience.command.as_ref();
    let command = command.map_or(String::new(), |command| format!("\n`{command}`\n"));
    let (code, verdict) = (word(review.judged()), verdict(review));
    let head = format!("# {verdict}\n\n**{code}** \u{b7} {subject}\n{command}");
    let report = head + &markdown::chapters(&chapters(review, audience));
    let plan = |one: &Weakness| {
        let finding = &one.found.finding;
        Page { name: hunt::plan_name(finding), text: finding.plan.to_json() }
    };
    let report = Page { name: page_name(&review.name), text: mark::marked(&report) };
    [report].into_iter().chain(review.weaknesses.iter().map(plan)).collect()
}

/// The name of the report of a review of this name.
pub fn page_name(review: &str) -> String {
    format!("{review}.md")
}

fn word(judged: Judged) -> &'static str {
    match judged {
        Judged::Broken => "VIOLATED",
        Judged::Held => "HELD",
        Judged::Unknown => "UNKNOWN",
    }
}

/// The result in one sentence.
fn verdict(review: &Review) -> String {
    let lock = match review.quiet.plan.lock.library.as_str() {
        "" => &review.quiet.plan.lock.algorithm,
        library => library,
    };
    let ways = |number: usize| match number {
        0 => "no way to break it was".to_owned(),
        1 => "1 way to break it was".to_owned(),
        some => format!("{some} ways to break it were"),
    };
    let bugs = review.weaknesses.iter().filter(|one| one.found.is_bug()).count();
    let of_row = review.row.iter().any(|cell| cell.out_of_model > 0);
    let others = match review.weaknesses.len() - bugs {
        0 if of_row => "its row of the matrix shows what breaks it".to_owned(),
        some => format!("{} found", ways(some)),
    };
    let others = format!("beyond what it assumes, {others}");
    match (review.judged(), &review.within) {
        (Judged::Broken, _) if bugs == 0 => format!(
            "{lock} breaks its promise within what it assumes, as its row of the matrix shows; \
             {others}."
        ),
        (Judged::Broken, _) => format!(
            "{lock} breaks its promise within what it assumes: {} found; {others}.",
            ways(bugs)
        ),
        (_, Err(refusal)) => {
            format!("Nothing is known of what {lock} promises: {}; {others}.", refusal.what)
        }
        (Judged::Held, Ok(searched)) => {
            let plans = count(searched.scouted.tally.held, "plan");
            format!("{lock} held within what it assumes, in {plans}; {others}.")
        }
        (Judged::Unknown, Ok(_)) => {
            format!("Too little was tested within what {lock} assumes for a verdict; {others}.")
        }
    }
}

/// All that a review says, in order.
pub fn chapters(review: &Review, audience: &Audience<'_>) -> Vec<Chapter> {
    vec![
        promised(&review.lock, &review.quiet),
        assumed(&review.quiet, has_replicas(&review.quiet)),
        settled(review),
        searched(review, audience),
        weaknesses(review, audience),
        row(&review.row, review.plans),
        Chapter { title: "Availability without faults", blocks: vec![served(review)] },
        Chapter { title: "Not tested", blocks: vec![Block::Items(untested(review))] },
    ]
}

/// What a lock promises, by the run of its plan without faults.
pub(super) fn promised(lock: &Algorithm, quiet: &Finding) -> Chapter {
    let mut items = promise::sentences(&quiet.promise);
    let shares = "Holders in shared mode may be several, beside no exclusive one.".to_owned();
    let fences = "Each grant has a fence, a number by which a resource can reject an older holder.";
    items.extend(lock.shares.then_some(shares));
    items.extend(lock.fences.then(|| fences.to_owned()));
    Chapter { title: "What it promises", blocks: vec![Block::Items(items)] }
}

fn has_replicas(quiet: &Finding) -> bool {
    quiet.plan.topology.nodes > quiet.plan.topology.masters()
}

/// The assumptions with their bounds, and why. Without replicas there is no failover to assume
/// away.
pub(super) fn assumed(quiet: &Finding, has_replicas: bool) -> Chapter {
    let assumes = quiet.promise.assumes.iter();
    let assumes = assumes.filter(|it| has_replicas || it.what != Bounded::Failover);
    let items = assumes.map(|it| {
        let (bound, reason) = (assumption::bound(it.what, it.bound), promise::reason(it.what));
        format!("{bound}: {reason}.")
    });
    let items: Vec<String> = items.collect();
    let figures = "With the figures of the plan without faults, all of this has to be so:";
    let blocks = match items.is_empty() {
        true => vec![Block::Text("Nothing.".to_owned())],
        false => vec![Block::Text(figures.to_owned()), Block::Items(items)],
    };
    Chapter { title: "What it assumes, and why", blocks }
}

/// The settings of the plan without faults, and what a hunt draws beside them.
fn settled(review: &Review) -> Chapter {
    let about = "The plan without faults, where it differs from a scenario that sets nothing:";
    let drawn = Parameter::ALL.iter().filter(|parameter| !review.fixed.contains(parameter));
    let drawn: Vec<String> = drawn.map(spelt).collect();
    let drawn = match drawn.is_empty() {
        true => "All plans have these settings.".to_owned(),
        false => format!("A hunt draws, where the plan has it, also: {}.", list(&drawn)),
    };
    let table = Block::Table(settings::table(&review.quiet));
    let blocks = vec![Block::Text(about.to_owned()), table, Block::Text(drawn)];
    Chapter { title: "As it is configured", blocks }
}

/// How much the two hunts tested.
fn searched(review: &Review, audience: &Audience<'_>) -> Chapter {
    let words = |(plans, Searched { seeds, scouted }): (&str, &Searched)| {
        let tried = hunt::tried(seeds, scouted.next, review.is_stopped);
        format!("{plans}: {}; {tried}; explored: {}", scouted.tally, scouted.novelty)
    };
    let none = review.within.as_ref().err();
    let none = none.map(|refusal| format!("within what it assumes nothing, since {refusal}"));
    let items = none.into_iter().chain(review.hunts().map(words)).collect();
    let (wording, within) = (audience.wording, audience.wording.within());
    let same = wording.pick("`lockstorm hunt`", "`.report()`");
    let again = match review.within {
        Ok(_) => format!("They are hunts of {same} with the same settings, the first {within}."),
        Err(_) => format!("It is the hunt of {same} with the same settings."),
    };
    Chapter { title: "What was tested", blocks: vec![Block::Items(items), Block::Text(again)] }
}

/// The ways to break it, each with its smallest example and what heals it.
fn weaknesses(review: &Review, audience: &Audience<'_>) -> Chapter {
    let groups = review.weaknesses.len();
    let each = (1..).zip(&review.weaknesses);
    let mut blocks: Vec<Block> =
        each.flat_map(|(nth, one)| weakness(one, (nth, groups), audience)).collect();
    if blocks.is_empty() {
        blocks.push(Block::Text("No plan of the two hunts broke it.".to_owned()));
    }
    Chapter { title: "What breaks it, and what heals it", blocks }
}

fn weakness(one: &Weakness, (nth, groups): (usize, usize), audience: &Audience<'_>) -> Vec<Block> {
    let Weakness { found, is_explained } = one;
    let finding = &found.finding;
    let explanation = explain(finding);
    let mut items = vec![format!("smallest example: {}", hunt::shrunk(found, audience))];
    items.extend(diagnosis::sentences(finding, &explanation));
    if !is_explained {
        let undone = "causes, thresholds and remedies were not looked for, because the time was up";
        items.push(undone.to_owned());
    }
    let path = audience.folder.join(hunt::plan_name(finding));
    items.push(format!("again: {}", (audience.again)(finding, &path)));
    let story = explanation.story.lines.iter().map(|line| (line.at.at, line.text.clone()));
    vec![
        Block::Heading(hunt::headline(found, nth, groups)),
        Block::Items(items),
        Block::Story(story.collect()),
        Block::Table(causes::thresholds(finding)),
        Block::Table(causes::remedies(finding)),
    ]
}

/// Its row of the matrix: a line for each family of faults.
pub(super) fn row(cells: &[Cell], plans: u64) -> Chapter {
    let line = |(family, cell): (&Family, &Cell)| {
        let bad = cell.in_model + cell.out_of_model;
        let (low, high) = matrix::wilson(bad, cell.runs);
        let margin = cell.margin.filter(|_| cell.held() > 0).map_or("-".to_owned(), signed);
        let interval = format!("{} to {} %", matrix::percent(low), matrix::percent(high));
        let cells = [
            format!("{bad} of {}", cell.runs),
            interval,
            cell.grants_per_minute.to_string(),
            margin,
            commonest(cell),
        ];
        let why = cell.impossible.clone().unwrap_or_default();
        let none = || [const { String::new() }; 4].into_iter().chain([why]).collect();
        let cells = if cell.runs == 0 { none() } else { cells.to_vec() };
        [family.name.to_owned(), matrix::mark(cell)].into_iter().chain(cells).collect()
    };
    let head = ["faults", "result", "violated", "95 % interval", "grants/min", "margin", "what"];
    let rows = FAMILIES.iter().zip(cells).map(line).collect();
    let plans = count(plans, "plan");
    let about = format!("{plans} for each family of faults. {}", matrix::LEGEND);
    let blocks = vec![Block::Table(Table { head: head.to_vec(), rows }), Block::Text(about)];
    Chapter { title: "Its row of the matrix", blocks }
}

/// The commonest ways in which the plans of a cell were violated, and those within the assumptions
/// before all others.
fn commonest(cell: &Cell) -> String {
    let mut found: Vec<&CellViolation> = cell.found.iter().collect();
    found.sort_by_key(|one| (!one.in_model, Reverse(one.plans)));
    let mut lines: Vec<String> = found.iter().take(MAX_WAYS).map(|one| matrix::line(one)).collect();
    let more = found.len().saturating_sub(MAX_WAYS);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("; ")
}

fn served(review: &Review) -> Block {
    Block::Table(Table { head: vec!["one run", ""], ..service::table(&review.quiet) })
}

/// What the review says nothing about.
fn untested(review: &Review) -> Vec<String> {
    let mut items = Vec::new();
    if let Err(refusal) = &review.within {
        items.push(format!("its promise: {}", refusal.what));
    }
    let left_out: Vec<String> = review.left_out.iter().map(|word| (*word).to_owned()).collect();
    if !left_out.is_empty() {
        let faults = list(&left_out);
        items.push(format!("{faults} within its assumptions, since it assumes them away"));
    }
    items.extend(content::missing(&review.quiet.plan, &had(review)));
    for (family, cell) in FAMILIES.iter().zip(&review.row) {
        let why = cell.impossible.as_ref();
        items.extend(why.map(|why| format!("the family '{}' of the matrix: {why}", family.name)));
        if cell.untested > 0 {
            let plans = count(cell.untested, "plan");
            items.push(format!("anything in {plans} of the family '{}'", family.name));
        }
    }
    for (plans, searched) in review.hunts() {
        let reasons = searched.scouted.tally.reasons();
        items.extend(reasons.iter().map(|why| format!("anything in some plans {plans}: {why}")));
    }
    items.extend(configured(review));
    let unexplained = review.weaknesses.iter().filter(|one| !one.is_explained).count();
    if unexplained > 0 {
        let groups = count(unexplained as u64, "group");
        items.push(format!("causes, thresholds and remedies of {groups}: the time was up"));
    }
    items.push("other seeds: that it held in these plans is no proof that it always does".into());
    items
}

/// The faults of the hunts and of the row.
fn had(review: &Review) -> BTreeSet<&'static str> {
    let row = FAMILIES.iter().zip(&review.row).filter(|(_, cell)| cell.runs > 0);
    let row = row.flat_map(|(family, _)| family.verbs.iter().copied());
    verbs::words().filter(|word| review.drawn.contains(*word)).chain(row).collect()
}

/// What is the same in every plan.
fn configured(review: &Review) -> Vec<String> {
    let drawn = ["algorithm", "library", "key", "ttl", "timeout", "needs"];
    let options = OPTIONS.iter().filter(|option| (option.of.has)(&review.lock));
    let options = options.map(|option| option.field.key).filter(|key| !drawn.contains(key));
    let options: Vec<String> = options.map(str::to_owned).collect();
    let options = match catalogue::is_own(review.lock.name) {
        true => Some("other values of the options that it reads: only its code says which".into()),
        false if options.is_empty() => None,
        false => Some(format!("other values of these options of the lock: {}", list(&options))),
    };
    let fixed: Vec<String> = review.fixed.iter().map(spelt::<Parameter>).collect();
    let kind = spelt(&review.quiet.plan.workload.kind);
    let fixed = (!fixed.is_empty())
        .then(|| format!("other values of what is the same in every plan: {}", list(&fixed)));
    let work = format!("other work than that of the workload '{kind}'");
    options.into_iter().chain(fixed).chain([work]).collect()
}

/// A value by its name in plans.
fn spelt<T: Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).expect("it is a name");
    value.as_str().unwrap_or_default().to_owned()
}

/// Where the files of a review are, for a terminal.
pub fn kept(review: &Review, folder: &Path) -> String {
    format!("report: {}", folder.join(page_name(&review.name)).display())
}
