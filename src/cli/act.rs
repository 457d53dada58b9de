//! What the command line uses of the laboratory: results of plans, reports, hunts.

use std::path::Path;

use crate::cli::args::REPORTS;
use crate::cli::kept::Kept;
use crate::edge::page::Page;
use crate::edge::watchdog;
use crate::explain::cause::{range_words, threshold_words};
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explore::agree::EngineAgreement;
use crate::explore::budget::Budget;
use crate::explore::distinct::{Distinct, distinct};
use crate::explore::hunt::{Hunt, HuntProgress, Scouted, Until};
use crate::explore::knob::Knob;
use crate::explore::novelty::Novelty;
use crate::explore::sound::Sound;
use crate::explore::strategy::Strategy;
use crate::explore::threshold::Located;
use crate::explore::{agree, examine, hunt, knob, trial};
use crate::plan::Plan;
use crate::report::index::Linked;
use crate::report::{index, json, mark, markdown, svg, text};
use crate::run::Lab;
use crate::scenario::Scenario;

/// The scenarios whose reports are committed as examples.
pub const SHOWCASES: [&str; 8] = [
    "gc-pause-outlives-lease",
    "gc-pause-fenced",
    "failover-before-replication",
    "node-clock-steps-forward",
    "px-constant-foreign-del",
    "redlock-amnesiac-restart",
    "redlock-partitions",
    "setnx-holder-crashes",
];

/// The endings of the names of one scenario's pages.
const ENDINGS: [&str; 4] = [".md", ".svg", ".json", ".plan.json"];
/// The page that links all others.
pub const CONTENTS: &str = "README.md";
/// The same with a link to every report; [`CONTENTS`] links only the showcases. A scenario cannot
/// have this name.
pub const ALL_LINKED: &str = "INDEX.md";

/// The result of a hunt.
pub struct Catch {
    /// How much was tested.
    pub tally: hunt::Tally,
    /// The first seed that was not tried, if the budget was used up before it.
    pub next: Option<u64>,
    /// The number of violated plans.
    pub violated: u64,
    /// The states that the plans have shown.
    pub novelty: Novelty,
    /// The distinct findings, the most important one first.
    pub groups: Vec<Caught>,
    /// The scenario file that describes the first finding, if possible.
    pub scenario: Option<Page>,
}

/// A finding of a hunt.
pub struct Caught {
    /// The finding about its smallest plan; only that of the first group is explained.
    pub finding: Finding,
    /// How its plan was drawn.
    pub strategy: Strategy,
    /// The number of plans that showed it.
    pub count: u64,
    /// What a correct lock of the same family does in this plan.
    pub sound: Option<Sound>,
    /// The number of plans that shrinking ran.
    pub shrink_runs: u32,
    /// Whether no smaller plan has the same signature.
    pub is_minimal: bool,
}

/// The pages about one scenario on one seed.
pub fn report(finding: &Finding) -> Vec<Page> {
    let explanation = explain(finding);
    let page = |ending: &str, text: String| {
        let name = format!("{}{ending}", finding.scenario);
        Page { name, text }
    };
    let [report, picture, whole, plan] = ENDINGS;
    vec![
        page(report, mark::marked(&markdown::page(finding, &explanation))),
        page(picture, mark::marked(&svg::picture(finding, &explanation))),
        page(whole, json::document(finding, &explanation)),
        page(plan, finding.plan.to_json()),
    ]
}

/// The plan of a finding that is not the first of its hunt.
pub fn plan_page(finding: &Finding, nth: usize) -> Page {
    let name = format!("{}-{nth}.plan.json", finding.scenario);
    Page { name, text: finding.plan.to_json() }
}

/// How a violation became possible, and the assumptions that it broke.
pub fn how(finding: &Finding) -> Vec<String> {
    text::how(&explain(finding))
}

/// The names of the pages about a scenario of this name.
pub fn report_names(scenario: &str) -> impl Iterator<Item = String> {
    ENDINGS.map(|ending| format!("{scenario}{ending}")).into_iter()
}

/// The index pages for the folder of all reports.
///
/// `README.md` links every report, except if the main job writes it for this project's own
/// scenarios. That file is committed, but of the reports only the showcases are. So it links only
/// those, and the repository has no dead links; `INDEX.md`, which is not committed, then links
/// every report.
pub fn contents(findings: &[&Finding], is_main_job: bool) -> Vec<Page> {
    let entries: Vec<index::Entry> =
        findings.iter().map(|finding| index::Entry::of(finding)).collect();
    let page = |name: &str, linked| {
        let text = mark::marked(&index::page(&entries, linked));
        Page { name: name.to_owned(), text }
    };
    let has = |name: &&str| entries.iter().any(|entry| entry.scenario == **name);
    if !(is_main_job && SHOWCASES.iter().all(has)) {
        return vec![page(CONTENTS, Linked::All)];
    }
    vec![page(CONTENTS, Linked::Some(&SHOWCASES, ALL_LINKED)), page(ALL_LINKED, Linked::All)]
}

/// Runs a scenario on a seed, for a report. Known results of its plan are not computed again.
pub fn examine(
    lab: &Lab,
    budget: Option<Budget>,
    scenario: &Scenario,
    seed: u64,
    kept: &Kept,
) -> Finding {
    let finding = examine::unexplained(lab, scenario, seed);
    let named = scenario.healed(seed);
    match kept.of(&finding, &named).cloned() {
        Some(known) => Finding { experiments: Some(known), ..finding },
        None => {
            let explained = examine::explained(lab, budget, &named, finding);
            examine::with_margins(lab, budget, explained)
        }
    }
}

/// Runs a scenario on a seed, for a verdict.
pub fn judge(lab: &Lab, scenario: &Scenario, seed: u64) -> Finding {
    examine::judged(lab, scenario, seed)
}

/// Runs a plan.
pub fn examine_plan(lab: &Lab, budget: Option<Budget>, plan: &Plan) -> Finding {
    let explained = examine::explained(lab, budget, &[], examine::unexplained_plan(lab, plan));
    examine::with_margins(lab, budget, explained)
}

/// Runs a plan, for a verdict.
pub fn judge_plan(lab: &Lab, plan: &Plan) -> Finding {
    examine::classified(lab, plan)
}

/// Runs the plan of a finding again. `None` if the trace is the same; otherwise the first
/// difference, in words: a bug in lockstorm.
pub fn divergence(lab: &Lab, plan: &Plan, finding: &Finding) -> Option<String> {
    let (one, other) = trial::divergence(lab, plan, &finding.trace_hash)?;
    let name = &plan.name;
    Some(format!("two runs of '{name}' differ, first here:\n  {one}\n  {other}\n"))
}

/// A finding in short: the sentence, how the violation became possible, what made the difference,
/// thresholds.
pub fn in_short(finding: &Finding) -> Vec<String> {
    text::short(finding, &explain(finding))
}

/// The result of a request for thresholds.
pub enum ThresholdReport {
    /// The verdict of the plan itself is unknown.
    Unknown(Box<Finding>),
    /// One line for each threshold.
    Lines(Vec<String>),
}

/// The thresholds of one figure of a plan, or of all its figures; the valid names if there is no
/// such figure.
pub fn thresholds(
    lab: &Lab,
    plan: &Plan,
    of: Option<&str>,
) -> Result<ThresholdReport, Vec<String>> {
    let knobs = knob::knobs(lab, plan);
    let names: Vec<String> = knobs.iter().map(|knob| knob.name(plan)).collect();
    let chosen: Vec<Knob> = knobs
        .into_iter()
        .zip(&names)
        .filter(|(_, name)| of.is_none_or(|of| of == *name))
        .map(|(knob, _)| knob)
        .collect();
    if chosen.is_empty() {
        return Err(names);
    }
    let found = examine::thresholds_of(lab, plan, &chosen);
    Ok(match found {
        Err(finding) => ThresholdReport::Unknown(finding),
        Ok(found) => ThresholdReport::Lines(found.iter().flat_map(words).collect()),
    })
}

/// A line for each threshold of a figure, or one line that it makes no difference.
fn words((name, found): &(String, Located)) -> Vec<String> {
    match found {
        Located::Thresholds(found) => found
            .iter()
            .map(|threshold| format!("{name}: {}", threshold_words(threshold)))
            .collect(),
        Located::Everywhere(steady) => {
            vec![format!("{name}: no threshold, {}", range_words(steady))]
        }
    }
}

/// To what extent two engines agree about a plan.
pub fn agreement(one: &Finding, other: &Finding) -> EngineAgreement {
    agree::agreement(one, other)
}

/// Hunts with this many parallel plans. The search may take the first budget, the explanation of
/// the first finding the second.
/// `progress` receives each step.
pub fn hunt(
    hunt: &Hunt,
    until: Until,
    jobs: Option<u16>,
    (search, explaining): (Option<Budget>, Option<Budget>),
    progress: &(dyn Fn(HuntProgress) + Sync),
) -> Catch {
    let scouted = side_by_side(jobs, || hunt::scout(hunt, until, search, progress));
    catch(hunt, scouted, jobs, explaining, progress)
}

/// Shrinks and explains what a hunt has found.
pub fn catch(
    hunt: &Hunt,
    scouted: Scouted,
    jobs: Option<u16>,
    budget: Option<Budget>,
    progress: &(dyn Fn(HuntProgress) + Sync),
) -> Catch {
    let shrunk = || progress(HuntProgress::Shrunk);
    let found = side_by_side(jobs, || distinct(hunt, &scouted.groups, &shrunk));
    let lab = &hunt.lab;
    let groups = found.into_iter().enumerate().map(|(index, distinct)| {
        let Distinct { count, found, sound } = distinct;
        let (shrink_runs, is_minimal) = (found.shrink_runs, found.is_minimal);
        let strategy = found.strategy;
        let finding = match index {
            0 => found.finding(lab, budget),
            _ => found.unexplained(lab),
        };
        Caught { finding, strategy, count, sound, shrink_runs, is_minimal }
    });
    let groups: Vec<Caught> = groups.collect();
    let scenario = groups.first().and_then(|first| scenario_page(lab, &first.finding));
    let violated = scouted.groups.iter().map(|(_, sightings)| sightings.count).sum();
    let Scouted { tally, novelty, next, .. } = scouted;
    Catch { tally, next, violated, novelty, groups, scenario }
}

/// The names of the pages about the first finding of a hunt with a base plan of this name.
pub fn hunt_names(plan: &str) -> impl Iterator<Item = String> {
    report_names(plan).chain([scenario_name(plan)])
}

/// The name of the scenario file for the result of a hunt.
fn scenario_name(plan: &str) -> String {
    format!("{plan}.toml")
}

fn scenario_page(lab: &Lab, finding: &Finding) -> Option<Page> {
    let text = examine::as_scenario(lab, finding)?;
    Some(Page { name: scenario_name(&finding.scenario), text: mark::noted(&text) })
}

/// Runs `work` with this many threads; by default one per core.
pub fn side_by_side<T: Send>(jobs: Option<u16>, work: impl FnOnce() -> T + Send) -> T {
    let threads = jobs.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("threads can be started").install(work)
}

/// The same lab with a watchdog, which saves the plan of a lock whose poll does not return.
pub fn watched(lab: Lab) -> Lab {
    watchdog::over(lab, Path::new(REPORTS), watchdog::PATIENCE)
}
