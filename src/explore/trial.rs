//! One run of a plan, judged, and checked against the assumptions of its lock.

use crate::check::case::Case;
use crate::check::judge::Judgement;
use crate::check::signature::Signature;
use crate::check::terms::Terms;
use crate::check::verdict::Verdict;
use crate::check::{counts, judge};
use crate::explain::finding::{BrokenAssumption, Class};
use crate::history::ContractBreach;
use crate::ledger::breach::Breach;
use crate::ledger::seen;
use crate::plan::Plan;
use crate::promise::contract::Clause;
use crate::run::{Lab, Run};

/// A run and its judgement.
#[derive(Clone)]
pub struct Trial {
    /// What happened.
    pub run: Run,
    /// The judgement.
    pub judgement: Judgement,
    /// The breached assumptions of the lock.
    pub breaches: Vec<Breach>,
}

/// Runs a plan and judges its history. If no acquire was granted, the judgement also takes the
/// grants of the same plan without its faults.
pub fn attempt(lab: &Lab, plan: &Plan) -> Trial {
    let mut terms = lab.terms(plan);
    let trial = judged(lab, lab.run(plan), &terms);
    // The run without faults matters only if there was not a single grant.
    if !is_idle(&trial.judgement, &trial.run, &terms) {
        return trial;
    }
    terms.grants_without_faults = Some(grants_without_faults(lab, plan));
    judged(lab, trial.run, &terms)
}

/// The judgement of a plan, for callers that do not need its breaches.
pub fn judgement(lab: &Lab, plan: &Plan) -> Judgement {
    let mut terms = lab.terms(plan);
    let run = lab.run(plan);
    let judgement = judged_only(lab, &run, &terms);
    if !is_idle(&judgement, &run, &terms) {
        return judgement;
    }
    terms.grants_without_faults = Some(grants_without_faults(lab, plan));
    judged_only(lab, &run, &terms)
}

/// The grants of the same plan without its faults; 0 if that plan is idle.
fn grants_without_faults(lab: &Lab, plan: &Plan) -> u32 {
    if plan.faults.is_empty() { 0 } else { calm(lab, plan).counts.grants }
}

/// Whether a run held without a single grant.
fn is_idle(judgement: &Judgement, run: &Run, terms: &Terms) -> bool {
    judgement.verdict == Verdict::Holds && counts::granted_before_heal(&run.history, terms) == 0
}

fn judged(lab: &Lab, run: Run, terms: &Terms) -> Trial {
    let case = Case::new(&run.history, terms);
    let (judgement, mut breaches) =
        (judge::judge_case(&case, &lab.checks), seen::seen(&case, &terms.site));
    for terms in terms.each_key() {
        breaches.extend(seen::seen(&Case::new(&run.history, &terms), &terms.site));
        breaches = seen::worst(breaches);
    }
    Trial { run, judgement, breaches }
}

fn judged_only(lab: &Lab, run: &Run, terms: &Terms) -> Judgement {
    judge::judge_case(&Case::new(&run.history, terms), &lab.checks)
}

/// The judgement of the same plan without its faults.
pub fn calm(lab: &Lab, plan: &Plan) -> Judgement {
    let calm = Plan { faults: Vec::new(), ..plan.clone() };
    let lab = lab.quick(plan);
    judged_only(&lab, &lab.run(&calm), &lab.terms(&calm))
}

impl Trial {
    /// Whether something was violated.
    pub fn is_violated(&self) -> bool {
        matches!(self.judgement.verdict, Verdict::Violated(_))
    }

    /// The signature of this violation, except for its mechanism: kinds, class, breached
    /// assumptions and the last step of each holder of the first violation.
    pub fn signature(&self, class: &Class) -> Signature {
        let word = if class.is_in_model() { "in-model" } else { "out-of-model" };
        let mut broken: Vec<String> = class.broken.iter().map(name).collect();
        broken.sort();
        broken.dedup();
        Signature {
            class: Some(word.to_owned()),
            in_model: class.in_model.clone(),
            broken,
            steps: self.last_steps(),
            ..Signature::of(&self.judgement.verdict)
        }
    }

    fn last_steps(&self) -> Vec<String> {
        let Verdict::Violated(violations) = &self.judgement.verdict else { return Vec::new() };
        let Some(first) = violations.first() else { return Vec::new() };
        let holders = first.ops.iter().map(|op| &self.run.history.ops[*op as usize].process);
        let last = |process: &String| {
            let before =
                |step: &&crate::run::evidence::Step| step.host == *process && step.at <= first.from;
            self.run.steps.iter().rev().find(before).map(|step| step.label.to_owned())
        };
        let mut steps: Vec<String> = holders.filter_map(last).collect();
        steps.sort();
        steps.dedup();
        steps
    }
}

fn name(broken: &BrokenAssumption) -> String {
    let word = serde_json::to_value(broken.what).expect("a name is JSON");
    word.as_str().expect("a name is a string").to_owned()
}

/// The trial, and whether its run is the same when its plan is run again. If not, the lock breaks
/// its contract, and the trial is judged by that: whatever else it shows may never occur again.
pub fn repeated(lab: &Lab, plan: &Plan, mut trial: Trial) -> (Trial, bool) {
    if lab.trace(plan) == trial.run.trace && trial.is_violated() {
        return (trial, true);
    }
    let end = trial.run.history.end;
    trial.run.history.breaches.push(ContractBreach {
        at: end,
        process: plan.lock.algorithm.clone(),
        op: None,
        clause: Clause::Repeatable,
        details: "a second run of the plan had another result".to_owned(),
    });
    let terms = lab.terms(plan);
    (judged(lab, trial.run, &terms), false)
}

/// Runs a plan again, of which a run had a trace with the hash `known`. If it has another one now,
/// the first record in which the traces of two runs differ, from each run.
pub fn divergence(lab: &Lab, plan: &Plan, known: &str) -> Option<(String, String)> {
    if lab.trace(plan).to_string() == known {
        return None;
    }
    let (one, other) = (lab.run_whole(plan), lab.run_whole(plan));
    let pairs = one.lines.iter().zip(&other.lines);
    let mut differing = pairs.filter(|(a, b)| a != b);
    let missing = || (format!("{} records", one.lines.len()), format!("{}", other.lines.len()));
    Some(differing.next().map(|(a, b)| (a.clone(), b.clone())).unwrap_or_else(missing))
}
