//! The profile of a lock or of a client library, as chapters: for a terminal, and as a page.

use crate::explain::experiment::ServiceLevel;
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explain::naming::{class_words, verdict_words};
use crate::explore::quiet::QuietRequest;
use crate::field::Takes;
use crate::hunt::matrix::{Contender, FAMILIES, MatrixRow};
use crate::hunt::profile::{Damage, PLANS, Profile, breaks};
use crate::lock::config::LockConfig;
use crate::lock::library::KnownFrom;
use crate::lock::options::{self, LockOption, OPTIONS};
use crate::quantity::{count, length, list, thousandths};
use crate::report::chapter::{Block, Chapter};
use crate::report::content::{self, Table};
use crate::report::page::Page;
use crate::report::{causes, diagnosis, mark, markdown, matrix, review, text};
use crate::scenario::Scenario;

/// The number of requests of a call that are shown: a refused acquire may try for long.
const MAX_SHOWN: usize = 8;

/// The name of the index of all pages.
pub const INDEX: &str = "README.md";

/// The folder of the committed pages, from which links on a page lead.
pub const FOLDER: &str = "docs/locks";

/// The command that writes a page, before its name, or all pages.
const WRITE: &str = "lockstorm list locks --details";

/// A name with the place that a format leads to from it.
type Link = fn(name: &str, to: &str) -> String;

/// A profile for a terminal or a pipe.
pub fn text(profile: &Profile<'_>) -> String {
    let title = format!("{}: {}\n", profile.contender.name(), profile.contender.lock.about);
    title + &text::chapters(&chapters(profile, |name, _| name.to_owned()))
}

/// The page of a profile up to what breaks the lock.
pub fn page_start(profile: &Profile<'_>) -> String {
    let (name, about) = (profile.contender.name(), profile.contender.lock.about);
    let origin = origin(&format!("{WRITE} '{name}'"));
    let head = format!("# {name}\n\n> {about}\n\n{origin} [All locks]({INDEX})\n");
    mark::marked(&(head + &markdown::chapters(&chapters(profile, markdown::link))))
}

fn origin(command: &str) -> String {
    format!("`{command} --report {FOLDER}` writes this from runs and from the code.")
}

/// The whole page of a profile.
pub fn page(profile: &Profile<'_>, damage: &Damage) -> Page {
    let broken = [broken(damage), row(profile, &damage.row)];
    let text = page_start(profile) + &markdown::chapters(&broken);
    Page { name: page_name(&profile.contender), text }
}

/// The name of the page of a lock or library.
pub fn page_name(contender: &Contender) -> String {
    format!("{}.md", contender.name().replace(' ', "-"))
}

/// The index of the pages, up to the matrix.
pub fn index_start(all: &[Contender]) -> String {
    let about = format!(
        "# Locks and libraries\n\nA page for each lock of the catalogue and for each client \
         library: what it sends, promises and assumes, what breaks it, what heals that and what it \
         costs. {}\n",
        origin(WRITE)
    );
    let link = |one: &Contender| format!("[{}]({})", one.name(), page_name(one));
    let (libraries, locks): (Vec<&Contender>, Vec<&Contender>) =
        all.iter().partition(|one| one.library.is_some());
    let locks = locks.into_iter().map(|one| vec![link(one), one.lock.about.to_owned()]);
    let libraries = libraries.into_iter().map(|one| {
        let known = one.library.map_or_else(String::new, |library| known(library.known));
        vec![link(one), one.lock.name.to_owned(), known]
    });
    let locks = Table { head: vec!["lock", "what it does"], rows: locks.collect() };
    let head = vec!["library", "is the lock", "known from"];
    let libraries = Table { head, rows: libraries.collect() };
    let chapters = [
        Chapter { title: "Locks of the catalogue", blocks: vec![Block::Table(locks)] },
        Chapter { title: "Client libraries", blocks: vec![Block::Table(libraries)] },
    ];
    mark::marked(&(about + &markdown::chapters(&chapters)))
}

/// The whole index.
pub fn index(all: &[Contender], rows: &[MatrixRow]) -> Page {
    let of = |row: &MatrixRow| {
        let cells = row.cells.iter().map(matrix::mark);
        [row.lock.clone()].into_iter().chain(cells).collect()
    };
    let head = ["lock"].into_iter().chain(FAMILIES.iter().map(|family| family.name)).collect();
    let table = Block::Table(Table { head, rows: rows.iter().map(of).collect() });
    let about = format!("Each cell is made of {PLANS} plans. {}", matrix::LEGEND);
    let chapter = Chapter { title: "Locks and faults", blocks: vec![Block::Text(about), table] };
    let text = index_start(all) + &markdown::chapters(&[chapter]);
    Page { name: INDEX.to_owned(), text }
}

/// What takes little time.
fn chapters(profile: &Profile<'_>, link: Link) -> Vec<Chapter> {
    let about = library(profile, link).map(|items| Chapter {
        title: "Where this is known from",
        blocks: vec![Block::Items(items)],
    });
    let rest = [
        sent(profile),
        review::promised(profile.contender.lock, &profile.quiet),
        review::assumed(&profile.quiet, true),
        options(profile),
        asked(profile, link),
    ];
    about.into_iter().chain(rest).collect()
}

/// Which lock a library is, and how that is known.
fn library(profile: &Profile<'_>, link: Link) -> Option<Vec<String>> {
    let library = profile.contender.library?;
    let own = library.options.iter().map(|(key, value)| format!("{key} = {value}"));
    let own: Vec<String> = own.collect();
    let options = match own.is_empty() {
        true => "with its defaults".to_owned(),
        false => format!("with {}", list(&own)),
    };
    let lock = link(library.lock, &format!("{}.md", library.lock));
    let notes = link("docs/libraries.md", "../libraries.md");
    Some(vec![
        format!("it is the lock {lock} {options}"),
        known(library.known),
        format!("what differs from the library: {}", library.note),
        format!("{notes} compares what the libraries send"),
    ])
}

fn known(from: KnownFrom) -> String {
    match from {
        KnownFrom::Source(commit) => format!("its source was read at {commit}"),
        KnownFrom::Wire => "it was run, and its requests were recorded".to_owned(),
    }
}

/// The requests of each call, the scripts among them, and how many there are on the whole.
fn sent(profile: &Profile<'_>) -> Chapter {
    let mut scripts: Vec<String> = Vec::new();
    let mut blocks = Vec::new();
    for call in &profile.calls {
        let shown = call.requests.iter().take(MAX_SHOWN);
        let mut lines: Vec<String> = shown.map(|request| line(request, &mut scripts)).collect();
        let more = call.requests.len().saturating_sub(MAX_SHOWN);
        if more > 0 {
            lines.push(format!("... and {} like these", count(more as u64, "line")));
        }
        blocks.push(Block::Text(format!("{}:", markdown::capitalised(call.call))));
        blocks.push(Block::Code(lines.join("\n")));
    }
    if blocks.is_empty() {
        blocks.push(Block::Text("It sends nothing.".to_owned()));
    }
    for (nth, script) in (1..).zip(&scripts) {
        blocks.push(Block::Text(format!("{}:", markdown::capitalised(&script_name(nth)))));
        blocks.push(Block::Code(script.trim().to_owned()));
    }
    let service = ServiceLevel::of(&profile.quiet.judgement.availability);
    let requests = service.requests_per_grant.map_or("no".to_owned(), thousandths);
    let left_out = match profile.calls.is_empty() {
        true => "",
        false => "Left out: subscriptions to channels, and what sets up a connection. ",
    };
    blocks.push(Block::Text(format!(
        "{left_out}The plan without faults, with which a hunt begins, has {}. In it there are {} \
         grants a minute, and {requests} requests a grant, refused acquires included.",
        content::subject(&profile.quiet),
        service.grants_per_minute,
    )));
    Chapter { title: "What it sends, undisturbed", blocks }
}

fn script_name(nth: usize) -> String {
    format!("script-{nth}")
}

/// A request as a line, with the name of its script in the place of the text.
fn line(request: &QuietRequest, scripts: &mut Vec<String>) -> String {
    let is_text = |nth: usize| match request.words[0].as_str() {
        "EVAL" => nth == 1,
        "SCRIPT" => nth == 2,
        _ => false,
    };
    let word = |(nth, word): (usize, &String)| {
        if !is_text(nth) {
            return word.clone();
        }
        let known = scripts.iter().position(|script| script == word).unwrap_or_else(|| {
            scripts.push(word.clone());
            scripts.len() - 1
        });
        script_name(known + 1)
    };
    let words: Vec<String> = request.words.iter().enumerate().map(word).collect();
    let reply = match request.reply.as_str() {
        "" => "(after a wait)",
        reply => reply,
    };
    let times =
        if request.times > 1 { format!(", {} times", request.times) } else { String::new() };
    format!("{}  {} -> {reply}{times}", request.nodes.join(" "), words.join(" "))
}

/// The options that it reads, with their values in the plan without faults.
fn options(profile: &Profile<'_>) -> Chapter {
    let lock = profile.contender.lock;
    let own = OPTIONS.iter().filter(|option| (option.of.has)(lock));
    let own = own.filter(|option| !["algorithm", "library", "key"].contains(&option.field.key));
    let own = own.filter(|option| option.field.key != "ttl" || lock.needs_ttl);
    let row = |option: &LockOption| {
        let value = value(&profile.config, option);
        vec![option.field.key.to_owned(), value, option.about.to_owned()]
    };
    let rows = own.map(row).collect();
    let ttl = profile.config.ttl.map_or_else(String::new, |ttl| {
        format!(", with a ttl of {}, which a scenario has to set", length(ttl))
    });
    let about = format!(
        "The keys of [lock] that it reads, and their values if a scenario sets no others{ttl}. \
         Where there is none (-), the lock decides or does not do it."
    );
    let table = Table { head: vec!["option", "value", "meaning"], rows };
    Chapter { title: "Its options", blocks: vec![Block::Text(about), Block::Table(table)] }
}

/// The value of an option in words. A configuration does not have each of its defaults.
fn value(config: &LockConfig, option: &LockOption) -> String {
    let (key, takes) = (option.field.key, option.field.takes);
    let is_default =
        |word: &&str| options::set(config, key, word).is_ok_and(|same| same == *config);
    let all = serde_json::to_value(config).expect("options are plain data");
    let default = || match takes {
        Takes::Word(words) => words.iter().copied().find(|word| is_default(word)),
        Takes::Flag => Some("false").filter(is_default),
        Takes::Count | Takes::Number => Some("0").filter(is_default),
        Takes::Length | Takes::Text => None,
    };
    match (all.get(key), takes) {
        (Some(value), Takes::Length) if value.is_u64() => length(value.as_u64().unwrap_or(0)),
        (Some(serde_json::Value::String(word)), _) => word.clone(),
        (None | Some(serde_json::Value::Null), _) => default().unwrap_or("-").to_owned(),
        (Some(value), _) => value.to_string(),
    }
}

/// The scenarios about it, with their answers.
fn asked(profile: &Profile<'_>, link: Link) -> Chapter {
    let shown = |scenario: &&Scenario| {
        let remedies = scenario.remedies.iter().map(|name| scenario_link(name, link));
        let remedies: Vec<String> = remedies.collect();
        let remedies = match remedies.len() {
            0 => String::new(),
            1 => format!("; remedy: {}", list(&remedies)),
            _ => format!("; remedies: {}", list(&remedies)),
        };
        let words = scenario.expect.words();
        let words = words.strip_prefix("holds").unwrap_or(&words).trim_start_matches(", ");
        let answer = format!("{} {words}", scenario.ask);
        format!("{}: {}{remedies}", scenario_link(&scenario.name, link), answer.trim_end())
    };
    let (broken, held): (Vec<&Scenario>, Vec<&Scenario>) =
        profile.scenarios.iter().copied().partition(|scenario| breaks(scenario));
    let mut blocks = Vec::new();
    for (title, some) in [("Violated:", broken), ("Held:", held)] {
        if !some.is_empty() {
            blocks.push(Block::Text(title.to_owned()));
            blocks.push(Block::Items(some.iter().map(shown).collect()));
        }
    }
    if blocks.is_empty() {
        let lock = profile.contender.lock.name;
        let none = "No scenario is about it alone";
        let none = match profile.contender.library {
            Some(_) => {
                let lock = link(lock, &format!("{lock}.md"));
                format!("{none}. Those of its lock are on the page of {lock}.")
            }
            None => format!("{none}."),
        };
        blocks.push(Block::Text(none));
    }
    Chapter { title: "Scenarios about it", blocks }
}

fn scenario_link(name: &str, link: Link) -> String {
    link(name, &format!("../../scenarios/{name}.toml"))
}

/// The violations of its scenarios, each with its cause, its thresholds, and what heals it.
fn broken(damage: &Damage) -> Chapter {
    let mut blocks: Vec<Block> = damage.findings.iter().flat_map(one_broken).collect();
    blocks.extend(of_lock(&damage.of_lock));
    if blocks.is_empty() {
        blocks.push(Block::Text("No scenario about it expects a violation.".to_owned()));
    }
    Chapter { title: "What breaks it, what heals it, and what that costs", blocks }
}

/// What becomes of the scenarios of a library's lock with the options of the library.
fn of_lock(findings: &[Finding]) -> Vec<Block> {
    let Some(first) = findings.first() else { return Vec::new() };
    let row = |finding: &Finding| {
        let class = finding.class.as_ref().map_or("-".to_owned(), |_| class_words(finding));
        let verdict = verdict_words(&finding.judgement.verdict);
        vec![scenario_link(&finding.scenario, markdown::link), finding.ask.clone(), verdict, class]
    };
    let lock = &first.plan.lock.algorithm;
    let lock = markdown::link(lock, &format!("{lock}.md"));
    let about = format!(
        "The scenarios of {lock} that set no option, run with the options of the library. What the \
         violations mean, and what heals them, is on the page of {lock}."
    );
    let head = vec!["scenario", "question", "verdict", "class"];
    let rows = findings.iter().map(row).collect();
    vec![Block::Text(about), Block::Table(Table { head, rows })]
}

fn one_broken(finding: &Finding) -> Vec<Block> {
    let explanation = explain(finding);
    let verdict = verdict_words(&finding.judgement.verdict);
    let mut items = vec![format!("{verdict}; {}", class_words(finding))];
    items.extend(diagnosis::sentences(finding, &explanation));
    items.extend(content::commands(finding).into_iter().take(1).map(|it| format!("run: `{it}`")));
    vec![
        Block::Heading(scenario_link(&finding.scenario, markdown::link)),
        Block::Text(explanation.verdict),
        Block::Items(items),
        Block::Table(causes::thresholds(finding)),
        Block::Table(causes::remedies(finding)),
    ]
}

/// Its row of the matrix, with the command that runs it again.
fn row(profile: &Profile<'_>, row: &MatrixRow) -> Chapter {
    let mut chapter = review::row(&row.cells, PLANS);
    let name = profile.contender.name();
    let again = format!("Again: `lockstorm matrix --locks '{name}' --seeds 1..{PLANS}`");
    chapter.blocks.push(Block::Text(again));
    chapter
}
