//! Who has counted down at a latch, as its node has seen it. It decides nothing: a latch that opens
//! earlier is a corruption, and one that stays closed until then is not stuck.

use std::collections::BTreeSet;

use lockstorm_platform::trace::Leg;

use crate::check::case::Case;
use crate::history::Op;
use crate::reading::moment::Moment;

/// How many processes had counted down before a moment, whether they knew it or not.
pub fn counted_down(case: &Case, moment: Moment) -> usize {
    processes(case, |op| match case.history.requests.is_empty() {
        true => Moment::from(op.call) < moment,
        false => has_reached(case, op, Leg::Applied, moment),
    })
}

/// How many processes knew before a moment that they had counted down: a node may forget what it
/// has not replied to.
pub fn known_to_have(case: &Case, moment: Moment) -> usize {
    processes(case, |op| match case.history.requests.is_empty() {
        true => !op.has_no_answer() && op.ret.is_some_and(|ret| Moment::from(ret) <= moment),
        false => has_reached(case, op, Leg::Delivered, moment),
    })
}

fn processes(case: &Case, counts: impl Fn(&Op) -> bool) -> usize {
    let counted = case.acquires().filter(|op| counts(op));
    counted.map(|op| op.process.as_str()).collect::<BTreeSet<_>>().len()
}

/// Whether a request of an acquire had reached a leg before a moment.
fn has_reached(case: &Case, acquire: &Op, leg: Leg, moment: Moment) -> bool {
    case.requests_of(acquire.id).iter().any(|request| {
        let reached = request.at(leg).map(Moment::from);
        !request.declined && reached.is_some_and(|reached| reached < moment)
    })
}
