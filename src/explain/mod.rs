//! The evidence of a violation turned into a causal story.
//!
//! The input is a finding; the output is a sentence for the verdict, one for the breached
//! assumption, and a story. Every sentence is rendered from events of the history, and names them.
//! Explain runs nothing: the finding contains the reruns.

use serde::Serialize;

use crate::explain::finding::Finding;
use crate::explain::mechanism::Mechanism;
use crate::explain::story::Story;
use crate::explain::witness::Witness;

pub mod argument;
pub mod cause;
pub mod chapter;
pub mod experiment;
pub mod finding;
pub mod hold;
pub mod incarnation;
pub mod mechanism;
pub mod quantity;
pub mod sentence;
pub mod story;
pub mod witness;

#[cfg(test)]
pub mod fixture;
#[cfg(test)]
mod tests;

/// The meaning of a run, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The verdict in one sentence.
    pub verdict: String,
    /// The breached assumptions, one sentence each, or that there are none.
    pub assumptions: Vec<String>,
    /// How it became possible; `None` if nothing is violated.
    pub mechanism: Option<Mechanism>,
    /// What made the difference, one sentence each; empty without reruns.
    pub causes: Vec<String>,
    /// The lock's assumptions, one sentence each.
    pub ledger: Vec<String>,
    /// Why no order of the operations is legal, if that is a violation.
    pub arguments: Vec<String>,
    /// What happened.
    pub story: Story,
}

/// Explains a finding.
pub fn explain(finding: &Finding) -> Explanation {
    let witness = Witness::of(finding);
    let mechanism = mechanism::mechanism(&witness);
    let mut assumptions = sentence::assumptions(finding);
    assumptions.extend(mechanism.as_ref().and_then(|m| sentence::other_way(finding, m.how)));
    Explanation {
        verdict: sentence::verdict(&witness),
        assumptions,
        mechanism,
        causes: cause::sentences(finding),
        ledger: sentence::ledger(finding),
        arguments: argument::arguments(&witness),
        story: story::tell(&witness),
    }
}
