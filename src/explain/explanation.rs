//! The explanation of a run in words: all parts of it, as one value.

use serde::Serialize;

use crate::explain::finding::Finding;
use crate::explain::headline::headline;
use crate::explain::mechanism::by_kind;
use crate::explain::mechanism::how::Mechanism;
use crate::explain::story::Story;
use crate::explain::witness::Witness;
use crate::explain::{argument, assumption, cause, selection};

/// The explanation of a run in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The verdict in one sentence.
    pub verdict: String,
    /// The breached assumptions, one sentence each, or one sentence that none was breached.
    pub assumptions: Vec<String>,
    /// The mechanism; `None` if nothing is violated.
    pub mechanism: Option<Mechanism>,
    /// What made the difference, one sentence each; empty without reruns.
    pub causes: Vec<String>,
    /// The assumptions of the lock, one sentence each.
    pub ledger: Vec<String>,
    /// Why no order of the operations is legal, if that is a violation.
    pub arguments: Vec<String>,
    /// The events.
    pub story: Story,
}

/// Explains a finding.
pub fn explain(finding: &Finding) -> Explanation {
    let witness = Witness::of(finding);
    let mut mechanism = by_kind::mechanism(&witness);
    if let Some(found) = &mut mechanism {
        found.sentence.extend(cause::without_idle(finding));
    }
    let mut assumptions = assumption::assumptions(&witness);
    assumptions.extend(mechanism.as_ref().and_then(|m| assumption::other_way(&witness, m.how)));
    let proof = mechanism.as_ref().map_or(&[][..], |found| &found.evidence);
    let story = selection::select(&witness, proof);
    Explanation {
        verdict: headline(&witness),
        assumptions,
        mechanism,
        causes: cause::sentences(finding),
        ledger: assumption::ledger(finding),
        arguments: argument::arguments(&witness),
        story,
    }
}
