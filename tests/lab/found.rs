//! What a test asks of a finding.

use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::Kind;
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explain::mechanism::how::How;

/// What is violated, each kind once.
pub fn kinds(finding: &Finding) -> Vec<Kind> {
    Signature::of(&finding.judgement.verdict).kinds
}

/// Whether the lock violates within its assumptions.
pub fn is_in_model(finding: &Finding) -> bool {
    finding.class.as_ref().is_some_and(|class| class.is_in_model())
}

/// How it became possible, with its sentence.
#[track_caller]
pub fn how(finding: &Finding) -> (How, String) {
    let found = explain(finding).mechanism.expect("it is violated");
    (found.how, found.sentence)
}
