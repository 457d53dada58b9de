//! Callers that waited for each other before the violation: who waited for whose key.

use crate::explain::evidence::Evidence;
use crate::explain::mechanism::deadlock::{around, broken_up};
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::reading::deadlock::Waiting;

/// Each wait of the circle on which the headline violation rests.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let Some(violation) = witness.primary else { return Vec::new() };
    let ended = broken_up(witness, violation).map(|ended| ended.circle);
    let Some(circle) = ended.or_else(|| around(witness, violation)) else { return Vec::new() };
    let closed = circle.iter().map(|own| own.set).max();
    let Some(closed) = closed.map(|set| witness.history().keys[set].at) else { return Vec::new() };
    let waits = |(place, own): (usize, &Waiting)| {
        let after = circle[(place + 1) % circle.len()];
        let (who, whose) = (&own.op.caller, &after.op.caller);
        let text = format!("{who} waits for {}, which {whose} has.", after.wanted);
        let evidence = [own.op.id, after.op.id].map(Evidence::Op).into_iter();
        let evidence = evidence.chain([Evidence::Key(after.set)]).collect();
        Beat::new(Weight::Crux, closed, text, evidence)
    };
    circle.iter().enumerate().map(waits).collect()
}
