//! The queue of waiters: who joined it, what became of the one at its head, and when it went on.

use lockstorm_platform::time::Instant;

use crate::check::availability::reason::Reason;
use crate::check::verdict::Kind;
use crate::explain::evidence::Evidence;
use crate::explain::mechanism::queue::{
    blocking, in_queue, last_place, moved, removed_by, taken_away,
};
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::history::{Op, Outcome};
use crate::reading::moment::Moment;
use crate::reading::queue::{QueuePlace, Standing};

/// The events in the queue on which the headline violation rests.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let Some(violation) = witness.primary else { return Vec::new() };
    if let Some((place, at)) = blocking(witness, violation) {
        return stands(witness, (&place, at), Weight::Crux);
    }
    if let Some(place) = last_place(witness, violation) {
        let gone = removed_by(witness, &place);
        let gone = gone.map(|gone| removed(witness, &place, gone));
        return [Some(joins(&place, Weight::Crux)), gone].into_iter().flatten().collect();
    }
    let is_named = |place: &QueuePlace| violation.ops.contains(&place.waiter.id);
    let before = |place: &QueuePlace| place.from <= Moment::from(violation.to);
    let entry = violation.keys.last().and_then(|key| witness.history().keys.get(*key));
    let Some(entry) = entry.filter(|_| violation.kind == Kind::Overtaken) else {
        return Vec::new();
    };
    let named = in_queue(witness).into_iter().filter(|place| is_named(place) && before(place));
    named
        .flat_map(|place| {
            let is_first = violation.keys.first() == Some(&place.born);
            let taken = taken_away(witness, &place, entry).filter(|_| is_first);
            let moved = moved(witness, &place, entry).filter(|_| is_first && taken.is_none());
            let removed = taken.map(|taken| removed(witness, &place, taken));
            let moved = moved.map(|moved| moves(witness, &place, moved));
            // Who waits for long may have had many places.
            let is_told = violation.keys.contains(&place.born);
            let weight = if is_told { Weight::Crux } else { Weight::Detail };
            [Some(joins(&place, weight)), removed, moved].into_iter().flatten()
        })
        .collect()
}

/// The removal of the place of a waiter that still waits.
fn removed(witness: &Witness<'_>, place: &QueuePlace, (by, at): (&Op, Moment)) -> Beat {
    let Op { id, caller, .. } = place.waiter;
    let text = format!("{} removes {caller}'s place from the queue on {}.", by.caller, place.node);
    let end = place.ended.map(|end| Evidence::Key(end.key));
    let evidence = [Evidence::Op(*id), Evidence::Op(by.id)].into_iter().chain(end).collect();
    Beat::new(Weight::Crux, at.instant(witness.history()), text, evidence)
}

/// The operation after which a waiter stands behind others that had come later.
fn moves(witness: &Witness<'_>, place: &QueuePlace, (by, index): (&Op, usize)) -> Beat {
    let (Op { id, caller, .. }, node) = (place.waiter, place.node);
    let text = match by.caller == *caller {
        true => format!("{caller} gives up its place in the queue on {node} for another one."),
        false => format!("{} moves {caller}'s place in the queue on {node}.", by.caller),
    };
    let evidence = vec![Evidence::Op(*id), Evidence::Op(by.id), Evidence::Key(index)];
    Beat::new(Weight::Crux, witness.history().keys[index].at, text, evidence)
}

/// The place that blocked the queue in the longest stretch without the lock, in a run that held.
pub fn calm(witness: &Witness<'_>) -> Vec<Beat> {
    let Some(out) = &witness.finding.judgement.availability.unavailable else { return Vec::new() };
    let blocks = |reason| {
        let reasons = [Reason::DeadWaiter, Reason::LeftPlace, Reason::HaltedWaiter];
        reasons.contains(&reason) || reason == Reason::CutOffWaiter
    };
    let share = out.reasons.iter().find(|share| blocks(share.reason));
    let Some(waiter) = share.and_then(|share| share.owner) else { return Vec::new() };
    let all = in_queue(witness);
    let lasts = |place: &&QueuePlace| {
        place.waiter.id == waiter && place.from < out.to.into() && place.to > out.from.into()
    };
    let place = all.iter().find(lasts);
    place.map_or(Vec::new(), |place| stands(witness, (place, out.to.into()), Weight::Cause))
}

/// A place at the head of the queue: when it was taken, what became of its waiter, when it was
/// removed.
fn stands(witness: &Witness<'_>, (place, at): (&QueuePlace, Moment), weight: Weight) -> Vec<Beat> {
    let mut beats = vec![joins(place, weight)];
    let Op { id, caller, process, call, .. } = place.waiter;
    let (own, born) = (Evidence::Op(*id), Evidence::Key(place.born));
    let reading = &witness.reading;
    match place.standing(reading, last_look(place, at)) {
        Standing::Dead => {
            let death = reading.death_after(process, Moment::from(*call));
            let text = format!("{caller}'s process dies while {caller} stands in the queue.");
            let fault = death.and_then(|death| death.interval).map(Evidence::FaultInterval);
            let evidence = [own, born].into_iter().chain(fault).collect();
            let at = death.map_or(place.from, |death| death.at).instant(witness.history());
            beats.push(Beat::new(weight, at, text, evidence));
        }
        Standing::Over => {
            let ended = match place.waiter.outcome {
                Outcome::Granted { .. } => "no longer has the lock",
                Outcome::Refused { .. } => "is refused",
                _ => "gives up",
            };
            let text = format!("{caller} {ended}, and its place stays in the queue.");
            let over = place.over(reading).unwrap_or(place.from).instant(witness.history());
            beats.push(Beat::new(weight, over, text, vec![own, born]));
        }
        Standing::Halted | Standing::Waits => {}
    }
    let node = place.node;
    let (text, end) = match place.ended {
        Some(end) => (
            format!(
                "{caller}'s place is removed from the queue on {node}, and the queue moves on."
            ),
            Some(Evidence::Key(end.key)),
        ),
        None => (
            format!(
                "{caller}'s place is still at the head of the queue on {node}, and nobody behind \
                 it can take the free lock."
            ),
            None,
        ),
    };
    let until = place.to.min(Moment::from(witness.history().end)).instant(witness.history());
    let evidence = [own, born].into_iter().chain(end).collect();
    beats.push(Beat::new(weight, until, text, evidence));
    beats
}

/// The last moment up to `at` at which a place was there, as its removal shows it.
fn last_look(place: &QueuePlace, at: Moment) -> Moment {
    if place.to <= at { Moment { seq: place.to.seq.saturating_sub(1), ..place.to } } else { at }
}

fn joins(place: &QueuePlace, weight: Weight) -> Beat {
    let text = format!("{} joins the queue on {}.", place.waiter.caller, place.node);
    let evidence = vec![Evidence::Op(place.waiter.id), Evidence::Key(place.born)];
    let at = Instant { seq: place.from.seq, at: place.from.at };
    Beat::new(weight, at, text, evidence)
}
