//! Who was counted twice when a latch let a caller go on too early.

use lockstorm_platform::trace::Leg;

use crate::check::verdict::Violation;
use crate::explain::evidence::Evidence;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Op, PROBE};
use crate::quantity::moment;
use crate::reading::moment::Moment;

/// The mechanism if a party was counted twice: a request without a reply had taken effect, and so
/// did one that it sent later.
pub fn counted_twice(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let before = Moment::from(violation.from);
    let all: Vec<(&Op, Moment)> = counted(witness).filter(|(_, at)| *at < before).collect();
    let (first, second) = all.iter().enumerate().find_map(|(index, (first, _))| {
        let is_again = |(op, _): &&(&Op, Moment)| op.process == first.process;
        let again = all[index + 1..].iter().find(is_again)?;
        first.has_no_answer().then_some((*first, again.0))
    })?;
    let text = format!(
        "{}'s count-down at {} took effect and got no answer, and so it counted down again at {}: \
         it was counted twice.",
        first.process,
        moment(first.call.at),
        moment(second.call.at)
    );
    let evidence = vec![Evidence::Op(first.id), Evidence::Op(second.id)];
    Some(Mechanism::new(How::CountedTwice, text, evidence))
}

/// The acquires of which a request took effect, and when the first did.
fn counted<'a>(witness: &'a Witness<'_>) -> impl Iterator<Item = (&'a Op, Moment)> + 'a {
    witness.reading.acquires().filter(|op| op.process != PROBE).filter_map(|op| {
        let mut sent = witness.reading.requests_of(op.id).iter();
        let applied =
            sent.find_map(|request| request.at(Leg::Applied).filter(|_| !request.declined))?;
        Some((op, Moment::from(applied)))
    })
}
