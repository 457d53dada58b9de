//! Keys that block all callers, operations that never return, losses that are reported too late.

use std::collections::BTreeSet;

use lockstorm_platform::time::Stamp;
use lockstorm_platform::trace::Leg;

use crate::check::verdict::Kind;
use crate::explain::endless::made_endless;
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::by_kind::mechanism;
use crate::explain::mechanism::how::How;
use crate::explain::mechanism::left::lost_entry;
use crate::explain::mechanism::state::unfinished;
use crate::explain::story::grant::{early_key, endless, granted};
use crate::explain::story::theft::{comes_back, hands_on};
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::history::{Op, OpId, OpKind, Outcome, PROBE};
use crate::quantity::{count, length, list, moment};
use crate::reading::hold::HoldEnd;

/// The events that the violations of liveness rest on.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut beats = Vec::new();
    let shut = |kind: &Kind| witness.of_kind(*kind).next().is_some();
    if [Kind::Stuck, Kind::Leak].iter().any(shut) {
        beats.extend(witness.left().filter_map(|(life, owner)| left_by(witness, life, owner)));
        let entries = witness.left().filter_map(|(life, _)| lost_entry(witness, life));
        beats.extend(entries.map(|(first, entry)| early_key(witness, entry, first)));
        // A start may have restored the leftover key, on its node or on one that replicated it.
        let owners: BTreeSet<OpId> = witness.left().map(|(_, owner)| owner.id).collect();
        let is_stuck = shut(&Kind::Stuck);
        let is_theirs = |life: &&StoryLife| {
            let is_left = life.owner.is_some_and(|owner| owners.contains(&owner));
            is_left || is_stuck && witness.kept_out_probe(life)
        };
        let lives = witness.lives.iter().filter(is_theirs);
        beats.extend(lives.filter_map(|life| comes_back(witness, life, Weight::Crux)));
        beats.extend(given_back(witness));
        let kept_out = kept_out(witness);
        // The first refused acquire gets its own sentence only if that of all does not cover it.
        let reported: Vec<Evidence> =
            kept_out.iter().flat_map(|b| b.line.evidence.clone()).collect();
        beats.extend(kept_out);
        beats.extend(
            first_refused(witness)
                .filter(|(victim, _)| !reported.contains(victim))
                .map(|(_, beat)| beat),
        );
        beats.extend(left_keys(witness));
        beats
            .extend(witness.left().filter_map(|(life, owner)| endless_since(witness, life, owner)));
    }
    if shut(&Kind::Stuck) {
        beats.extend(probe_refused(witness));
        beats.extend(begun(witness));
    }
    beats.extend(pending(witness));
    beats.extend(late_notices(witness));
    beats
}

/// How a leftover key was created.
fn left_by(witness: &Witness<'_>, life: &StoryLife, owner: &Op) -> Option<Beat> {
    let releases = witness.set_by_release(life);
    if witness.hold(owner.id).is_some() && releases.is_none() {
        return granted(witness, owner);
    }
    if let Some(handed) = hands_on(witness, life) {
        return Some(handed);
    }
    if let Some(release) = releases {
        let term = endless(witness, life);
        let who = &release.caller;
        let text = format!("{who}'s release sets the key on {}{term}.", life.node);
        let evidence = vec![Evidence::Op(release.id), Evidence::Key(life.born)];
        return Some(Beat::new(Weight::Crux, life.from, text, evidence));
    }
    Some(early_key(witness, owner, life))
}

/// The releases that left a key behind.
fn given_back(witness: &Witness<'_>) -> Vec<Beat> {
    let released = witness.left().filter_map(|(_, owner)| {
        let mut releases = witness.reading.releases(owner.id);
        releases.find(|release| release.outcome == Outcome::Released)
    });
    let mut beats: Vec<Beat> = released
        .map(|release| {
            let text = format!("{} releases the lock.", release.caller);
            let evidence = vec![Evidence::Op(release.id)];
            Beat::new(Weight::Crux, release.call.instant(), text, evidence)
        })
        .collect();
    beats.dedup_by_key(|beat| beat.line.at);
    beats
}

/// The acquire that a leak kept out, and the key that it met.
fn first_refused(witness: &Witness<'_>) -> Option<(Evidence, Beat)> {
    let leak = witness.of_kind(Kind::Leak).next()?;
    let (life, owner) = witness.left().find(|(life, _)| leak.keys.contains(&life.born))?;
    let mut ops = leak.ops.iter().filter_map(|id| op(witness.history(), *id));
    let victim = ops.find(|op| op.id != owner.id && op.call.instant() == leak.from)?;
    let mut requests = witness.history().requests.iter();
    if !requests.any(|request| request.op == victim.id && life.is_met_by(request)) {
        return None;
    }
    let (who, whose, node) = (&victim.caller, &owner.caller, &life.node);
    let refused = victim.ret.map(|ret| ret.instant()).filter(|ret| *ret == leak.to);
    let text = match refused {
        Some(ret) if life.until < ret => {
            format!("{who}'s acquire is refused: {whose}'s key was on {node}.")
        }
        Some(_) => format!("{who}'s acquire is refused: {whose}'s key is on {node}."),
        None => format!("{who}'s acquire finds {whose}'s key on {node}, and has to retry."),
    };
    let evidence = vec![Evidence::Op(victim.id), Evidence::Op(owner.id), Evidence::Key(life.born)];
    let beat = Beat::new(Weight::Cause, leak.to, text, evidence);
    Some((Evidence::Op(victim.id), beat))
}

/// The acquires that were refused while a leftover key existed, and the owner of that key.
fn kept_out(witness: &Witness<'_>) -> Option<Beat> {
    witness.left().find_map(|(life, owner)| kept_out_by(witness, life, owner))
}

fn kept_out_by(witness: &Witness<'_>, life: &StoryLife, owner: &Op) -> Option<Beat> {
    let tenure = witness.tenures.iter().find(|tenure| witness.is_of(tenure, owner.id));
    let left = tenure.map_or(life.from, |tenure| tenure.until.max(life.from));
    let mut others = witness.holds.iter().map(|hold| hold.from).filter(|from| *from > left);
    let next = others.next().unwrap_or(witness.history().end);
    let refused: Vec<&Op> = witness
        .history()
        .ops
        .iter()
        .filter(|op| op.kind == OpKind::Acquire && op.process != PROBE && op.id != owner.id)
        .filter(|op| op.is_refused())
        .filter(|op| {
            let done = |ret: Stamp| ret.instant() < life.until.min(next);
            left < op.call.instant() && op.ret.is_some_and(done)
        })
        .filter(|op| came_to(witness, op, life))
        .collect();
    let first = refused.first()?;
    let last = refused.iter().filter_map(|op| op.ret).map(|ret| ret.at).max()?;
    let mut callers: Vec<String> = refused.iter().map(|op| op.caller.clone()).collect();
    callers.sort_unstable();
    callers.dedup();
    let text = format!(
        "{} requests the lock while {}'s key is on {}: {} until {}, all refused.",
        first.caller,
        owner.caller,
        life.node,
        match callers.len() {
            1 => count(refused.len() as u64, "time"),
            _ => format!("{} by {}", count(refused.len() as u64, "acquire"), list(&callers)),
        },
        moment(last),
    );
    let mut evidence = vec![Evidence::Op(owner.id), Evidence::Key(life.born)];
    evidence.extend(refused.iter().map(|op| Evidence::Op(op.id)));
    Some(Beat::new(Weight::Effect, first.call.instant(), text, evidence))
}

/// Whether an acquire reached the node of a key, and received no error there.
fn came_to(witness: &Witness<'_>, op: &Op, life: &StoryLife) -> bool {
    witness.reading.requests_of(op.id).iter().any(|request| {
        let done = request.at(Leg::Applied).is_some();
        request.to == life.node && !request.declined && done
    })
}

/// The keys that still exist at the heal, with their owners.
fn left_keys(witness: &Witness<'_>) -> Vec<Beat> {
    let healed = witness.healed();
    let left = witness.left().filter(|(life, _)| witness.is_there(life, healed));
    let left = left.map(|(life, owner)| {
        let mut evidence = vec![Evidence::Op(owner.id), Evidence::Key(life.born)];
        let end = witness.hold(owner.id).map(|hold| hold.end);
        if let Some(HoldEnd::Released(id) | HoldEnd::Lost(id)) = end {
            evidence.push(Evidence::Op(id));
        }
        let endless = endless(witness, life);
        let term = match life.until_ms {
            None if !endless.is_empty() && witness.stays(life) => {
                format!("{endless}: nothing will ever remove it")
            }
            None => endless.to_owned(),
            Some(_) => ", with time to live left".to_owned(),
        };
        let text = format!("{}'s key is still on {}{term}.", owner.caller, life.node);
        Beat::new(Weight::Crux, healed, text, evidence)
    });
    left.collect()
}

/// What took the time to live from a leftover key.
fn endless_since(witness: &Witness<'_>, life: &StoryLife, owner: &Op) -> Option<Beat> {
    let (by, change) = made_endless(witness, life)?;
    let whose = match by.caller == owner.caller {
        true => "its".to_owned(),
        false => format!("{}'s", owner.caller),
    };
    let (who, noun, node) = (&by.caller, by.kind.noun(), &life.node);
    let text = format!("{who}'s {noun} takes the time to live from {whose} key on {node}.");
    let evidence = vec![Evidence::Op(by.id), Evidence::Op(owner.id), Evidence::Key(change)];
    Some(Beat::new(Weight::Crux, witness.history().keys[change].at, text, evidence))
}

/// The probe's result, in one sentence.
fn probe_refused(witness: &Witness<'_>) -> Option<Beat> {
    let tries: Vec<&Op> = acquires(witness, PROBE).collect();
    let granted = tries.iter().any(|op| matches!(op.outcome, Outcome::Granted { .. }));
    let (first, last) = (tries.first()?, tries.last()?);
    let end = last.ret.map_or(witness.history().end, |ret| ret.instant());
    let text = format!(
        "After the heal the probe tries {} from here to {} and {}.",
        count(tries.len() as u64, "time"),
        moment(end.at),
        if granted { "is let in only then" } else { "is never let in" },
    );
    let evidence = tries.iter().map(|op| Evidence::Op(op.id)).collect();
    Some(Beat::new(Weight::Crux, first.call.instant(), text, evidence))
}

/// The operation that left a state of the lock that lets nobody in, and did not go on.
fn begun(witness: &Witness<'_>) -> Option<Beat> {
    let found = mechanism(witness).filter(|found| found.how == How::StateStays)?;
    let met = found.evidence.iter().find_map(|event| match event {
        Evidence::Request(index) => witness.history().requests.get(*index),
        _ => None,
    })?;
    let begun = unfinished(witness, &met.to)?;
    let evidence = vec![Evidence::Op(begun.by.id), Evidence::Request(begun.request)];
    Some(Beat::new(Weight::Crux, begun.at, begun.line(), evidence))
}

fn acquires<'a>(witness: &'a Witness<'_>, who: &'a str) -> impl Iterator<Item = &'a Op> {
    let ops = witness.history().ops.iter();
    ops.filter(move |op| op.process == who && op.kind == OpKind::Acquire)
}

fn pending(witness: &Witness<'_>) -> Vec<Beat> {
    let named = witness.of_kind(Kind::NeverSettles).flat_map(|v| v.ops.iter());
    let ops = named.filter_map(|id| op(witness.history(), *id));
    ops.map(|op| {
        let text = format!("{} {}; no answer ever comes.", op.caller, requests(op));
        Beat::new(Weight::Crux, op.call.instant(), text, vec![Evidence::Op(op.id)])
    })
    .collect()
}

fn requests(op: &Op) -> &'static str {
    match op.kind {
        OpKind::Acquire => "requests the lock",
        OpKind::Extend { .. } => "requests more time",
        OpKind::Release { .. } => "releases the lock",
        OpKind::Lost { .. } => "learns of its loss",
        OpKind::Read { .. } => "reads the resource",
        OpKind::Write { .. } => "writes the resource",
        OpKind::Append { .. } => "appends to the resource",
        OpKind::Add { .. } => "adds to the resource",
        OpKind::Expire { .. } => "lets the resource's value end",
    }
}

fn late_notices(witness: &Witness<'_>) -> Vec<Beat> {
    let mut beats = Vec::new();
    for violation in witness.of_kind(Kind::LateLoss) {
        let holds = violation.ops.iter().filter_map(|id| witness.hold(*id));
        for hold in holds {
            let (reported, by, mut evidence) = match hold.end {
                HoldEnd::Lost(id) => ("learns of its loss", ",", vec![Evidence::Op(id)]),
                _ => ("never learns of its loss, and holds on", " for", Vec::new()),
            };
            evidence.push(Evidence::Op(hold.grant.id));
            let after = violation.late.and_then(|ran| {
                let lost = witness.lost_at(hold.grant.id)?;
                let late = violation.to.at.saturating_sub(lost.at);
                let again = match ran < late {
                    true => format!(", {} after it ran again", length(ran)),
                    false => String::new(),
                };
                Some(format!("{by} {} after its lease ended{again}", length(late)))
            });
            let text = format!("{} {reported}{}.", hold.grant.caller, after.unwrap_or_default());
            beats.push(Beat::new(Weight::Crux, hold.until, text, evidence));
        }
    }
    beats
}
