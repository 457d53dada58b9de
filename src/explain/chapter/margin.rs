//! The nearest miss of a run, as an event: the write, and what kept it safe.

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::KeyChange;

use crate::check::nearest_miss::NearestMiss;
use crate::explain::hold::{StoryHold, op};
use crate::explain::incarnation::KeyLife;
use crate::explain::story::{Beat, Evidence, Weight};
use crate::explain::witness::Witness;
use crate::history::{Access, OpKind, Seen, Sighting};
use crate::quantity::{moment, rounded};

/// The write that the checks measured; nothing if it is not in the history.
pub fn beat(witness: &Witness<'_>) -> Option<Beat> {
    let nearest = witness.finding.judgement.nearest.as_ref()?;
    let hold = witness.tenures.iter().find(|hold| hold.grant.id == nearest.grant)?;
    let access = witness.history().accesses.get(nearest.write)?;
    let who = &hold.grant.caller;
    let mut evidence = vec![Evidence::Op(hold.grant.id), Evidence::Access(nearest.write)];
    let by = rounded(nearest.by.unsigned_abs());
    if nearest.node.is_empty() {
        let text = format!(
            "The nearest miss: {who} writes {by} after its grant, and nothing would have kept \
             another out since; nobody came."
        );
        return Some(Beat::new(Weight::Crux, access.at, text, evidence));
    }
    let own = |owner| witness.is_of(hold, owner);
    let mut lives = witness.lives.iter().filter(|life| life.node == nearest.node);
    // A start may put the key back after the write.
    let free = free(access, nearest);
    let is_there = |life: &KeyLife| life.from <= access.at || life.from.at <= free;
    let life = lives.rfind(|life| life.owner.is_some_and(own) && is_there(life));
    let life = life.map(|life| last_of(witness, hold, life));
    let node = &nearest.node;
    if let Some(life) = life {
        evidence.push(Evidence::Key(life.born));
    }
    if let Some(older) = older(witness, hold, access, nearest) {
        evidence.push(Evidence::Key(older.born));
        let text = match nearest.by < 0 {
            true => format!(
                "The nearest miss: {who} writes {by} after an older key on {node} was over; nobody \
                 else was let in."
            ),
            false => format!(
                "The nearest miss: {who} writes {by} before an older key on {node} is over, under \
                 its grant of {}.",
                moment(hold.from.at)
            ),
        };
        return Some(Beat::new(Weight::Crux, access.at, text, evidence));
    }
    let text = match nearest.by < 0 {
        true => {
            let lasting = life.filter(|life| was_there(witness, life, access, nearest));
            let over = match lasting {
                Some(life) if removed(witness, life, access, nearest).is_some() => {
                    format!("its key on {node} was gone")
                }
                Some(_) => format!("its key on {node} was over"),
                None if nearest.resumed => format!("{node} ran again without its key"),
                None => format!("{node} led without its key"),
            };
            format!("The nearest miss: {who} writes {by} after {over}; nobody else was let in.")
        }
        false => {
            let end = match life {
                _ if nearest.resumed => format!("{node} runs again without its key"),
                Some(life) => end(witness, life, access, nearest),
                None => format!("{node} leads without its key"),
            };
            let under = moment(hold.from.at);
            format!("The nearest miss: {who} writes {by} before {end}, under its grant of {under}.")
        }
    };
    Some(Beat::new(Weight::Crux, access.at, text, evidence))
}

/// A key, or what its own caller's later acquires, and releases of older grants, made of it.
fn last_of<'b>(witness: &'b Witness<'_>, hold: &StoryHold<'_>, life: &'b KeyLife) -> &'b KeyLife {
    let next = || {
        let end = life.end?;
        let by = op(witness.history(), witness.history().keys[end].by?)?;
        let leaves = matches!(by.kind, OpKind::Acquire | OpKind::Release { .. });
        let is_own = leaves && by.caller == hold.grant.caller;
        witness.lives.iter().find(|next| is_own && next.born == end)
    };
    next().map_or(life, |next| last_of(witness, hold, next))
}

/// When another could have been let in, ns.
fn free(wrote: &Access, nearest: &NearestMiss) -> Nanos {
    wrote.at.at.saturating_add_signed(nearest.by)
}

/// How a key let others in after a write.
fn end(witness: &Witness<'_>, life: &KeyLife, wrote: &Access, nearest: &NearestMiss) -> String {
    let node = &nearest.node;
    let removed = removed(witness, life, wrote, nearest);
    let is_lost = matches!(removed, Some(KeyChange::LostAtRestart | KeyChange::LostAtFailover));
    // Then nobody was let in as long as the node was down, or followed another.
    let free = free(wrote, nearest);
    let sightings = witness.history().sightings.iter();
    let led = || {
        let leads = |seen: &&Sighting| seen.what == Seen::Leads && seen.by == *node;
        sightings.clone().filter(leads)
    };
    // What a start puts back when its lease is over is over at once.
    let was_gone = removed.is_none() && life.until.at <= free && led().any(|led| led.at.at == free);
    match removed {
        _ if is_lost || was_gone || is_early(witness, life, wrote, nearest) => {
            let again = if led().next().is_none_or(|led| led.at.at < free) { " again" } else { "" };
            format!("{node} leads{again} without its key")
        }
        Some(KeyChange::Set | KeyChange::Changed) => format!("its key on {node} is taken over"),
        Some(_) => format!("its key on {node} is removed"),
        None => format!("its key on {node} would have been over"),
    }
}

/// Whether a key was over before its node let others in: the node did not lead then.
fn is_early(witness: &Witness<'_>, life: &KeyLife, wrote: &Access, nearest: &NearestMiss) -> bool {
    let free = free(wrote, nearest);
    witness.passes(life).at < free
}

/// Whether a key lasted until its node let others in: it was not lost before.
fn was_there(witness: &Witness<'_>, life: &KeyLife, wrote: &Access, nearest: &NearestMiss) -> bool {
    let free = free(wrote, nearest);
    free <= life.until.at && !is_early(witness, life, wrote, nearest)
}

/// What removed a key as it let others in, before its lease was over.
fn removed(
    witness: &Witness<'_>,
    life: &KeyLife,
    wrote: &Access,
    nearest: &NearestMiss,
) -> Option<KeyChange> {
    let free = free(wrote, nearest);
    let change = witness.history().keys.get(life.end?)?.change;
    (life.until.at == free && change != KeyChange::Expired).then_some(change)
}

/// The key from before a grant whose end let others in, if it was not the tenure's own.
fn older<'b>(
    witness: &'b Witness<'_>,
    hold: &StoryHold<'_>,
    wrote: &Access,
    nearest: &NearestMiss,
) -> Option<&'b KeyLife> {
    let free = free(wrote, nearest);
    let mut lives = witness.lives.iter().filter(|life| life.node == nearest.node);
    lives.find(|life| {
        let gone = witness.gone(life);
        let is_others = life.owner.is_some_and(|owner| !witness.is_of(hold, owner));
        let set = &witness.history().keys[life.born];
        let is_older = witness.reading.is_from_before(set, hold.from.into());
        is_others && is_older && gone.at == free
    })
}
