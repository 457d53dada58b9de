//! Mechanisms of a resource that is changed in several steps, or compared at the wrong one, while
//! nothing keeps its callers apart.

use crate::check::verdict::{Cause, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Access, AccessKind, Op, OpKind, Outcome};
use crate::quantity::moment;

/// How the resource was damaged.
pub fn mechanism(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    match violation.cause? {
        Cause::Test => compared_too_early(witness, violation),
        Cause::Endless => end_set_apart(witness, violation),
        Cause::OneSegment => looked_into_one(witness, violation),
        _ if witness.finding.promise.unguarded => came_between(witness, violation),
        _ => None,
    }
}

/// Another caller's change between what a caller read and what it wrote.
fn came_between(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let accesses = &witness.history().accesses;
    let (last, undone) = violation.accesses.split_last()?;
    let own = &accesses[*last];
    let is_read = |index: &usize| {
        let access = &accesses[*index];
        access.kind == AccessKind::Read && access.grant == own.grant
    };
    let read = (0..*last).rev().find(is_read)?;
    let other = undone.iter().copied().find(|index| accesses[*index].caller != own.caller)?;
    let (seen, between) = (&accesses[read], &accesses[other]);
    let text = format!(
        "Nothing is locked: {} read {} at {}, {} {} at {}, and {} {} at {} on what it had read.",
        own.caller,
        seen.value,
        moment(seen.at.at),
        between.caller,
        did(between),
        moment(between.at.at),
        own.caller,
        did(own),
        moment(own.at.at)
    );
    let evidence = [read, other, *last].map(Evidence::Access).to_vec();
    Some(Mechanism::new(How::NothingLocked, text, evidence))
}

fn did(access: &Access) -> String {
    match access.kind {
        AccessKind::Add => format!("made it {}", access.value),
        _ => format!("wrote {}", access.value),
    }
}

fn compared_too_early(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let index = *violation.accesses.last()?;
    let access = witness.history().accesses.get(index)?;
    let text = format!(
        "What is compared with the limit is the count before the request: at {}, {}'s is number \
         {}, and passes.",
        moment(access.at.at),
        access.caller,
        access.value
    );
    Some(Mechanism::new(How::ComparedTooEarly, text, vec![Evidence::Access(index)]))
}

fn looked_into_one(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let index = *violation.accesses.last()?;
    let access = witness.history().accesses.get(index)?;
    let key = access.grant.and_then(|grant| op(witness.history(), grant)?.keys.first());
    let text = format!(
        "{} found nothing under {} and turned its buyer away at {}, while {} left in other \
         segments: the caller is wrong here.",
        access.caller,
        key.map_or("its lock", String::as_str),
        moment(access.at.at),
        items_are(access.value)
    );
    Some(Mechanism::new(How::OneSegment, text, vec![Evidence::Access(index)]))
}

fn items_are(left: i64) -> String {
    if left == 1 { "1 item was".to_owned() } else { format!("{left} items were") }
}

fn end_set_apart(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let index = *violation.accesses.last()?;
    let access = witness.history().accesses.get(index)?;
    let asked = op(witness.history(), access.op)?;
    let (who, at) = (&access.caller, moment(access.at.at));
    let mut later = witness.history().ops.iter().skip(asked.id as usize);
    let sets = |op: &Op| op.caller == *who && matches!(op.kind, OpKind::Expire { .. });
    let dies = || witness.reading.death_after(&asked.process, asked.call.into()).is_some();
    let why = match asked.outcome {
        _ if later.any(sets) => format!("what {who} sent for it did not arrive"),
        _ if dies() => format!("{who} died before it could"),
        Outcome::Unknown => format!("{who} got no answer, and did not know that it had to"),
        _ => format!("{who} sent nothing for it"),
    };
    let text = format!("{who} began the counter at {at}, and nobody set its end: {why}.");
    let evidence = vec![Evidence::Op(asked.id), Evidence::Access(index)];
    Some(Mechanism::new(How::EndSetApart, text, evidence))
}
