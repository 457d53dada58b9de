//! The breaches of the contract: what the lock did that no lock may do.

use crate::explain::evidence::Evidence;
use crate::explain::naming::breaker;
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;

/// The first breaches of the contract, one of each kind.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut clauses = Vec::new();
    let mut beats = Vec::new();
    for breach in &witness.history().breaches {
        if clauses.contains(&breach.clause) {
            continue;
        }
        clauses.push(breach.clause);
        let text = format!("The lock of {}: {}.", breaker(witness, breach), breach.text());
        let evidence = breach.op.into_iter().map(Evidence::Op).collect();
        beats.push(Beat::new(Weight::Crux, breach.at, text, evidence));
    }
    beats
}
