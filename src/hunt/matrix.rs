//! The truth table: every lock against every family of faults, each cell from the same seeds.
//!
//! A cell's plans are those that its seeds draw from one family of faults for the lock's base plan:
//! same seed, same draws, so that two locks of one topology meet the same faults. Only the faults
//! vary. The topology is the one that the lock is made for; for failovers it is one with replicas.
//! The row of one lock as a plan has it is part of its review.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use serde::Serialize;

use crate::check::signature::Signature;
use crate::check::verdict::{Kind, Verdict};
use crate::explain::mechanism::how::How;
use crate::explore::budget::Spending;
use crate::explore::class::classify_in;
use crate::explore::examine;
use crate::explore::rerun::Reruns;
use crate::explore::trial::{Trial, attempt};
use crate::hunt::group::leading;
use crate::hunt::parameter::Parameter;
use crate::hunt::quarry::Quarry;
use crate::hunt::seeded::{Hunt, draw};
use crate::hunt::strategy::{Strategies, Strategy};
use crate::ledger::part::strikes;
use crate::lock::algorithm::Algorithm;
use crate::lock::catalogue::ALGORITHMS;
use crate::lock::library::{LIBRARIES, Library};
use crate::lock::{catalogue, library};
use crate::plan::base_plan::{base_plan_of, base_plan_of_library, home};
use crate::plan::{Plan, TopologyKind};
use crate::refusal::Refusal;
use crate::run::Lab;

/// A family of faults: a column.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Its faults; none for runs without any.
    pub verbs: &'static [&'static str],
}

/// Every family, the quiet one first.
pub const FAMILIES: [Family; 14] = [
    Family { name: "none", verbs: &[] },
    Family { name: "delay", verbs: &["delay", "jitter"] },
    Family { name: "loss", verbs: &["loss"] },
    Family { name: "partition", verbs: &["partition"] },
    Family { name: "cut-reply", verbs: &["cut-reply", "reset"] },
    Family { name: "pause", verbs: &["pause"] },
    Family { name: "suspend", verbs: &["suspend"] },
    Family { name: "kill", verbs: &["crash"] },
    Family { name: "power-loss", verbs: &["power-loss"] },
    Family { name: "restart", verbs: &["restart"] },
    Family { name: "clock-step", verbs: &["clock-step"] },
    Family { name: "drift", verbs: &["clock-rate"] },
    Family { name: "failover", verbs: &["failover"] },
    Family { name: "evict", verbs: &["evict", "flush"] },
];

/// What the plans of a lock and a family showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cell {
    /// The plans that tested something.
    pub runs: u64,
    /// The plans in which nothing was tested; not among `runs`.
    pub untested: u64,
    /// The plans that were violated within the lock's assumptions.
    pub in_model: u64,
    /// The plans that were violated only because an assumption broke.
    pub out_of_model: u64,
    /// The violations, in-model first, then the worst: how often, what, and how it became possible.
    pub found: Vec<CellViolation>,
    /// The smallest margin of the plans that held, ns.
    pub margin: Option<i64>,
    /// Grants a minute over all plans, rounded.
    pub grants_per_minute: u64,
    /// Why there is no such plan, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible: Option<String>,
}

/// One kind of violation in a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CellViolation {
    /// Whether it is in-model.
    pub in_model: bool,
    /// The kinds, without those that follow from others.
    pub kinds: Vec<Kind>,
    /// How it became possible.
    pub mechanism: How,
    /// The number of plans.
    pub plans: u64,
}

/// A row of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatrixRow {
    /// The lock.
    pub lock: String,
    /// A cell for each family.
    pub cells: Vec<Cell>,
}

/// What a row is about: a lock of the catalogue, or a client library that has it.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// The lock.
    pub lock: &'static Algorithm,
    /// The library whose options it has.
    pub library: Option<&'static Library>,
}

impl Contender {
    /// The lock or the library of this name.
    pub fn find(name: &str) -> Option<Contender> {
        let library = || {
            let library = library::find(name)?;
            Some(Contender { lock: catalogue::find(library.lock)?, library: Some(library) })
        };
        let lock = catalogue::find(name).map(|lock| Contender { lock, library: None });
        lock.or_else(library)
    }

    /// Every lock of the catalogue, then every library.
    pub fn all() -> Vec<Contender> {
        let locks = ALGORITHMS.iter().map(|lock| Contender { lock, library: None });
        let libraries = LIBRARIES.iter().map(|library| Contender {
            lock: catalogue::find(library.lock).expect("a lock of the catalogue"),
            library: Some(library),
        });
        locks.chain(libraries).collect()
    }

    /// The name of the lock, or that of the library with its version.
    pub fn name(&self) -> String {
        self.library.map_or_else(|| self.lock.name.to_owned(), Library::title)
    }

    /// The plan without faults on a topology.
    pub fn base_plan(&self, topology: TopologyKind) -> Plan {
        match self.library {
            Some(library) => base_plan_of_library(library, topology),
            None => base_plan_of(self.lock, topology),
        }
    }
}

/// The base plan of a cell: the lock where it belongs. A family of failovers needs replicas.
fn base(contender: &Contender, family: &Family) -> Plan {
    let lock = contender.lock;
    let needs_replicas = family.name == "failover" || lock.waits_for_replicas;
    let kind = match home(lock) {
        TopologyKind::Single if needs_replicas => TopologyKind::Replicated,
        kind => kind,
    };
    let mut plan = contender.base_plan(kind);
    if kind == TopologyKind::Independent && needs_replicas {
        plan.topology.replicas_each = 1;
        plan.topology.nodes *= 2;
    }
    plan
}

/// The hunt of a cell.
///
/// # Errors
/// If the lock cannot be struck by the family.
fn hunt(lab: &Lab, base: Plan, family: &Family) -> Result<Hunt, Refusal> {
    let mut quarry = Quarry::like(base);
    quarry.fix(Parameter::all());
    quarry.faults = family.verbs.iter().map(|word| (*word).to_owned()).collect();
    quarry.strategies = Strategies::Only(Strategy::Random);
    quarry.hunt(lab.clone())
}

/// What the plan of one seed showed.
enum PlanResult {
    Untested,
    Held { margin: Option<i64>, grants: u64 },
    Violated { found: (bool, Vec<Kind>, How), grants: u64 },
}

/// The plan of a seed: without faults it is the base plan with that seed.
fn plan(hunt: &Hunt, family: &Family, seed: u64) -> Plan {
    match family.verbs {
        [] => Plan { seed, ..hunt.base.clone() },
        _ => draw(hunt, seed, Strategy::Random),
    }
}

fn shown(lab: &Lab, plan: &Plan) -> PlanResult {
    let trial = attempt(lab, plan);
    let grants = u64::from(trial.judgement.availability.grants_per_minute);
    match trial.judgement.verdict {
        Verdict::Unknown(_) => PlanResult::Untested,
        Verdict::Holds => PlanResult::Held { margin: trial.judgement.nearest_miss, grants },
        Verdict::Violated(_) => PlanResult::Violated { found: violation(lab, plan, trial), grants },
    }
}

/// Whether a violated plan is in-model, what it violates, and how. What is in-model is told by the
/// run that keeps every assumption: in the plan's own run something else may stand in front.
fn violation(lab: &Lab, plan: &Plan, trial: Trial) -> (bool, Vec<Kind>, How) {
    let own = leading(&Signature::of(&trial.judgement.verdict).kinds);
    if trial.breaches.is_empty() {
        return (true, own, examine::how(lab, plan, trial));
    }
    let mut reruns = Reruns::new(lab);
    let class = classify_in(&mut reruns, plan, &trial);
    if !class.is_in_model() {
        return (false, own, examine::how(lab, plan, trial));
    }
    let out = class.without.iter().copied().collect();
    let inside = reruns.plan_without(plan, &out, &strikes(&trial.run.history));
    let shown = attempt(lab, &inside);
    let how = match shown.is_violated() {
        true => examine::how(lab, &inside, shown),
        false => examine::how(lab, plan, trial),
    };
    (true, leading(&class.in_model), how)
}

/// What the plans of these seeds showed.
fn results(hunt: &Hunt, family: &Family, seeds: RangeInclusive<u64>) -> Vec<PlanResult> {
    let quick = hunt.lab.quick(&hunt.base);
    seeds.into_par_iter().map(|seed| shown(&quick, &plan(hunt, family, seed))).collect()
}

/// A cell of the matrix.
fn cell(lab: &Lab, contender: &Contender, family: &Family, seeds: RangeInclusive<u64>) -> Cell {
    match hunt(lab, base(contender, family), family) {
        Ok(hunt) => Cell::of(results(&hunt, family, seeds)),
        Err(refusal) => Cell::impossible(refusal),
    }
}

impl Cell {
    fn impossible(why: Refusal) -> Cell {
        Cell { impossible: Some(why.what), ..Cell::default() }
    }

    fn of(all: Vec<PlanResult>) -> Cell {
        let (mut cell, mut total) = (Cell::default(), 0);
        let mut found: BTreeMap<(bool, Vec<Kind>, How), u64> = BTreeMap::new();
        for shown in all {
            match shown {
                PlanResult::Untested => {
                    cell.untested += 1;
                    continue;
                }
                PlanResult::Held { margin, grants } => {
                    cell.margin = cell.margin.into_iter().chain(margin).min();
                    total += grants;
                }
                PlanResult::Violated { found: key, grants } => {
                    *(if key.0 { &mut cell.in_model } else { &mut cell.out_of_model }) += 1;
                    *found.entry(key).or_default() += 1;
                    total += grants;
                }
            }
            cell.runs += 1;
        }
        cell.grants_per_minute = total.checked_div(cell.runs).unwrap_or(0);
        let found = found.into_iter().map(|((in_model, kinds, mechanism), plans)| CellViolation {
            in_model,
            kinds,
            mechanism,
            plans,
        });
        cell.found = found.collect();
        cell.found.sort_by_key(CellViolation::rank);
        cell
    }

    /// The number of plans that held.
    pub fn held(&self) -> u64 {
        self.runs - self.in_model - self.out_of_model
    }
}

impl CellViolation {
    /// In-model first, then the worst kind, then the most frequent.
    fn rank(&self) -> (bool, Option<usize>, u64) {
        let worst = self.kinds.first().and_then(|kind| Kind::ALL.iter().position(|k| k == kind));
        (!self.in_model, worst, u64::MAX - self.plans)
    }
}

/// The number of seeds of each cell that a row runs before it looks at its time.
const AT_ONCE: u64 = 8;

/// The cells of one lock as a plan has it, a cell for each family, and the number of plans of each:
/// as many of the seeds as there is time for, the first of them in any case.
pub fn row(
    lab: &Lab,
    base: &Plan,
    seeds: RangeInclusive<u64>,
    spending: &Spending,
) -> (Vec<Cell>, u64) {
    let hunts = FAMILIES.map(|family| (family, hunt(lab, base.clone(), &family)));
    let mut all: Vec<Vec<PlanResult>> = hunts.iter().map(|_| Vec::new()).collect();
    let (mut next, last, mut plans) = (*seeds.start(), *seeds.end(), 0);
    while next <= last && (plans == 0 || !spending.is_used_up()) {
        let end = last.min(next.saturating_add(AT_ONCE - 1));
        let more = hunts.par_iter().map(|(family, hunt)| match hunt {
            Ok(hunt) => results(hunt, family, next..=end),
            Err(_) => Vec::new(),
        });
        let more: Vec<Vec<PlanResult>> = more.collect();
        all.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
        plans += end - next + 1;
        let Some(after) = end.checked_add(1) else { break };
        next = after;
    }
    let cell = |((_, hunt), all)| match hunt {
        Ok(_) => Cell::of(all),
        Err(refusal) => Cell::impossible(refusal),
    };
    (hunts.into_iter().zip(all).map(cell).collect(), plans)
}

/// The rows of these locks: a cell for each of these families, from the plans of these seeds. A row
/// that `is_stopped` cuts short is left out. `progress` is called after each cell. The plans of all
/// cells share the cores: those of a cell alone would leave cores idle at its end.
pub fn matrix(
    lab: &Lab,
    contenders: &[Contender],
    families: &[Family],
    seeds: &RangeInclusive<u64>,
    progress: &(dyn Fn() + Sync),
    is_stopped: fn() -> bool,
) -> Vec<MatrixRow> {
    let row = |contender: &Contender| {
        let cells = families.par_iter().map(|family| {
            let cell = (!is_stopped()).then(|| cell(lab, contender, family, seeds.clone()));
            progress();
            cell
        });
        Some(MatrixRow { lock: contender.name(), cells: cells.collect::<Option<_>>()? })
    };
    contenders.par_iter().filter_map(row).collect()
}
