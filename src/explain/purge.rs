//! Members of a lock's key that an acquire removed once their leases had passed, as any may: by the
//! clock of the grant's caller, or in true time.

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::KeyChange;

use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpKind, Outcome};

/// Whether an acquire removed a member whose lease had passed.
pub fn is_purged(witness: &Witness<'_>, life: &StoryLife) -> bool {
    let history = witness.history();
    let end = life.end.and_then(|end| history.keys.get(end));
    let end = end.filter(|end| witness.reading.by_member && end.change == KeyChange::Deleted);
    let by = end.and_then(|end| op(history, end.by?));
    let owner = life.owner.and_then(|owner| op(history, owner));
    let is_acquire = by.is_some_and(|by| by.kind == OpKind::Acquire);
    end.zip(owner)
        .filter(|_| is_acquire)
        .is_some_and(|(end, owner)| is_over(witness, owner, end.at) || is_due(witness, life, end))
}

/// Whether the leases that an acquire and its extends gave are over on their caller's clock.
fn is_over(witness: &Witness<'_>, owner: &Op, at: Instant) -> bool {
    let ops = [owner].into_iter().chain(witness.reading.ops_of(owner.id));
    let given = ops.filter_map(|op| match op.outcome {
        Outcome::Granted { deadline, .. } | Outcome::Kept { deadline } => deadline,
        _ => None,
    });
    let reads =
        |clock| Some(witness.reading.clocks.line(&owner.process, clock, at.into())?.at(at.at));
    let mut given = given.peekable();
    given.peek().is_some() && given.all(|(clock, until)| reads(clock) >= Some(until))
}

/// Whether the time to live has passed since the last change of a member. Where only another clock
/// says so, the member was deleted early.
fn is_due(witness: &Witness<'_>, life: &StoryLife, end: &Key) -> bool {
    let Some(ttl) = witness.finding.plan.lock.ttl else { return false };
    let keys = &witness.history().keys;
    let born = &keys[life.born];
    let is_it = |key: &&Key| key.node == born.node && key.key == born.key && key.of == born.of;
    let last = keys[life.born..].iter().filter(is_it).take_while(|key| key.at < end.at).last();
    last.unwrap_or(born).at.at.saturating_add(ttl) <= end.at.at
}
