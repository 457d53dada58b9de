//! The result of a hunt for a terminal, and the files that belong to it: the report of the first
//! finding, and the plan of each.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::check::verdict::Kind;
use crate::explain::assumption;
use crate::explain::experiment::Cut;
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::hunt::catch::{self, Catch};
use crate::hunt::distinct::Distinct;
use crate::hunt::search::Until;
use crate::hunt::shrink::Shrunk;
use crate::hunt::sound::Sound;
use crate::hunt::wording::Wording;
use crate::plan::Plan;
use crate::quantity::{self, count};
use crate::report::page::{self, Page};
use crate::report::{content, mark, text};

/// Who reads the result: it decides where the files are and how the reader goes on.
pub struct Audience<'a> {
    /// The folder of the files.
    pub folder: &'a Path,
    /// Whether the first finding is shown with its whole story, instead of in short.
    pub is_whole: bool,
    /// The command that made the result, if it was one.
    pub command: Option<String>,
    /// How the reader names the settings of a hunt.
    pub wording: Wording,
    /// How the reader runs the plan of a finding again, which is in this file.
    pub again: &'a (dyn Fn(&Finding, &Path) -> String + Sync),
    /// How the reader gets the story of another finding than the first.
    pub others: &'a str,
}

/// The first finding, or that there is none: what is known before any file is written.
pub fn found(catch: &Catch, audience: &Audience<'_>) -> Vec<String> {
    let tested = &catch.scouted.tally;
    let Some(first) = catch.findings.first() else { return nothing(catch, audience) };
    let finding = &first.finding;
    let groups = catch.findings.len();
    let is_first = catch.until == Until::First;
    let all = match is_first {
        true => text::found(finding),
        false => {
            let (plans, seeds) = (count(catch.violated(), "violated plan"), seeds(catch));
            format!("{plans} in {}; {seeds}", count(groups as u64, "group"))
        }
    };
    let mut lines = vec![format!("found after {tested}: {all}")];
    lines.extend((!is_first).then(|| headline(first, 1, groups)));
    lines.push(shrunk(first, audience));
    let explanation = explain(finding);
    match audience.is_whole {
        true => lines.push(text::page(finding, &explanation, false)),
        false => lines.extend(text::short(finding, &explanation)),
    }
    let is_outside = finding.class.as_ref().is_some_and(|class| !class.is_in_model());
    if is_outside && !catch.within {
        let within = audience.wording.within();
        lines
            .push(format!("a bug of the lock itself may hide behind this one: hunt with {within}"));
    }
    lines
}

/// What a hunt that found nothing has shown.
fn nothing(catch: &Catch, audience: &Audience<'_>) -> Vec<String> {
    let (tested, seeds) = (&catch.scouted.tally, seeds(catch));
    let reasons = tested.reasons().join(", ");
    let reasons = if reasons.is_empty() { String::new() } else { format!(": {reasons}") };
    if tested.struck_in_hold == 0 {
        let others = match catch.within {
            true => format!("try more seeds, or hunt without {}", audience.wording.within()),
            false => "try more seeds".to_owned(),
        };
        let what = format!("unknown: no fault struck inside a hold in {tested}{reasons}");
        return [format!("{what}; {seeds}; {others}")].into_iter().chain(assumed(catch)).collect();
    }
    if tested.held == 0 {
        return vec![format!(
            "unknown: each plan left something untested, of {tested}{reasons}; {seeds}"
        )];
    }
    let explored = &catch.scouted.novelty;
    let what = match catch.is_stopped {
        true => format!("unknown: no violation so far in {tested}; {seeds}"),
        false => format!("no violation in {tested}; {seeds}"),
    };
    let lines = [what, format!("explored: {explored}")];
    lines.into_iter().chain(assumed(catch)).chain(untested(catch)).collect()
}

/// The assumptions within which a clean hunt stayed.
fn assumed(catch: &Catch) -> Option<String> {
    let each = catch.assumed.iter().map(|it| assumption::bound(it.what, it.bound));
    let each: Vec<String> = each.collect();
    let all = each.join("; ");
    (!each.is_empty()).then(|| format!("assumed, with the figures of the base plan: {all}"))
}

/// The faults about which a clean hunt says nothing.
fn untested(catch: &Catch) -> Option<String> {
    let faults: Vec<String> = catch.left_out.iter().map(|word| (*word).to_owned()).collect();
    let it = if faults.len() == 1 { "it does" } else { "they do" };
    let faults = (!faults.is_empty()).then(|| quantity::list(&faults))?;
    Some(format!("not tested: {faults}, since the lock assumes that {it} not happen"))
}

/// The other findings, and where the files are.
pub fn kept(catch: &Catch, audience: &Audience<'_>) -> Vec<String> {
    let path = |name: String| audience.folder.join(name);
    let list = format!("list: {}", path(list_name(&catch.name)).display());
    let Some((first, others)) = catch.findings.split_first() else { return vec![list] };
    let (finding, groups) = (&first.finding, catch.findings.len());
    let again =
        |finding: &Finding, path: PathBuf| format!("again: {}", (audience.again)(finding, &path));
    let mut lines = vec![format!("report: {}", path(finding.scenario.clone() + ".md").display())];
    if catch.scenario.is_some() {
        lines.push(format!("scenario: {}", path(scenario_name(finding)).display()));
    }
    lines.push(again(finding, path(plan_name(finding))));
    for (nth, other) in (2..).zip(others) {
        lines.extend(in_short(other, (nth, groups), audience));
        lines.push(format!("  {}", again(&other.finding, path(plan_name(&other.finding)))));
    }
    if !others.is_empty() {
        lines.push(audience.others.to_owned());
    }
    lines.push(list);
    lines.push(format!("explored: {}", catch.scouted.novelty));
    lines
}

/// The other findings, if no file could be written.
pub fn others(catch: &Catch, audience: &Audience<'_>) -> Vec<String> {
    let groups = catch.findings.len();
    let others = (1..).zip(&catch.findings).skip(1);
    others.flat_map(|(nth, other)| in_short(other, (nth, groups), audience)).collect()
}

fn in_short(
    other: &Distinct,
    (nth, groups): (usize, usize),
    audience: &Audience<'_>,
) -> Vec<String> {
    let lines = [headline(other, nth, groups), format!("  {}", shrunk(other, audience))];
    lines.into_iter().chain(text::how(&explain(&other.finding))).collect()
}

/// The seed and the plan of the first finding; nothing if there is none.
pub fn last(catch: &Catch) -> Option<String> {
    let Distinct { finding, strategy, .. } = catch.findings.first()?;
    let (seed, plan) = (finding.seed, &finding.plan_hash);
    Some(format!("seed {seed} of the strategy '{strategy}', plan {plan}"))
}

/// The list of the findings, the report of the first one with its scenario, and the plans of the
/// others.
pub fn pages(catch: &Catch, audience: &Audience<'_>) -> Vec<Page> {
    let mut pages = vec![list(catch, audience)];
    let Some((first, others)) = catch.findings.split_first() else { return pages };
    pages.extend(page::of_finding(&first.finding));
    pages.extend(catch.scenario.iter().map(|text| {
        let name = scenario_name(&first.finding);
        Page { name, text: mark::noted(text) }
    }));
    pages.extend(others.iter().map(|Distinct { finding, .. }| {
        let name = plan_name(finding);
        Page { name, text: finding.plan.to_json() }
    }));
    pages
}

/// What the last hunt of a lock on a topology has found: the only page that another hunt replaces.
fn list(catch: &Catch, audience: &Audience<'_>) -> Page {
    let (name, tested) = (&catch.name, &catch.scouted.tally);
    let mut text = format!("# {name}: the last hunt\n\n");
    text.extend(audience.command.iter().map(|command| format!("`{command}`\n\n")));
    if catch.findings.is_empty() {
        text += &(nothing(catch, audience).join("\n\n") + "\n");
    } else {
        let stay = "all plans stay within the assumptions of the lock";
        let within = if catch.within { format!("; {stay}") } else { String::new() };
        text += &format!("{tested}; {}{within}\n\n", seeds(catch));
    }
    let groups = catch.findings.len();
    for (nth, found) in (1..).zip(&catch.findings) {
        let (finding, what) = (&found.finding, headline(found, nth, groups));
        let plan = plan_name(finding);
        let report = format!("{}.md", finding.scenario);
        let report = if nth == 1 { format!(", [report]({report})") } else { String::new() };
        text += &format!("- {what}; {}: [plan]({plan}){report}\n", shrunk(found, audience));
        for line in text::how(&explain(finding)) {
            text += &format!("  {}\n", line.trim());
        }
    }
    Page { name: list_name(&catch.name), text: mark::marked(&text) }
}

/// The names of the pages that hunts with this base plan replace.
pub fn names(base: &Plan) -> impl Iterator<Item = String> {
    [list_name(&catch::name(base))].into_iter()
}

fn list_name(hunt: &str) -> String {
    format!("{hunt}.md")
}

fn scenario_name(finding: &Finding) -> String {
    format!("{}.toml", finding.scenario)
}

pub(super) fn plan_name(finding: &Finding) -> String {
    format!("{}.plan.json", finding.scenario)
}

/// The seeds that a catch tried.
fn seeds(catch: &Catch) -> String {
    tried(&catch.seeds, catch.scouted.next, catch.is_stopped)
}

/// The seeds that were tried, up to the first that was not.
pub(super) fn tried(seeds: &RangeInclusive<u64>, next: Option<u64>, is_stopped: bool) -> String {
    let (first, last) = (seeds.start(), seeds.end());
    match next {
        Some(next) if is_stopped => {
            format!("seeds {first}..{}, where it was stopped", next - 1)
        }
        Some(next) => format!("seeds {first}..{}, where the budget ended", next - 1),
        None if *last == u64::MAX => format!("seeds from {first} on"),
        None => format!("seeds {first}..{last}"),
    }
}

/// What a group is, and how often it was seen.
pub(super) fn headline(group: &Distinct, nth: usize, groups: usize) -> String {
    let (what, plans) = (text::found(&group.finding), count(group.count, "plan"));
    let beside = group.sound.as_ref();
    let beside = beside.map_or(String::new(), |sound| format!("; {}", words(sound, group.count)));
    format!("group {nth} of {groups}: {what}, in {plans}{beside}")
}

/// What a correct lock of the same family does in the plan: the only one of its group that is run
/// with it.
fn words(sound: &Sound, plans: u64) -> String {
    let Sound { lock, same, other, is_unknown } = sound;
    let kinds =
        |kinds: &[Kind]| kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
    let here = match plans {
        1 => "in this plan".to_owned(),
        plans => format!("in this plan (tried in 1 of {plans})"),
    };
    match (&same[..], &other[..]) {
        ([], []) if *is_unknown => format!("the verdict on {lock} is unknown {here}"),
        ([], []) => format!("{lock} holds {here}"),
        ([], other) => format!("{lock} only has another violation {here}: {}", kinds(other)),
        (same, _) => format!("{lock} is violated too {here}: {}", kinds(same)),
    }
}

pub(super) fn shrunk(group: &Distinct, audience: &Audience<'_>) -> String {
    let Distinct { finding, strategy, shrunk, uncompared, .. } = group;
    let Shrunk { runs, is_minimal, cut } = *shrunk;
    let (unshrunk, uncompared) = (cut.filter(|_| !is_minimal), *uncompared);
    let left = match (unshrunk, uncompared) {
        (None, None) if is_minimal => String::new(),
        (None, None) => "; shrinking stopped at its limit".to_owned(),
        (None, Some(why)) => undone("not compared with a correct lock", why, group, audience),
        (Some(why), other) => {
            let end = if finding.is_shrunk { " to the end" } else { "" };
            let alone = other.map_or("", |_| ", and not compared with a correct lock");
            undone(&format!("not shrunk{end}{alone}"), why, group, audience)
        }
    };
    let shrunk = match runs {
        0 if finding.is_shrunk => "shrunk to".to_owned(),
        0 => "as drawn".to_owned(),
        runs => format!("shrunk in {} to", count(u64::from(runs), "run")),
    };
    let drawn = format!("seed {} of the strategy '{strategy}'", finding.seed);
    format!("{drawn}, {shrunk} {}{left}", faults(finding))
}

/// What was left out of a finding, why, and what does it.
fn undone(what: &str, why: Cut, group: &Distinct, audience: &Audience<'_>) -> String {
    let (seed, strategy) = (group.finding.seed, group.strategy);
    let (hunt, unbounded) = match audience.wording {
        Wording::Options => {
            (format!("--seeds {seed}..{seed} --strategy {strategy}"), " and no --budget")
        }
        Wording::Methods => (
            format!(".seeds({seed}..={seed}) and the strategy '{strategy}'"),
            " and no .budget(..)",
        ),
    };
    // Who stopped a hunt need not have given it a budget.
    let unbounded = if why == Cut::Budget { unbounded } else { "" };
    format!("; {what}, because {}: the same hunt with {hunt}{unbounded} does it", why.words())
}

fn faults(finding: &Finding) -> String {
    let plan = &finding.plan;
    let each = plan.faults.iter().map(|fault| format!("{} of {}", fault.verb.word(), fault.target));
    let each: Vec<String> = each.collect();
    let faults = if each.is_empty() { "no fault".to_owned() } else { each.join(", ") };
    // A plan may have another topology and another lease than the hunt began with.
    format!("{faults} ({})", content::subject(finding))
}
