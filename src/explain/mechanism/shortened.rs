//! A key that an operation of its own caller left less time to live than it had had.

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};

use crate::explain::evidence::Evidence;
use crate::explain::hold::{StoryHold, op};
use crate::explain::life::StoryLife;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Key, Op};
use crate::quantity::{length, moment};
use crate::reading::moment::Moment;

/// A change that gave a key an earlier expiry.
pub struct Shortening<'a> {
    /// The operation that did it.
    pub by: &'a Op,
    /// The change.
    pub index: usize,
    /// The change with which the life of the key began.
    pub born: usize,
    /// How much it took from the life of the key.
    pub took: Nanos,
}

/// The mechanism if an operation of its caller shortened the life of a key of a tenure that was
/// gone by `at`, and that would still have existed then.
pub fn shortened(witness: &Witness<'_>, hold: &StoryHold<'_>, at: Moment) -> Option<Mechanism> {
    let found = shortening(witness, hold, at)?;
    let text = format!(
        "{}'s {} at {} took {} from the life of its key on {}, on which its acquire at {} still \
         counted.",
        hold.grant.caller,
        found.by.kind.noun(),
        moment(found.by.call.at),
        length(found.took),
        witness.history().keys[found.index].node,
        moment(hold.grant.call.at)
    );
    let evidence = [hold.grant.id, found.by.id].map(Evidence::Op).into_iter();
    let evidence = evidence.chain([found.born, found.index].map(Evidence::Key)).collect();
    Some(Mechanism::new(How::ShortenedByOwner, text, evidence))
}

/// What shortened the life of a key of a tenure that would otherwise have existed at `at`.
pub fn shortening<'a>(
    witness: &Witness<'a>,
    hold: &StoryHold<'_>,
    at: Moment,
) -> Option<Shortening<'a>> {
    let is_own = |life: &&StoryLife| life.owner.is_some_and(|owner| witness.is_of(hold, owner));
    let gone = witness.lives.iter().filter(is_own).filter(|life| witness.gone(life) <= at);
    let mut found = gone.rev().filter_map(|life| of_life(witness, life, at));
    found.find(|found| found.by.caller == hold.grant.caller)
}

fn of_life<'a>(witness: &Witness<'a>, life: &StoryLife, at: Moment) -> Option<Shortening<'a>> {
    let history = witness.history();
    let is_of_life = |key: &Key| {
        key.node == life.node && key.key == witness.reading.lock_key && key.at < life.until
    };
    let expiries = history.keys.iter().enumerate().skip(life.born);
    let expiries = expiries.filter(|(_, key)| is_of_life(key) && key.until_ms.is_some());
    let expiries: Vec<(usize, &Key)> = expiries.collect();
    // What followed the last change of the expiry left it as it was.
    let changed = |pair: &&[(usize, &Key)]| pair[0].1.until_ms != pair[1].1.until_ms;
    let [_, (index, last)] = expiries.windows(2).rfind(changed)? else { return None };
    // An operation may change a key before it gives it its expiry.
    let mut earlier = expiries.iter().filter(|(earlier, _)| earlier < index);
    let (_, before) = earlier.rfind(|(_, key)| key.by != last.by)?;
    let (due, until) = (before.until_ms?, last.until_ms?);
    let by = op(history, last.by?)?;
    let wall = witness.reading.clocks.line(&life.node, Clock::Wall, at)?;
    let would_be_there = wall.at(at.at) / MILLISECOND <= due;
    let took = due.saturating_sub(until).saturating_mul(MILLISECOND);
    let is_it = until < due && would_be_there;
    is_it.then_some(Shortening { by, index: *index, born: life.born, took })
}
