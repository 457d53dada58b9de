//! One run of a plan, judged, and classified by running it again without what it was not made for.

use crate::check::judge::judge;
use crate::check::signature::Signature;
use crate::check::{Judgement, Verdict};
use crate::explain::finding::{BrokenAssumption, Class};
use crate::explore::ledger;
use crate::plan::Plan;
use crate::run::{Lab, Run};

/// A run and what the checks say about it.
pub struct Trial {
    /// What happened.
    pub run: Run,
    /// What it means.
    pub judgement: Judgement,
}

/// Runs a plan and judges its history.
pub fn attempt(lab: &Lab, plan: &Plan) -> Trial {
    let run = lab.run(plan);
    let judgement = judge(&run.history, &lab.terms(plan));
    Trial { run, judgement }
}

impl Trial {
    /// Whether something was violated.
    pub fn is_violated(&self) -> bool {
        matches!(self.judgement.verdict, Verdict::Violated(_))
    }

    /// What makes this violation the same as another: kinds, class, broken assumptions and the
    /// last step of each holder of the first violation.
    pub fn signature(&self, class: &Class) -> Signature {
        let (word, broken) = match class {
            Class::InModel => ("in-model", Vec::new()),
            Class::OutOfModel(broken) => ("out-of-model", broken.iter().map(name).collect()),
        };
        Signature {
            class: Some(word.to_owned()),
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
            let before = |step: &&crate::run::Step| step.host == *process && step.at <= first.from;
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

/// Whose fault the violation of `trial` is.
///
/// In-model if the same kinds are violated when the plan is run again without every fault that
/// breaks a declared assumption; else out-of-model, each broken assumption with the word whether
/// its faults alone make the difference.
pub fn classify(lab: &Lab, plan: &Plan, trial: &Trial) -> Class {
    // No fault excuses a lock that breaks its contract.
    if kinds(&trial.judgement).contains(&crate::check::Kind::BrokenContract) {
        return Class::InModel;
    }
    let mut broken = ledger::broken(plan, &lab.promise(plan));
    if broken.is_empty() {
        return Class::InModel;
    }
    let same = |reduced: &Plan| kinds(&attempt(lab, reduced).judgement) == kinds(&trial.judgement);
    let all: Vec<&BrokenAssumption> = broken.iter().collect();
    if same(&ledger::without(plan, &all)) {
        return Class::InModel;
    }
    for assumption in &mut broken {
        assumption.alone = !same(&ledger::without(plan, &[assumption]));
    }
    Class::OutOfModel(broken)
}

fn kinds(judgement: &Judgement) -> Vec<crate::check::Kind> {
    Signature::of(&judgement.verdict).kinds
}

/// The histories of two runs of the same plan are compared by their traces. `None` if they are
/// the same; else the first record that differs, of both runs.
pub fn divergence(lab: &Lab, plan: &Plan) -> Option<(String, String)> {
    let (one, other) = (lab.run(plan), lab.run(plan));
    if one.trace == other.trace {
        return None;
    }
    let (one, other) = (lab.run_whole(plan), lab.run_whole(plan));
    let pairs = one.lines.iter().zip(&other.lines);
    let mut differing = pairs.filter(|(a, b)| a != b);
    let missing = || (format!("{} records", one.lines.len()), format!("{}", other.lines.len()));
    Some(differing.next().map(|(a, b)| (a.clone(), b.clone())).unwrap_or_else(missing))
}
