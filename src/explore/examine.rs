//! Everything that a report needs about one plan: it is run, judged, classified, and compared
//! with what its scenario expects.

use crate::check::Judgement;
use crate::explain::finding::{Class, Expected, Finding};
use crate::explore::class::classify;
use crate::explore::trial::{Trial, attempt, calm};
use crate::plan::Plan;
use crate::run::Lab;
use crate::scenario::Scenario;
use crate::scenario::expectation::{self, Met};

/// Runs the plan that a scenario makes of a seed.
pub fn scenario(lab: &Lab, scenario: &Scenario, seed: u64) -> Finding {
    with_calm(lab, judged(lab, scenario, seed))
}

/// The same without what the plan gives without its faults, which takes another run: for whoever
/// asks for the verdict alone.
pub fn judged(lab: &Lab, scenario: &Scenario, seed: u64) -> Finding {
    let mut finding = classified(lab, &scenario.plan(seed));
    let met = met(scenario, &finding);
    finding.ask.clone_from(&scenario.ask);
    finding.note = scenario.note.clone().unwrap_or_default();
    finding.expected = Some(Expected {
        met: met == Met::Yes,
        text: scenario.expect.held_against(&finding.judgement),
    });
    finding
}

/// Runs a plan of which nothing is expected.
pub fn plan(lab: &Lab, plan: &Plan) -> Finding {
    with_calm(lab, classified(lab, plan))
}

fn classified(lab: &Lab, plan: &Plan) -> Finding {
    let trial = attempt(lab, plan);
    let class = trial.is_violated().then(|| classify(lab, plan, &trial));
    without_calm(lab, plan, trial, class)
}

/// The finding of a trial that has been made.
pub fn finding(lab: &Lab, plan: &Plan, trial: Trial, class: Option<Class>) -> Finding {
    with_calm(lab, without_calm(lab, plan, trial, class))
}

/// With how many grants its plan gives without faults, in all and a minute.
fn with_calm(lab: &Lab, mut finding: Finding) -> Finding {
    let Judgement { counts, availability, .. } = &mut finding.judgement;
    let (grants, per_minute) = match finding.plan.faults[..] {
        [] => (counts.grants, availability.grants_per_minute),
        _ => {
            let calm = calm(lab, &finding.plan);
            (calm.counts.grants, calm.availability.grants_per_minute)
        }
    };
    counts.grants_without_faults = Some(grants);
    availability.grants_per_minute_without_faults = Some(per_minute);
    finding
}

fn without_calm(lab: &Lab, plan: &Plan, trial: Trial, class: Option<Class>) -> Finding {
    let signature = class.as_ref().map(|class| trial.signature(class));
    Finding {
        scenario: plan.name.clone(),
        ask: String::new(),
        note: String::new(),
        seed: plan.seed,
        plan: plan.clone(),
        plan_hash: plan.digest(),
        trace_hash: trial.run.trace.to_string(),
        records: trial.run.trace.records,
        engine: lab.engine.word().to_owned(),
        history: trial.run.history,
        judgement: trial.judgement,
        promise: lab.promise(plan),
        class,
        signature,
        expected: None,
    }
}

/// Whether a finding is what its scenario expects.
pub fn met(scenario: &Scenario, finding: &Finding) -> Met {
    scenario.expect.met_by(&finding.judgement, word(finding))
}

/// The class of a finding without its evidence.
pub fn word(finding: &Finding) -> Option<expectation::Class> {
    finding.class.as_ref().map(|class| match class.is_in_model() {
        true => expectation::Class::InModel,
        false => expectation::Class::OutOfModel,
    })
}
