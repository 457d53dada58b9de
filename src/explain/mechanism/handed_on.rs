//! A release that handed the lock on to a waiter while its caller still had it by another entry.

use lockstorm_platform::trace::KeyChange;

use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::ending::entered_twice;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::Op;
use crate::quantity::moment;

/// A key that a release set for another caller too early.
pub struct HandOver<'a> {
    /// The release.
    pub release: &'a Op,
    /// The acquire that it gave back.
    left: &'a Op,
    /// Another one of the same tenure, which its caller had not given back.
    needed: &'a Op,
    /// The acquire that the key let in.
    pub to: &'a Op,
}

/// Whether a key was set by the release of one entry of a tenure, and let in the next acquire of
/// another caller, while another entry was still held.
pub fn too_early<'a>(witness: &Witness<'a>, life: &StoryLife) -> Option<HandOver<'a>> {
    let (history, reading) = (witness.history(), &witness.reading);
    let release = witness.set_by_release(life)?;
    let (left, needed) = entered_twice(witness, release.grant()?, release)?;
    let touches = reading.lives.touches.iter();
    let mut touches = touches.filter(|touch| witness.lives[touch.met].born == life.born);
    // One that sets the key anew needed no hand over.
    let next = touches.find(|touch| touch.change != life.born)?;
    let change = &history.keys[next.change];
    let to = op(history, change.by?).filter(|to| reading.is_granted(to.id))?;
    let is_found = matches!(change.change, KeyChange::Changed | KeyChange::Extended);
    // With an equal value each would have taken the other's key for its own.
    let is_another = to.caller != release.caller && to.token() != needed.token();
    (is_found && is_another).then_some(HandOver { release, left, needed, to })
}

/// The mechanism if a key was handed on too early.
pub fn mechanism(witness: &Witness<'_>, life: &StoryLife) -> Option<Mechanism> {
    let HandOver { release, left, needed, to } = too_early(witness, life)?;
    let text = format!(
        "{}'s release at {} of its acquire at {} handed the lock on {} on to {}, though {} still \
         had it by its acquire at {}.",
        release.caller,
        moment(release.call.at),
        moment(left.call.at),
        life.node,
        to.caller,
        release.caller,
        moment(needed.call.at)
    );
    let ops = [needed, left, release, to].map(|op| Evidence::Op(op.id)).into_iter();
    let evidence = ops.chain([Evidence::Key(life.born)]).collect();
    Some(Mechanism::new(How::HandedOnEarly, text, evidence))
}
