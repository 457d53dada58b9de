//! How the key ended by which several callers had the lock, if they share one.

use std::collections::BTreeSet;

use lockstorm_platform::trace::KeyChange;

use crate::explain::evidence::Evidence;
use crate::explain::hold::{StoryHold, op};
use crate::explain::life::StoryLife;
use crate::explain::share;
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::history::OpKind;

/// The ends of the keys by which the grants of the story had the lock, and what a release changed
/// of them that had no part in them.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let Some((_, to)) = witness.overlap() else { return Vec::new() };
    let mut told = BTreeSet::new();
    let shares = witness.actors.iter().filter_map(|grant| {
        let (node, at) = share::decided(witness, grant)?;
        // Shared holders may set the key anew until the harm is over.
        let life = share::key_of(witness, grant, (node, to)).filter(|life| at < life.until)?;
        Some((witness.hold(grant.id)?, life))
    });
    let beats = shares.filter_map(|(hold, life)| {
        let beat = in_excess(witness, hold, life).or_else(|| gone(witness, hold, life))?;
        Some((life.born, beat))
    });
    beats.filter_map(|(born, beat)| told.insert(born).then_some(beat)).collect()
}

/// A release that took effect on a key by which a caller has the lock, and had no part in it.
fn in_excess(witness: &Witness<'_>, hold: &StoryHold<'_>, life: &StoryLife) -> Option<Beat> {
    let (index, release, is_second) = share::excess(witness, life, hold.until)?;
    // A caller that comes later than that has the lock by what is left of the key.
    let key = witness.history().keys.get(index)?;
    if key.at < hold.grant.call.instant() {
        return None;
    }
    let (who, whose, node) = (&release.caller, &hold.grant.caller, &life.node);
    let text = match is_second {
        true => format!(
            "{who}'s release takes effect again on the key on {node} by which {whose} has the lock."
        ),
        false => format!(
            "{who}'s release takes effect on the key on {node} by which {whose} has the lock, and \
             has no part in it."
        ),
    };
    let evidence = [hold.grant.id, release.id].map(Evidence::Op).into_iter();
    let evidence = evidence.chain([life.born, index].map(Evidence::Key)).collect();
    Some(Beat::new(Weight::Crux, key.at, text, evidence))
}

/// The end of a key by which a caller has the lock: another one's release, or its time to live.
fn gone(witness: &Witness<'_>, hold: &StoryHold<'_>, life: &StoryLife) -> Option<Beat> {
    let end = life.end.filter(|_| hold.from < life.until && life.until < hold.until)?;
    let key = witness.history().keys.get(end)?;
    let by = key.by.and_then(|by| op(witness.history(), by));
    let release = by.filter(|by| matches!(by.kind, OpKind::Release { .. }));
    let is_own = release.and_then(|it| it.grant()).is_some_and(|it| witness.is_of(hold, it));
    let (whose, node) = (&hold.grant.caller, &life.node);
    let text = match (key.change, release) {
        (KeyChange::Deleted, Some(release)) if !is_own => {
            let who = &release.caller;
            format!("{who}'s release deletes the key on {node} by which {whose} has the lock, too.")
        }
        (KeyChange::Expired, _) if life.owner.is_none_or(|owner| !witness.is_actor(owner)) => {
            format!("The key on {node} by which {whose} has the lock is gone: it has expired.")
        }
        _ => return None,
    };
    let ops = [Some(hold.grant.id), release.map(|it| it.id)].into_iter().flatten();
    let keys = [life.born, end].map(Evidence::Key);
    let evidence = ops.map(Evidence::Op).chain(keys).collect();
    Some(Beat::new(Weight::Crux, key.at, text, evidence))
}
