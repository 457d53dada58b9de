//! What went wrong in the queue of a lock's waiters: one that was overtaken, and a place at its
//! head in which nobody waits any more.

use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpKind, Outcome};
use crate::quantity::moment;
use crate::reading::moment::Moment;
use crate::reading::queue::{QueuePlace, Standing, head, places};

/// How the lock came to an acquire before one that stood ahead of it in the queue.
pub fn overtaken(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let (all, (first, entry)) =
        (in_queue(witness), violation.keys.first().zip(violation.keys.last())?);
    let waiter = all.iter().find(|place| place.born == *first)?;
    let key = witness.history().keys.get(*entry)?;
    let by = witness.reading.op(key.by?)?;
    let grant = witness.reading.op(*violation.ops.last()?)?;
    let own = all.iter().rfind(|place| {
        place.waiter.id == grant.id && place.node == key.node && place.from <= key.at.into()
    });
    let stood = match own {
        Some(own) => format!("which had joined the queue at {}", moment(own.joined.at)),
        None => "which had no place in the queue".to_owned(),
    };
    let taken = taken_away(witness, waiter, key);
    let removed = taken.map_or(String::new(), |(by, at)| {
        format!(", in a place that {} removed at {}", deed(by), moment(at.at))
    });
    let moved = moved(witness, waiter, key).filter(|_| taken.is_none());
    let (how, removed) = match moved {
        Some((by, index)) => (moved_by(waiter, by), shifted(witness, waiter, (by, index))),
        None => (How::QueueSkipped, removed),
    };
    let (node, at) = (&key.node, moment(key.at.at));
    let entry = match by.id == grant.id {
        true => format!("{node} let {} in at {at}", grant.caller),
        false => format!("At {at}, {} handed the lock on {node} to {}", deed(by), grant.caller),
    };
    let text = format!(
        "{entry}, {stood}, though {} had stood in it since {}{removed}.",
        waiter.waiter.caller,
        moment(waiter.joined.at)
    );
    let evidence = [Evidence::Op(waiter.waiter.id), Evidence::Op(grant.id)];
    let keys = violation.keys.iter().copied().chain(moved.map(|(_, index)| index));
    let keys = keys.map(Evidence::Key);
    Some(Mechanism::new(how, text, evidence.into_iter().chain(keys).collect()))
}

/// The last operation that had moved a waiter's place, with the index of that change, when a change
/// let another in.
pub fn moved<'a>(
    witness: &Witness<'a>,
    place: &QueuePlace,
    entry: &Key,
) -> Option<(&'a Op, usize)> {
    let keys = &witness.history().keys;
    let own = keys.get(place.born)?;
    let (index, key) = keys.iter().enumerate().rfind(|(_, key)| {
        let is_it = key.key == own.key && key.of == own.of && key.node == own.node;
        let is_inside = place.from <= key.at.into() && key.at <= entry.at;
        is_it && is_inside && key.change == KeyChange::Changed
    })?;
    Some((witness.reading.op(key.by?)?, index))
}

fn moved_by(place: &QueuePlace, by: &Op) -> How {
    if by.caller == place.waiter.caller { How::PlaceGivenUp } else { How::QueueSkipped }
}

/// That a place is another one than that which its waiter took, in words.
fn shifted(witness: &Witness<'_>, place: &QueuePlace, (by, index): (&Op, usize)) -> String {
    let at = moment(witness.history().keys[index].at.at);
    match moved_by(place, by) {
        How::PlaceGivenUp => {
            format!(": its own {} gave that place up for another one at {at}", by.kind.noun())
        }
        _ => format!(", in a place that {} moved at {at}", deed(by)),
    }
}

/// An operation that changes a queue: `c1's release`.
fn deed(by: &Op) -> String {
    format!("{}'s {}", by.caller, by.kind.noun())
}

/// Who had removed a waiter's place when a change let another in, and when.
pub fn taken_away<'a>(
    witness: &Witness<'a>,
    place: &QueuePlace,
    entry: &Key,
) -> Option<(&'a Op, Moment)> {
    removed_by(witness, place).filter(|_| place.is_gone(&witness.reading, entry))
}

/// Whose operation removed a waiter's place, and when.
pub fn removed_by<'a>(witness: &Witness<'a>, place: &QueuePlace) -> Option<(&'a Op, Moment)> {
    Some((witness.reading.op(place.ended?.by?)?, place.to))
}

/// What removed the place of a waiter that still waits, and never came to its turn after that.
pub fn without_place(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let place = last_place(witness, violation)?;
    let Op { id, caller, .. } = place.waiter;
    let end = place.ended?;
    let (node, at) = (place.node, moment(place.to.at));
    let by = end.by.and_then(|by| witness.reading.op(by));
    let (how, removes) = match (end.change, by) {
        (_, Some(by)) => {
            let hand = format!("{}'s {} at {}", by.caller, by.kind.noun(), moment(by.call.at));
            let (how, whose) = match by.caller == *caller {
                true => (How::DeletedByOwner, "its own place".to_owned()),
                false => (How::DeletedByAnother, format!("{caller}'s place")),
            };
            (how, format!("{hand} removed {whose} from the queue on {node} at {at}"))
        }
        (KeyChange::LostAtRestart, _) => {
            let text =
                format!("{node} was started again at {at} without {caller}'s place in the queue");
            (How::Forgotten, text)
        }
        (KeyChange::LostAtFailover, _) => {
            let text = format!("{node} took over a queue without {caller}'s place at {at}");
            (How::LostInResync, text)
        }
        (KeyChange::Expired, _) => {
            (How::Removed, format!("The queue with {caller}'s place expired on {node} at {at}"))
        }
        _ => (How::Removed, format!("{node} removed {caller}'s place from the queue at {at}")),
    };
    let text = format!("{removes}, and {caller} still waits for its turn.");
    let evidence = [Evidence::Op(*id)].into_iter().chain(by.map(|by| Evidence::Op(by.id)));
    let evidence = evidence.chain([place.born, end.key].map(Evidence::Key)).collect();
    Some(Mechanism::new(how, text, evidence))
}

/// The last place of an acquire that never returned, if it stands in the queue of no node any more.
pub fn last_place<'a>(witness: &Witness<'a>, violation: &Violation) -> Option<QueuePlace<'a>> {
    let is_pending =
        |place: &QueuePlace| place.waiter.ret.is_none() && violation.ops.contains(&place.waiter.id);
    let all = in_queue(witness).into_iter().filter(is_pending);
    let last = all.max_by_key(|place| place.to)?;
    last.ended.map(|_| last)
}

/// Whether an acquire that waits for its turn has never had a place in the queue.
pub fn never_joined(witness: &Witness<'_>, waits: &Op) -> bool {
    let is_queueing = witness.finding.promise.queue.is_some() && waits.kind == OpKind::Acquire;
    is_queueing && !in_queue(witness).iter().any(|place| place.waiter.id == waits.id)
}

/// The place at the head of the queue that kept others out, if nobody waited in it any more.
pub fn left(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let (place, at) = blocking(witness, violation)?;
    let Op { id, caller, .. } = place.waiter;
    let over = match place.standing(&witness.reading, at) {
        Standing::Dead => died(witness, &place),
        Standing::Halted => "its process stood still".to_owned(),
        Standing::Over => ended(&place) + &rejected(witness, &place),
        Standing::Waits => return None,
    };
    let stayed = match place.to {
        Moment::NEVER => "to the end of the run".to_owned(),
        to => format!("until {}", moment(to.at)),
    };
    let text = format!(
        "{caller} stood at the head of the queue on {}, {over}, and its place stayed {stayed}: \
         nobody behind it could take the free lock.",
        place.node
    );
    let evidence = vec![Evidence::Op(*id), Evidence::Key(place.born)];
    Some(Mechanism::new(How::LeftInQueue, text, evidence))
}

/// The place that a violation is about, and a moment at which it stood at the head of its queue
/// while the lock was free.
pub fn blocking<'a>(
    witness: &Witness<'a>,
    violation: &Violation,
) -> Option<(QueuePlace<'a>, Moment)> {
    let (all, at) = (in_queue(witness), Moment::from(violation.to));
    let found = match violation.kind {
        Kind::Leak => all.iter().find(|place| violation.keys.contains(&place.born)),
        Kind::Stuck => {
            let nodes = all.iter().map(|place| place.node);
            let heads = nodes.filter_map(|node| head(&all, node, at));
            heads.into_iter().find(|place| {
                let mut keys = witness.lives.iter().filter(|life| life.node == place.node);
                let is_over = place.standing(&witness.reading, at) != Standing::Waits;
                is_over && !keys.any(|life| witness.is_there(life, violation.to))
            })
        }
        _ => None,
    };
    found.map(|place| (*place, at))
}

/// Which node rejected the last request of a place's acquire, as one that is no master any more.
fn rejected(witness: &Witness<'_>, place: &QueuePlace) -> String {
    let last = witness.reading.requests_of(place.waiter.id).last();
    let last = last.filter(|request| request.declined);
    last.map_or(String::new(), |last| format!(" after {} had rejected its last request", last.to))
}

/// The queue of the lock, if it promises one.
pub fn in_queue<'a>(witness: &Witness<'a>) -> Vec<QueuePlace<'a>> {
    let queue = witness.finding.promise.queue.as_deref();
    queue.map_or(Vec::new(), |queue| places(&witness.reading, queue))
}

fn died(witness: &Witness<'_>, place: &QueuePlace) -> String {
    let Op { process, call, .. } = place.waiter;
    let death = witness.reading.death_after(process, Moment::from(*call));
    let at = death.map_or(0, |death| death.at.at);
    format!("its process died at {}", moment(at))
}

fn ended(place: &QueuePlace) -> String {
    let at = place.waiter.ret.map_or(0, |ret| ret.at);
    match place.waiter.outcome {
        Outcome::Granted { .. } => "it had got the lock and released it".to_owned(),
        Outcome::Refused { .. } => format!("its acquire was refused at {}", moment(at)),
        _ => format!("its acquire had ended at {} without an answer", moment(at)),
    }
}
