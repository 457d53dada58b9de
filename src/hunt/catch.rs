//! The result of a hunt: how much was tested, and its distinct findings, of which the first is
//! explained.

use std::ops::RangeInclusive;

use crate::explore::as_scenario::as_scenario;
use crate::explore::budget::{Budget, Spending};
use crate::explore::examine;
use crate::hunt::distinct::{Distinct, distinct, told_once};
use crate::hunt::left_out::{assumed, left_out};
use crate::hunt::search::{HuntProgress, Scouted, Until};
use crate::hunt::seeded::Hunt;
use crate::plan::Plan;
use crate::promise::Assumption;
use crate::scenario::tables::TOPOLOGIES;

/// The result of a hunt.
pub struct Catch {
    /// The seeds to try.
    pub seeds: RangeInclusive<u64>,
    /// When it was to stop.
    pub until: Until,
    /// Whether its plans stay within the assumptions of the lock.
    pub within: bool,
    /// What the plans showed.
    pub scouted: Scouted,
    /// The distinct findings, the most important one first. Only that one is explained; of the
    /// others trials show the mechanism.
    pub findings: Vec<Distinct>,
    /// The faults that no plan has, because the lock assumes that they do not happen; empty if
    /// something was found.
    pub left_out: Vec<&'static str>,
    /// The assumptions within which its plans stay, with the bounds of the base plan; empty if
    /// something was found.
    pub assumed: Vec<Assumption>,
    /// The scenario that describes the first finding, as the text of a file, if possible.
    pub scenario: Option<String>,
    /// What its files are named after: the lock and the topology. Those of a finding also bear the
    /// hash of its plan.
    pub name: String,
    /// Whether the user stopped it before its end.
    pub is_stopped: bool,
}

impl Catch {
    /// The number of violated plans.
    pub fn violated(&self) -> u64 {
        self.scouted.groups.iter().map(|(_, sightings)| sightings.count).sum()
    }
}

/// What the files of the hunts with this base plan are named after.
pub fn name(base: &Plan) -> String {
    let topology = TOPOLOGIES.iter().find(|(_, kind)| *kind == base.topology.kind);
    format!("{}-{}", base.name, topology.map_or("", |(word, _)| word))
}

/// The time limits of what follows a search.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    /// For shrinking all findings, and for comparing them with a correct lock.
    pub shrinking: Option<Budget>,
    /// For explaining the first one.
    pub explaining: Option<Budget>,
}

/// Shrinks what a hunt has found, and explains the first finding, each within its limit. `progress`
/// receives each group whose plan is shrunk.
pub fn catch(
    hunt: &Hunt,
    until: Until,
    scouted: Scouted,
    limits: TimeLimits,
    progress: &(dyn Fn(HuntProgress) + Sync),
) -> Catch {
    let lab = &hunt.lab;
    let spending = Spending::of(limits.shrinking);
    let shrunk = || progress(HuntProgress::Shrunk);
    let mut findings = distinct(hunt, &scouted.groups, &spending, &shrunk);
    let name = name(&hunt.base);
    for Distinct { finding, .. } in &mut findings {
        finding.scenario = format!("{name}-{}", finding.plan_hash);
    }
    if !findings.is_empty() {
        let first = findings.remove(0);
        let finding = examine::explained(lab, limits.explaining, &[], first.finding);
        findings.insert(0, Distinct { finding, ..first });
    }
    let findings = told_once(lab, findings, &Spending::of(limits.explaining));
    let first = findings.first();
    let scenario = first.and_then(|first| as_scenario(lab, &first.finding));
    let (seeds, within) = (hunt.seeds.clone(), hunt.alphabet.within);
    let left_out = if findings.is_empty() { left_out(hunt) } else { Vec::new() };
    let assumed = if findings.is_empty() { assumed(hunt) } else { Vec::new() };
    let is_stopped = false;
    Catch { seeds, until, within, scouted, findings, left_out, assumed, scenario, name, is_stopped }
}
