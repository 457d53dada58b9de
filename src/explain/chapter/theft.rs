//! How the keys of the witness's grants ended, and whose hand ended them.

use std::collections::BTreeMap;

use lockstorm_sim::time::{Instant, MILLISECOND, Nanos, SECOND};
use lockstorm_sim::trace::{KeyChange, Leg};

use crate::check::Kind;
use crate::explain::hold::{grant_of, op};
use crate::explain::incarnation::Incarnation;
use crate::explain::quantity::{length, list};
use crate::explain::story::{Beat, Evidence, Weight};
use crate::explain::witness::Witness;
use crate::history::{Key, OpId};

/// Keys that end alike within this are told of in one sentence.
const TOGETHER: Nanos = SECOND;
/// A command that takes longer to its node is said to be late.
const LATE: Nanos = 100 * MILLISECOND;

/// The ends of the actors' keys that were not their own doing, and what they did to others'.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut groups: BTreeMap<(OpId, Ending), Vec<Vec<&Incarnation>>> = BTreeMap::new();
    let mut lives: Vec<&Incarnation> = witness.lives.iter().collect();
    lives.sort_by_key(|life| life.until);
    for life in lives {
        let Some((owner, ending)) = ending(witness, life) else { continue };
        let groups = groups.entry((owner, ending)).or_default();
        match groups.last_mut() {
            Some(group) if life.until.at <= group[0].until.at + TOGETHER => group.push(life),
            _ => groups.push(vec![life]),
        }
    }
    let each = groups.iter().flat_map(|(of, groups)| groups.iter().map(move |lives| (of, lives)));
    let mut beats: Vec<Beat> = each
        .filter_map(|((owner, ending), lives)| ended(witness, *owner, *ending, lives))
        .collect();
    beats.extend(prolonged(witness));
    beats
}

/// How a key came to its end, as far as a sentence tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Change(KeyChange),
    DeletedBy(OpId),
    OverwrittenBy(OpId),
}

fn ending(witness: &Witness<'_>, life: &Incarnation) -> Option<(OpId, Ending)> {
    let owner = life.owner?;
    let key = witness.history().keys.get(life.end?)?;
    let foreign = key.by.filter(|by| grant_of_id(witness, *by) != Some(owner));
    let is_in_cast = witness.cast().iter().any(|grant| grant.id == owner);
    match (key.change, foreign) {
        (KeyChange::Set, Some(by)) => Some((owner, Ending::OverwrittenBy(by))),
        (KeyChange::Deleted, Some(by)) => Some((owner, Ending::DeletedBy(by))),
        (KeyChange::Deleted, None) | (KeyChange::Set, None) => None,
        (change, _) => is_in_cast.then_some((owner, Ending::Change(change))),
    }
}

fn grant_of_id(witness: &Witness<'_>, id: OpId) -> Option<OpId> {
    grant_of(op(witness.history(), id)?)
}

fn ended(
    witness: &Witness<'_>,
    owner: OpId,
    ending: Ending,
    lives: &[&Incarnation],
) -> Option<Beat> {
    let whose = witness.caller(owner)?;
    let nodes: Vec<String> = lives.iter().map(|life| life.node.clone()).collect();
    let on = list(&nodes);
    let mut evidence = vec![Evidence::Op(owner)];
    let (hand, sent) = match ending {
        Ending::DeletedBy(id) | Ending::OverwrittenBy(id) => hand(witness, id, lives),
        Ending::Change(_) => (String::new(), None),
    };
    evidence.extend(sent.map(Evidence::Request));
    let what = match ending {
        Ending::DeletedBy(id) | Ending::OverwrittenBy(id) if witness.caller(id) == Some(whose) => {
            "its own newer key".to_owned()
        }
        _ => format!("{whose}'s key"),
    };
    let text = match ending {
        Ending::Change(KeyChange::Expired) => format!("{whose}'s key expires on {on}."),
        Ending::Change(KeyChange::Evicted) => format!("{on} removes {whose}'s key."),
        Ending::Change(KeyChange::LostAtRestart) => {
            format!("{on} comes back without {whose}'s key.")
        }
        Ending::Change(_) => format!("{on} loses {whose}'s key: its master does not have it."),
        Ending::DeletedBy(_) => format!("{hand} deletes {what} on {on}."),
        Ending::OverwrittenBy(_) => format!("{hand} overwrites {what} on {on}."),
    };
    for life in lives {
        evidence.extend([Evidence::Key(life.born), Evidence::Key(life.end?)]);
    }
    let at: Instant = lives.iter().map(|life| life.until).min()?;
    if let Ending::DeletedBy(id) | Ending::OverwrittenBy(id) = ending {
        evidence.push(Evidence::Op(id));
    }
    let weight = match ending {
        _ if at > witness.primary?.from => Weight::Effect,
        Ending::Change(_) => Weight::Cause,
        Ending::DeletedBy(_) | Ending::OverwrittenBy(_) => Weight::Crux,
    };
    Some(Beat::new(weight, at, text, evidence))
}

/// Who ended a key, and with which command if that was long under way.
fn hand(witness: &Witness<'_>, id: OpId, lives: &[&Incarnation]) -> (String, Option<usize>) {
    let who = witness.caller(id).unwrap_or("somebody");
    let late = lives.iter().find_map(|life| {
        let key = witness.history().keys.get(life.end?)?;
        let requests = witness.history().requests.iter().enumerate();
        let mut theirs = requests.filter(|(_, r)| r.op == id && r.to == life.node);
        theirs.find_map(|(index, request)| {
            let [(Leg::Sent, sent), (Leg::Applied, applied), ..] = request.legs[..] else {
                return None;
            };
            let took = applied.at.saturating_sub(sent.at);
            let is_late = applied.at == key.at.at && took >= LATE;
            is_late.then_some((index, &request.command, took))
        })
    });
    match late {
        Some((index, command, took)) => {
            let text = format!("{who}'s {command}, {} on its way,", length(took));
            (text, Some(index))
        }
        None => (who.to_owned(), None),
    }
}

/// Extends that prolonged a key of another's, as the violations name them.
fn prolonged(witness: &Witness<'_>) -> Vec<Beat> {
    let named = witness.of_kind(Kind::ForeignExtend).flat_map(|v| v.keys.iter().copied());
    named
        .filter_map(|index| {
            let keys = &witness.history().keys;
            let key: &Key = keys.get(index).filter(|key| key.change == KeyChange::Extended)?;
            let (by, who) = (key.by?, witness.caller(key.by?)?);
            let life = witness.lives.iter().rfind(|l| l.node == key.node && l.from < key.at)?;
            let owner = life.owner.filter(|owner| witness.caller(*owner) != Some(who))?;
            let whose = witness.caller(owner)?;
            let text = format!("{who} prolongs {whose}'s key on {}.", key.node);
            let evidence = vec![Evidence::Op(by), Evidence::Key(life.born), Evidence::Key(index)];
            Some(Beat::new(Weight::Crux, key.at, text, evidence))
        })
        .collect()
}
