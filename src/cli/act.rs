//! The seams between the command line and the rest of the house: what a plan comes to, what is
//! written about it, what a hunt finds. Nothing else in `cli` reaches further than this file.

use std::ops::RangeInclusive;

use crate::check::{Counts, Judgement, Verdict};
use crate::plan::{Plan, TopologyKind};
use crate::scenario::Scenario;
use crate::scenario::expectation::Class;

/// What one run of a plan came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What the checks say.
    pub judgement: Judgement,
    /// Whose fault a violation is.
    pub class: Option<Class>,
    /// The hash of the trace.
    pub trace: u128,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name within the folder of reports.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What a hunt is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarry {
    /// The lock's name.
    pub lock: String,
    /// How the nodes belong together.
    pub topology: TopologyKind,
    /// The words of the faults to draw from; empty: all.
    pub faults: Vec<String>,
    /// Whether to draw only plans within the lock's assumptions.
    pub within_assumptions: bool,
    /// The seeds to try.
    pub seeds: RangeInclusive<u64>,
    /// How many at a time.
    pub jobs: Option<u16>,
}

/// What a hunt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catch {
    /// How many plans were run before the violation, or at all.
    pub tried: u64,
    /// In how many of them a fault struck while somebody held the lock.
    pub struck_in_hold: u64,
    /// The small plan of the first violation, and what it comes to.
    pub found: Option<(Plan, Finding)>,
}

/// Runs a plan, checks its history and decides the class of what is violated.
pub fn examine(_plan: &Plan) -> Finding {
    // TODO(seam): run::run, check::judge, and the re-run that decides the class.
    let verdict = Verdict::Unknown("this build has no world yet".to_owned());
    let judgement = Judgement { verdict, counts: Counts::default(), nearest_miss: None };
    Finding { judgement, class: None, trace: 0 }
}

/// The pages about one scenario on one seed.
pub fn report(_scenario: &Scenario, _plan: &Plan, _finding: &Finding) -> Vec<Page> {
    // TODO(seam): report::markdown, report::svg, report::json.
    Vec::new()
}

/// The page that leads to all others.
pub fn index(_ran: &[(&Scenario, Plan, Finding)]) -> Vec<Page> {
    // TODO(seam): report::index.
    Vec::new()
}

/// Hunts. `tick` is called after each plan, from any thread.
pub fn hunt(_quarry: &Quarry, _tick: &(dyn Fn() + Sync)) -> Catch {
    // TODO(seam): explore::hunt.
    Catch { tried: 0, struck_in_hold: 0, found: None }
}
