//! Selects the search for a mechanism by the kind of the violation.

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::cited;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::mechanism::{alone, counted, deadlock, fence, gathering, left, overlap, queue};
use crate::explain::witness::Witness;

/// How the headline violation became possible; `None` if nothing is violated.
pub fn mechanism(witness: &Witness<'_>) -> Option<Mechanism> {
    let violation = witness.primary?;
    let found = match violation.kind {
        Kind::DoubleGrant | Kind::StaleHolder => {
            let waited = deadlock::ended(witness, violation);
            waited.or_else(|| overlap::mechanism(witness, violation))
        }
        Kind::BrokenContract => alone::contract(witness),
        Kind::Corruption => alone::corruption(witness, violation)
            .or_else(|| gathering::counted_twice(witness, violation)),
        Kind::ForeignRelease | Kind::ForeignExtend => alone::foreign(witness, violation),
        Kind::Leak | Kind::Stuck => {
            let waits = deadlock::mechanism(witness, violation);
            let left = waits.or_else(|| queue::left(witness, violation));
            let left = left.or_else(|| queue::without_place(witness, violation));
            let left = left.or_else(|| counted::mechanism(witness, violation));
            left.or_else(|| left::left(witness, violation))
        }
        Kind::Overtaken => queue::overtaken(witness, violation),
        Kind::RenewalAfterRelease => alone::renewal(witness, violation),
        Kind::NeverSettles => {
            let waits = deadlock::mechanism(witness, violation);
            let waits = waits.or_else(|| queue::without_place(witness, violation));
            waits.or_else(|| alone::unanswered(witness, violation))
        }
        Kind::LateLoss => alone::late(witness, violation),
        Kind::LostEarly => alone::lost(witness, violation),
        Kind::FenceRegress => fence::fence(witness, violation),
        Kind::NotLinearizable => {
            let waited = deadlock::ended(witness, violation);
            waited.or_else(|| alone::order(witness, violation))
        }
        Kind::OwnCheck => own(violation),
    };
    Some(found.unwrap_or_else(Mechanism::unclear))
}

/// The finding of a check of one's own proves itself; how it became possible is known to nobody but
/// its author.
fn own(violation: &Violation) -> Option<Mechanism> {
    let check = &violation.own.as_ref()?.check;
    let text = format!("The check '{check}' shows what is wrong, not how it became possible.");
    Some(Mechanism::new(How::OwnCheck, text, cited(violation)))
}
