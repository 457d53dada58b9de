//! The seams between the command line and the rest of the house: what a plan comes to, what is
//! written about it, what a hunt finds. Nothing else in `cli` reaches further than this file.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::explain::explain;
use crate::explain::finding::Finding;
use crate::explore::agree::{self, Agreement};
use crate::explore::hunt::{self, Hunt};
use crate::explore::strategy::{Alphabet, default_verbs};
use crate::explore::{examine, trial};
use crate::plan::Plan;
use crate::report::{index, json, markdown, svg};
use crate::run::Lab;
use crate::scenario::Scenario;

/// The scenarios whose reports are kept with the source, as examples.
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

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name within the folder of reports.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What a hunt is asked for.
#[derive(Clone, Debug)]
pub struct Quarry {
    /// Where the plans are run.
    pub lab: Lab,
    /// What every plan has in common.
    pub base: Plan,
    /// The words of the faults to draw from; empty: the usual ones.
    pub faults: Vec<String>,
    /// Whether to draw only plans within the lock's assumptions.
    pub within_assumptions: bool,
    /// The seeds to try.
    pub seeds: RangeInclusive<u64>,
    /// How many at a time.
    pub jobs: Option<u16>,
}

/// What a hunt came to.
pub struct Catch {
    /// How much was tested.
    pub tally: hunt::Tally,
    /// The violation that was found: its small plan, and how many plans shrinking ran.
    pub found: Option<(Finding, u32)>,
}

/// The pages about one scenario on one seed.
pub fn report(finding: &Finding) -> Vec<Page> {
    let explanation = explain(finding);
    let page = |ending: &str, text: String| {
        let name = format!("{}{ending}", finding.scenario);
        Page { name, text }
    };
    vec![
        page(".md", markdown::page(finding, &explanation)),
        page(".svg", svg::picture(finding, &explanation)),
        page(".json", json::document(finding, &explanation)),
        page(".plan.json", finding.plan.to_json()),
    ]
}

/// The page that leads to all others.
pub fn contents(findings: &[&Finding]) -> Page {
    let shown: BTreeSet<String> = SHOWCASES.into_iter().map(str::to_owned).collect();
    let entries: Vec<index::Entry> =
        findings.iter().map(|finding| index::Entry::of(finding)).collect();
    Page { name: "README.md".to_owned(), text: index::page(&entries, &shown) }
}

/// Runs a scenario on a seed.
pub fn examine(lab: &Lab, scenario: &Scenario, seed: u64) -> Finding {
    examine::scenario(lab, scenario, seed)
}

/// Runs a plan.
pub fn examine_plan(lab: &Lab, plan: &Plan) -> Finding {
    examine::plan(lab, plan)
}

/// Runs a plan twice more. `None` if both runs have the same trace; else what differs first, in
/// words: a bug of ours.
pub fn divergence(lab: &Lab, plan: &Plan) -> Option<String> {
    let (one, other) = trial::divergence(lab, plan)?;
    let name = &plan.name;
    Some(format!("two runs of '{name}' differ, first here:\n  {one}\n  {other}\n"))
}

/// How far two engines agree about a plan.
pub fn agreement(one: &Finding, other: &Finding) -> Agreement {
    agree::agreement(one, other)
}

/// Hunts. `tick` is told how many plans are done.
pub fn hunt(quarry: &Quarry, tick: &(dyn Fn(u64) + Sync)) -> Catch {
    let base = quarry.base.clone();
    let mut verbs: BTreeSet<String> = quarry.faults.iter().cloned().collect();
    if verbs.is_empty() {
        verbs = default_verbs();
    }
    let lab = quarry.lab.clone();
    let within = quarry.within_assumptions.then(|| lab.promise(&base));
    let alphabet = Alphabet { verbs, most_faults: 4, halts_clients: true, within };
    let hunt = Hunt { lab: lab.clone(), base, alphabet, seeds: quarry.seeds.clone() };
    let report = side_by_side(quarry.jobs, || hunt::hunt(&hunt, tick));
    let found = report.found.map(|found| {
        let runs = found.shrink_runs;
        (examine::finding(&lab, &found.plan, found.trial, Some(found.class)), runs)
    });
    Catch { tally: report.tally, found }
}

/// Runs `work` with so many threads, or with as many as there are cores.
fn side_by_side<T: Send>(jobs: Option<u16>, work: impl FnOnce() -> T + Send) -> T {
    let threads = jobs.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("threads can be started").install(work)
}
