//! A key that its own acquire deleted as it set it, as one whose expiry had passed by then.

use lockstorm_platform::trace::KeyChange;

use crate::explain::evidence::Evidence;
use crate::explain::hold::StoryHold;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Key, Op};
use crate::quantity::moment;

/// The mechanism if the key of a tenure was gone from the start.
pub fn mechanism(witness: &Witness<'_>, hold: &StoryHold<'_>) -> Option<Mechanism> {
    let [set, end] = deleted(witness, hold.grant)?;
    let text = format!(
        "{}'s acquire at {} set its key on {} and deleted it in the same step.",
        hold.grant.caller,
        moment(hold.grant.call.at),
        witness.history().keys[end].node
    );
    let keys = [set, end].map(Evidence::Key).into_iter();
    let evidence = [Evidence::Op(hold.grant.id)].into_iter().chain(keys).collect();
    Some(Mechanism::new(How::DeletedByOwner, text, evidence))
}

/// The change by which an acquire set a key, and the one by which it deleted that key at once. A
/// node reports no member of such a key.
pub fn deleted(witness: &Witness<'_>, acquire: &Op) -> Option<[usize; 2]> {
    let keys = &witness.history().keys;
    let is_own = |key: &Key| {
        key.by == Some(acquire.id) && key.of.is_none() && key.key == witness.reading.lock_key
    };
    let end = keys.iter().rposition(is_own)?;
    let last = &keys[end];
    let is_at_once = |key: &Key| is_own(key) && key.node == last.node && key.at.at == last.at.at;
    let set = keys[..end].iter().position(|key| is_at_once(key) && key.change.leaves_key())?;
    let mut lives = witness.lives.iter().filter(|life| life.owner == Some(acquire.id));
    let is_there = lives.any(|life| life.node == last.node && life.from.at < life.until.at);
    (last.change == KeyChange::Deleted && !is_there).then_some([set, end])
}
