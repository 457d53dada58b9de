//! The fault behind a clock that went wrong.

use crate::explain::story::Evidence;
use crate::explain::witness::Witness;
use crate::history::Condition;
use crate::reading::moment::Moment;

/// What disturbed the clocks of a host between two moments.
pub fn disturbed(
    witness: &Witness<'_>,
    host: &str,
    (from, to): (Moment, Moment),
) -> Option<Evidence> {
    let conditions = witness.history().conditions.iter().enumerate();
    let is_between = |condition: &Condition| {
        Moment::from(condition.from) < to
            && condition.to.is_none_or(|over| Moment::from(over) >= from)
    };
    let mut own = conditions.filter(|(_, c)| c.strikes(host) && c.verb.disturbs_clocks());
    own.find(|(_, condition)| is_between(condition)).map(|(index, _)| Evidence::Condition(index))
}
