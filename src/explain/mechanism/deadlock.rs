//! Callers that wait for each other: each has a key of its group, and waits for one that the next
//! has.

use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::Violation;
use crate::explain::evidence::Evidence;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpKind};
use crate::quantity::list;
use crate::reading::moment::Moment;

/// A pending acquire of a group, with a key that it has and the one for which it waits.
struct Waiting<'a> {
    op: &'a Op,
    /// Its key that the caller before it in the circle waits for.
    wanted: &'a str,
    /// The change that set it.
    set: usize,
}

/// A circle of pending acquires at the time of a violation.
pub fn mechanism(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let at = Moment::from(violation.to);
    let pending = witness.history().ops.iter().filter(|op| is_pending(witness, op, at));
    let circle = pending.into_iter().find_map(|op| circle(witness, op, at))?;
    let next = |place: usize| &circle[(place + 1) % circle.len()];
    let waits = circle.iter().enumerate().map(|(place, own)| {
        let (who, after) = (&own.op.caller, next(place));
        format!(
            "{who} has {} and waits for {}, which {} has",
            own.wanted, after.wanted, after.op.caller
        )
    });
    let text = format!("{}: nobody can go on.", waits.collect::<Vec<_>>().join("; "));
    let ops = circle.iter().map(|own| Evidence::Op(own.op.id));
    let keys = circle.iter().map(|own| Evidence::Key(own.set));
    let callers: Vec<String> = circle.iter().map(|own| own.op.caller.clone()).collect();
    let text = format!("{} wait for each other: {text}", list(&callers));
    Some(Mechanism::new(How::Deadlock, text, ops.chain(keys).collect()))
}

fn is_pending(witness: &Witness<'_>, op: &Op, at: Moment) -> bool {
    let reading = &witness.reading;
    op.kind == OpKind::Acquire
        && !op.keys.is_empty()
        && op.ret.is_none_or(|ret| at < ret.into())
        && reading.death_after(&op.process, op.call.into()).is_none_or(|death| at < death.at)
}

/// The circle that begins with an acquire, if each waits for a key of the next.
fn circle<'a>(witness: &Witness<'a>, first: &'a Op, at: Moment) -> Option<Vec<Waiting<'a>>> {
    let mut circle: Vec<Waiting> = Vec::new();
    let mut op = first;
    loop {
        let found = op.keys.iter().find_map(|key| {
            let (set, by) = owner_of(witness, key, at)?;
            (by.id != op.id).then_some((key, set, by))
        });
        let (wanted, set, by) = found.filter(|(.., by)| is_pending(witness, by, at))?;
        circle.push(Waiting { op: by, wanted, set });
        if by.id == first.id {
            return Some(circle);
        }
        // A circle that does not lead back to its first acquire is found from another one.
        if circle.len() > witness.history().ops.len().min(64) {
            return None;
        }
        op = by;
    }
}

/// The acquire that set a key which is there at a moment, and the change.
fn owner_of<'a>(witness: &Witness<'a>, name: &str, at: Moment) -> Option<(usize, &'a Op)> {
    let keys = witness.history().keys.iter().enumerate();
    let own = |(_, key): &(usize, &Key)| key.of.is_none() && key.key == *name;
    let mut own = keys.filter(own).filter(|(_, key)| Moment::from(key.at) <= at);
    let (index, key) = own.next_back().filter(|(_, key)| key.change == KeyChange::Set)?;
    Some((index, witness.reading.op(key.by?)?))
}
