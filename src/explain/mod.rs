//! The witness turned into a causal story.
//!
//! A finding goes in; a sentence for the verdict, one for the assumption that broke, and a story
//! come out. Every sentence is rendered from events of the history, and names them. Explain
//! runs nothing: what had to be run again is in the finding.

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

/// What a run means, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The verdict in one sentence.
    pub verdict: String,
    /// The assumptions that broke, a sentence each, or that none did.
    pub assumptions: Vec<String>,
    /// How it became possible; `None` where nothing is violated.
    pub mechanism: Option<Mechanism>,
    /// What made the difference, a sentence each; empty where nothing was run again.
    pub causes: Vec<String>,
    /// What the lock counts on, a sentence each.
    pub ledger: Vec<String>,
    /// Why no order of the operations is legal, where that is a violation.
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
