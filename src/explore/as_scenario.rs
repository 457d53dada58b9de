//! A found plan as the scenario that a person would write.

use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explore::examine::{judged, met, word};
use crate::plan::Plan;
use crate::run::Lab;
use crate::scenario::Scenario;
use crate::scenario::expectation::Fulfilled;
use crate::scenario::written::{self, Question, WrittenViolation};

/// The scenario file that describes the found plan as a person would write it. `None` if no
/// scenario describes it, or if the scenario's run has another result.
pub fn as_scenario(lab: &Lab, finding: &Finding) -> Option<String> {
    let lock = &finding.plan.lock.algorithm;
    let kinds = finding.signature.as_ref().map_or(&[][..], |signature| &signature.kinds);
    let class = word(finding)?.word();
    let ask = format!("Does {lock} hold if this happens?");
    let note = explain(finding).verdict;
    let kinds = kinds.iter().map(|kind| kind.word()).collect();
    let violated = Some(WrittenViolation { kinds, class });
    let question = Question { ask: &ask, note: &note, violated };
    let named = Plan { name: finding.scenario.clone(), ..finding.plan.clone() };
    let text = written::text(&lab.locks, &named, &question)?;
    let scenario = Scenario::parse_with(&lab.locks, "scenario", &text).ok()?;
    let again = judged(lab, &scenario, finding.seed);
    (met(&scenario, &again) == Fulfilled::Yes).then_some(text)
}
