//! The contents of every format besides the story: tables and lines, before any mark-up.

use std::collections::BTreeSet;

use lockstorm_platform::fault::verbs::ROWS;
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Verb};

use crate::check::idle;
use crate::check::signature::Signature;
use crate::check::verdict::{Kind, Verdict, Violation};
use crate::explain::finding::Finding;
use crate::explain::headline::callers;
use crate::explain::naming::{self, cause, clients};
use crate::explain::story::order;
use crate::explain::witness::{Witness, kinds};
use crate::history::{Access, AccessKind, Missed};
use crate::lock::config::LockConfig;
use crate::lock::{catalogue, library};
use crate::plan::lack::{Lack, lack};
use crate::plan::{Persistence, Plan, TopologyKind, WorkloadKind};
use crate::quantity::{count, length, list, mark, moment, three_digits};
use crate::reading::history::Reading;
use crate::reading::index::HistoryIndex;

/// A table: a head, and rows with the same number of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The names of the columns.
    pub head: Vec<&'static str>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
}

/// How much was tested.
pub fn counts(finding: &Finding) -> Table {
    let c = &finding.judgement.counts;
    let cell = |number: u32| number.to_string();
    let miss = nearest_miss(finding);
    let missed = |of: fn(&Missed) -> u64| {
        c.missed.as_ref().map_or_else(|| "-".to_owned(), |missed| of(missed).to_string())
    };
    Table {
        head: vec![
            "grants",
            "without faults",
            "contended",
            "refused",
            "unknown",
            "faults struck",
            "in a hold",
            "accesses",
            "messages lost",
            "messages cut off",
            "nearest miss",
        ],
        rows: vec![vec![
            cell(c.grants),
            c.grants_without_faults.map_or_else(|| "-".to_owned(), cell),
            cell(c.contended),
            cell(c.refused),
            cell(c.unknown),
            cell(c.struck),
            cell(c.struck_in_hold),
            cell(c.accesses),
            missed(|missed| missed.lost),
            missed(|missed| missed.cut),
            miss,
        ]],
    }
}

/// The nearest miss, or why there is none.
fn nearest_miss(finding: &Finding) -> String {
    let accesses = &finding.history.accesses;
    let wrote = |access: &Access| {
        access.grant.is_some() && access.accepted && access.kind != AccessKind::Read
    };
    match finding.judgement.nearest_miss {
        Some(miss) if miss < 0 && finding.judgement.verdict == Verdict::Holds => {
            let by = three_digits(miss);
            format!(
                "{by}: another could have been granted the lock while its holder wrote; nobody was"
            )
        }
        Some(miss) => three_digits(miss),
        None if accesses.iter().any(wrote) => "no write under a lease that ends".to_owned(),
        None => "-".to_owned(),
    }
}

/// The maximum number of violations of one kind that are shown.
const SHOWN: usize = 3;

/// What was violated, by which callers, when and for how long: the first few of each kind.
pub fn violations(finding: &Finding) -> Table {
    let witness = Witness::of(finding);
    let kinds = kinds(&finding.judgement.verdict).into_iter();
    let shown = kinds.flat_map(|kind| witness.of_kind(kind).take(SHOWN));
    let rows = shown.map(|violation| {
        let lasts = match violation.kind {
            // The evidence of a leak is one acquire; its key kept others out for as long as it
            // lived.
            Kind::Leak => 0,
            _ => violation.to.at.saturating_sub(violation.from.at),
        };
        let remarks = remarks(&witness, violation);
        vec![
            violation.kind.word().to_owned(),
            list(&callers(&witness, violation)),
            moment(violation.from.at),
            if lasts == 0 { "-".to_owned() } else { length(lasts) },
            if remarks.is_empty() { "-".to_owned() } else { remarks.join(", ") },
        ]
    });
    Table { head: vec!["violation", "who", "from", "for", "why"], rows: rows.collect() }
}

/// Why the violation occurred, and what the other cells do not show.
fn remarks(witness: &Witness<'_>, violation: &Violation) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    remarks.extend(violation.own.as_ref().map(naming::own));
    remarks.extend(violation.cause.map(|why| cause(why).to_owned()));
    remarks.extend(violation.late.map(|late| match witness.is_notified(violation) {
        true => format!("notified {} late", length(late)),
        false => "never notified".to_owned(),
    }));
    if violation.kind == Kind::Leak {
        remarks.push("from the first acquire that counts as kept out".to_owned());
    }
    remarks
}

/// The number of violations that the table omits, if any.
pub fn more_violations(finding: &Finding) -> Option<String> {
    let witness = Witness::of(finding);
    let kinds = kinds(&finding.judgement.verdict).into_iter();
    let left_out: Vec<String> = kinds
        .filter_map(|kind| {
            let more = witness.of_kind(kind).count().saturating_sub(SHOWN);
            (more > 0).then(|| format!("{more} of {}", kind.word()))
        })
        .collect();
    (!left_out.is_empty()).then(|| format!("And more of the same: {}.", list(&left_out)))
}

/// The planned faults, and when they struck.
pub fn faults(finding: &Finding) -> Table {
    let index = HistoryIndex::of(&finding.history, &finding.plan.lock.key);
    let row = |fault: &Fault| {
        let fault_intervals =
            finding.history.fault_intervals.iter().filter(|c| c.fault == fault.id);
        let struck: Vec<String> = fault_intervals
            .map(|interval| match interval.to {
                Some(to) if to.at > interval.from.at => {
                    let over = index.is_over_at(interval);
                    format!("{} to {}", moment(interval.from.at), moment(over.at))
                }
                Some(_) => {
                    let late = order::late(interval);
                    let late = late.map(|done| format!(", carried out at {}", moment(done.at)));
                    format!("{}{}", moment(interval.from.at), late.unwrap_or_default())
                }
                None => format!("{} to the end", moment(interval.from.at)),
            })
            .collect();
        vec![
            fault.id.to_string(),
            describe(&fault.verb),
            fault.target.to_string(),
            anchor(&fault.anchor),
            fault.length.map_or_else(|| "-".to_owned(), length),
            if struck.is_empty() { "never".to_owned() } else { struck.join(", ") },
        ]
    };
    let head = vec!["id", "fault", "target", "planned", "for", "struck"];
    Table { head, rows: finding.plan.faults.iter().map(row).collect() }
}

fn describe(verb: &Verb) -> String {
    format!("{}{}", verb.word(), mark(&verb.figure()))
}

fn anchor(anchor: &Anchor) -> String {
    match anchor {
        Anchor::At(at) => moment(*at),
        Anchor::After { event, nth, plus } => {
            let plus = if *plus == 0 { String::new() } else { format!(" + {}", length(*plus)) };
            format!("after {}{plus}", pattern(event, *nth))
        }
    }
}

fn pattern(pattern: &Pattern, nth: u32) -> String {
    match pattern {
        Pattern::Step { who, label } => format!("{who}'s step {label} ({nth})"),
        Pattern::Outcome { who, what } => format!("{who}'s {what} ({nth})"),
        Pattern::Fault { id, edge } => {
            format!("fault {id} {} ({nth})", format!("{edge:?}").to_lowercase())
        }
        Pattern::Node { who, becomes } => format!("{who} {} ({nth})", becomes.word()),
        Pattern::Message { from, to, command, leg } => {
            let command = command.as_deref().unwrap_or("message");
            let leg = format!("{leg:?}").to_lowercase();
            format!("{command} {from} to {to} {leg} ({nth})")
        }
    }
}

/// The title of the assumptions of a finding.
pub fn assumptions_title(finding: &Finding) -> &'static str {
    match (&finding.class, &finding.judgement.verdict) {
        (Some(class), _) if class.broken.len() > 1 => "The assumptions that broke",
        (Some(_), _) => "The assumption that broke",
        (None, Verdict::Holds) => "It held under these assumptions",
        (None, _) => "What the lock counts on",
    }
}

/// Whether a hunt drew the plan, so that it has no scenario file.
fn is_hunted(finding: &Finding) -> bool {
    finding.ask.is_empty()
}

/// What only the author's own test can provide, as calls on a replay of the plan: the command line
/// knows the catalogue alone.
pub fn owned(finding: &Finding) -> String {
    let Plan { lock, workload, .. } = &finding.plan;
    let lock = catalogue::is_own(&lock.algorithm).then_some(".lock(...)");
    let work = matches!(workload.kind, WorkloadKind::Own(_)).then_some(".workload(...)");
    let has_check = !Signature::of(&finding.judgement.verdict).checks.is_empty();
    let check = has_check.then_some(".check(...)");
    lock.into_iter().chain(work).chain(check).collect()
}

/// The commands that run the plan again; none if only a test can run it: see [`owned`].
pub fn commands(finding: &Finding) -> Vec<String> {
    let Finding { scenario, seed, .. } = finding;
    if !owned(finding).is_empty() {
        return Vec::new();
    }
    if is_hunted(finding) {
        return vec![format!("lockstorm replay {scenario}.plan.json")];
    }
    vec![
        format!("lockstorm run {} --seed {seed}", file(finding)),
        format!("lockstorm replay {scenario}.plan.json"),
    ]
}

/// The scenario's file, as the user named it.
fn file(finding: &Finding) -> String {
    match finding.file.as_str() {
        "" => format!("scenarios/{}.toml", finding.scenario),
        file => file.to_owned(),
    }
}

/// The test for the plan, as a user would write it.
pub fn test_snippet(finding: &Finding) -> Vec<String> {
    let Finding { scenario, seed, .. } = finding;
    let name = scenario.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let own = owned(finding);
    let line = if is_hunted(finding) {
        format!("    lockstorm::test::replay(\"{scenario}.plan.json\"){own}.holds();")
    } else {
        let file = file(finding);
        format!("    lockstorm::test::scenario(\"{file}\"){own}.seed({seed}).run();")
    };
    vec!["#[test]".to_owned(), format!("fn {name}() {{"), line, "}".to_owned()]
}

/// What was tested, in one line.
pub fn subject(finding: &Finding) -> String {
    let plan = &finding.plan;
    let nodes = count(plan.topology.nodes.into(), "node");
    let kind = match plan.topology.kind {
        TopologyKind::Single => "",
        TopologyKind::Replicated => "replicated ",
        TopologyKind::Sentinel => "watched ",
        TopologyKind::Cluster => "clustered ",
        TopologyKind::Independent => "independent ",
    };
    let sentinels = match plan.sentinels().len() {
        0 => String::new(),
        many => format!(", {}", count(many as u64, "Sentinel")),
    };
    let topology = &plan.topology;
    let (several, pairs) = (topology.masters(), topology.replicas() > 0);
    let masters = if topology.shards.is_some() || (several > 1 && pairs) {
        let first = count(several.into(), "master");
        let pairs = if pairs { format!(", n{} follows n1", several + 1) } else { String::new() };
        format!(" ({first}{pairs})")
    } else {
        String::new()
    };
    let disk = match plan.topology.persistence {
        Persistence::None => "no persistence",
        Persistence::AofAlways => "append-only file synced always",
        Persistence::AofEverysec => "append-only file synced every second",
        Persistence::Rdb => "all keys saved now and then",
        Persistence::AofNo => "append-only file synced by the kernel",
    };
    let (number, nodes) = nodes.split_once(' ').unwrap_or(("", &nodes));
    let ttl = plan.lock.ttl.map_or_else(String::new, |ttl| format!(" of {}", length(ttl)));
    let library = match plan.lock.library.as_str() {
        "" => String::new(),
        library => as_library(&plan.lock, library),
    };
    format!(
        "{}{ttl}{library}, {}, {number} {kind}{nodes}{masters}{sentinels}, {disk}",
        plan.lock.algorithm,
        clients(&plan.workload),
    )
}

/// From which library the options of a lock are, and which of them are others.
fn as_library(lock: &LockConfig, name: &str) -> String {
    let changed = library::find(name).map_or(Vec::new(), |library| library.changed(lock));
    let changed: Vec<String> = changed.into_iter().map(str::to_owned).collect();
    let but = match changed.is_empty() {
        true => String::new(),
        false => format!(" but for {}", list(&changed)),
    };
    format!(" as {name} has it{but}")
}

/// What this run did not test: other seeds, planned faults that struck nothing, and faults that the
/// plan does not have.
pub fn untested(finding: &Finding) -> Vec<String> {
    let Finding { seed, strategy, engine, .. } = finding;
    let state = if finding.is_shrunk { "shrunk" } else { "as drawn" };
    let run = match strategy.as_str() {
        "" => format!("seed {seed}"),
        strategy => format!("the plan of seed {seed} by the strategy '{strategy}', {state},"),
    };
    let mut lines = vec![format!(
        "This is one run: {run} on the {engine} engine. Other seeds order events otherwise."
    )];
    let reading = Witness::of(finding).reading;
    let idle = finding.plan.faults.iter().filter(|fault| !has_struck(finding, &reading, fault));
    let idle: Vec<String> = idle.map(name).collect();
    if !idle.is_empty() {
        let (idle, it) = (list(&idle), if idle.len() == 1 { "it" } else { "them" });
        lines.push(format!(
            "Planned, and struck nothing: {idle}. Causes, thresholds and remedies do not require \
             {it} to strike."
        ));
    }
    let had: BTreeSet<&str> = finding.plan.faults.iter().map(|fault| fault.verb.word()).collect();
    lines.extend(missing(&finding.plan, &had));
    if finding.judgement.verdict == Verdict::Holds {
        lines.push("That it held here is no proof that it always does.".to_owned());
    }
    lines
}

/// The faults that were not among these, by what kept them out.
pub fn missing(plan: &Plan, had: &BTreeSet<&str>) -> Vec<String> {
    let missing = || ROWS.iter().filter(|row| !had.contains(row.word));
    let lacking = |is_it: fn(Option<Lack>) -> bool| -> Vec<String> {
        let rows = missing().filter(|row| is_it(lack(&plan.topology, row)));
        rows.map(|row| row.word.to_owned()).collect()
    };
    let all = [
        (
            lacking(|lack| lack.is_none()),
            "Faults that could have struck here and were not part of it",
        ),
        (
            lacking(|lack| lack == Some(Lack::Replica)),
            "Faults that this topology has no replica for",
        ),
        (
            lacking(|lack| lack == Some(Lack::Operator)),
            "Faults that only a command causes, and these nodes act on their own",
        ),
        (
            lacking(|lack| lack.is_some_and(Lack::is_of_disk)),
            "Faults that these nodes keep too little on disk for",
        ),
    ];
    let some = all.into_iter().filter(|(words, _)| !words.is_empty());
    some.map(|(words, begins)| format!("{begins}: {}.", list(&words))).collect()
}

/// Whether a fault struck and, if its effects were counted, had any.
fn has_struck(finding: &Finding, reading: &Reading, fault: &Fault) -> bool {
    let fault_intervals = finding.history.fault_intervals.iter();
    let mut own = fault_intervals.filter(|found| found.fault == fault.id);
    let nodes = finding.plan.nodes();
    own.any(|found| !idle::did_nothing(reading, &nodes, found))
}

fn name(fault: &Fault) -> String {
    format!("fault {} ({} on {})", fault.id, fault.verb.word(), fault.target)
}
