//! What the command line uses of the laboratory: results of plans, reports, hunts.

use std::path::Path;

use crate::cli::kept::Kept;
use crate::cli::values::REPORTS;
use crate::edge::watchdog;
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explain::threshold::{range_words, threshold_words};
use crate::explore::agree::EngineAgreement;
use crate::explore::budget::Budget;
use crate::explore::knob::Knob;
use crate::explore::threshold::Located;
use crate::explore::{agree, examine, knob, trial};
use crate::plan::Plan;
use crate::report::index::Linked;
use crate::report::page::Page;
use crate::report::{index, mark, text};
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

/// The page that links all others.
pub const CONTENTS: &str = "README.md";
/// The same with a link to every report; [`CONTENTS`] links only the showcases. A scenario cannot
/// have this name.
pub const ALL_LINKED: &str = "INDEX.md";

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
