//! Who was counted twice when a latch let a caller go on too early.

use lockstorm_platform::trace::Leg;

use crate::check::verdict::Violation;
use crate::explain::evidence::Evidence;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Op, PROBE};
use crate::quantity::moment;
use crate::reading::moment::Moment;

/// The mechanism if a party was counted twice: a request had taken effect, and so did one that it
/// sent later, because it had no reply or because its process had died meanwhile.
pub fn counted_twice(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let before = Moment::from(violation.from);
    let all: Vec<(&Op, Moment)> = counted(witness).filter(|(_, at)| *at < before).collect();
    let (first, second, why) = all.iter().enumerate().find_map(|(index, (first, _))| {
        let is_again = |(op, _): &&(&Op, Moment)| op.process == first.process;
        let (second, _) = all[index + 1..].iter().find(is_again)?;
        Some((*first, *second, why_again(witness, first, second)?))
    })?;
    let text = format!(
        "{}'s count-down at {} took effect, {why} at {}: it was counted twice.",
        first.process,
        moment(first.call.at),
        moment(second.call.at)
    );
    let evidence = vec![Evidence::Op(first.id), Evidence::Op(second.id)];
    Some(Mechanism::new(How::CountedTwice, text, evidence))
}

/// Why a party counted down again although it had done so.
fn why_again(witness: &Witness<'_>, first: &Op, second: &Op) -> Option<&'static str> {
    let died = witness.reading.death_after(&first.process, first.call.into());
    if died.is_some_and(|death| death.at < second.call.into()) {
        return Some("and after its process had died it counted down again");
    }
    first.has_no_answer().then_some("but got no answer, and so it counted down again")
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
