//! The headline: the verdict in one sentence.

use std::collections::BTreeSet;

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::{Cause, Kind, Verdict, Violation};
use crate::explain::hold::op;
use crate::explain::mechanism::counted;
use crate::explain::mechanism::left::kept_out;
use crate::explain::naming::{self, damage};
use crate::explain::witness::Witness;
use crate::history::{Outcome, PROBE};
use crate::plan::WorkloadKind;
use crate::quantity::{count, length, list, moment, rounded, span};

/// The verdict in one sentence.
pub fn headline(witness: &Witness<'_>) -> String {
    let judgement = &witness.finding.judgement;
    match (&judgement.verdict, witness.primary) {
        (Verdict::Unknown(why), _) => format!("Unknown: {why}."),
        (_, Some(violation)) => format!("{}{}.", charge(witness, violation), harm(witness)),
        (_, None) => {
            let counts = &judgement.counts;
            let miss = judgement.nearest_miss.map_or_else(String::new, |miss| {
                let by = rounded(miss.unsigned_abs());
                match miss < 0 {
                    true => format!(
                        "; a write came {by} after another could have been granted the lock, and \
                         nobody was"
                    ),
                    false => format!("; the nearest miss was {by}"),
                }
            });
            let held = match witness.finding.promise.unguarded {
                true => "Nothing is locked, and the resource stayed whole",
                false => "The lock held",
            };
            format!(
                "{held}: {}, {}, {} struck{miss}.",
                count(counts.grants.into(), "grant"),
                count(counts.contended.into(), "contended acquire"),
                count(counts.struck.into(), "fault"),
            )
        }
    }
}

fn charge(witness: &Witness<'_>, violation: &Violation) -> String {
    let who = callers(witness, violation);
    let span = span(violation.to.at.saturating_sub(violation.from.at));
    let first = who.first().map_or("a caller", String::as_str);
    let second = who.get(1).map_or("another", String::as_str);
    let lock = violation.key.as_deref().unwrap_or("the lock");
    let shared = in_shared_mode(witness, violation);
    match violation.kind {
        Kind::BrokenContract => broken_contract(witness, violation),
        Kind::DoubleGrant => format!(
            "{} held {lock} at once for {span}{shared}",
            at_once(&who, witness.finding.promise.holders)
        ),
        Kind::StaleHolder => {
            let (stale, other) = stale(witness).unwrap_or((first, second));
            match who.len() {
                ..=2 => {
                    format!(
                        "{stale} held on past its lease while {other} held {lock}, for \
                         {span}{shared}"
                    )
                }
                _ => format!(
                    "{} held {lock} at once for {span}, {stale} past its lease{shared}",
                    at_once(&who, witness.finding.promise.holders)
                ),
            }
        }
        Kind::Corruption => spoilt(witness, violation, &who),
        Kind::ForeignRelease => {
            let mut changes =
                violation.keys.iter().filter_map(|key| witness.history().keys.get(*key));
            let last = changes.next_back().map(|key| key.change);
            let did = if last == Some(KeyChange::Set) { "overwrote" } else { "removed" };
            let who = thief(witness, violation).unwrap_or(first);
            format!("{who} {did} a lock that was not its own")
        }
        Kind::ForeignExtend => format!(
            "{} prolonged a lock that was not its own",
            thief(witness, violation).unwrap_or(first)
        ),
        Kind::Leak => format!("A key that nobody owned kept {} out", kept_out(witness, first)),
        Kind::RenewalAfterRelease => match witness.release(violation).is_some() {
            true => format!("{first}'s renewal took effect after its release had returned"),
            false => format!("{first}'s renewal set the key again after it had ended"),
        },
        Kind::Stuck => stuck(witness),
        Kind::NeverSettles => format!("{first} never got an answer"),
        Kind::LateLoss => match violation.late {
            Some(late) if !witness.is_notified(violation) => {
                format!("{first} did not learn of its loss, and held on for {}", length(late))
            }
            Some(by) => format!("{first} learned of its loss {}", late(by)),
            None => format!("{first} learned of its loss too late"),
        },
        Kind::LostEarly => format!("{first} lost its key before its lease had ended"),
        Kind::FenceRegress => match witness.regress(violation) {
            Some([(before, larger), (after, smaller)]) => format!(
                "{} got the fence {smaller} though {} had got {larger} before",
                after.caller, before.caller
            ),
            None => format!("{second} got a fence that was not above {first}'s"),
        },
        Kind::NotLinearizable => "No order of the operations is legal for this lock".to_owned(),
        Kind::Overtaken => format!("{second} got the lock before {first}, which stood before it"),
        Kind::OwnCheck => violation.own.as_ref().map_or_else(String::new, naming::own),
    }
}

/// Who damaged the resource, or went on before it might.
fn spoilt(witness: &Witness<'_>, violation: &Violation, who: &[String]) -> String {
    if violation.cause == Some(Cause::OneSegment) {
        let buyer = who.first().map_or("a caller", String::as_str);
        return format!("{buyer} told its buyer that all was sold");
    }
    let blamed = witness.blamed_access(violation);
    let blamed = blamed.map(|index| witness.history().accesses[index].caller.clone());
    let did = match witness.finding.plan.workload.kind {
        WorkloadKind::Latch => "went on",
        _ => "spoilt the resource",
    };
    format!("{} {did}", blamed.unwrap_or_else(|| list(who)))
}

/// The holders of an overlap that share the lock, if there are any.
fn in_shared_mode(witness: &Witness<'_>, violation: &Violation) -> String {
    let ops = violation.ops.iter().filter_map(|id| op(witness.history(), *id));
    let who: BTreeSet<&String> = ops.filter(|op| op.shared).map(|op| &op.caller).collect();
    let who: Vec<String> = who.into_iter().cloned().collect();
    if who.is_empty() { String::new() } else { format!(" ({} in shared mode)", list(&who)) }
}

/// The simultaneous holders. If there are more callers than a violation needs, the text does not
/// claim that all of them held the lock at once.
fn at_once(who: &[String], holders: u32) -> String {
    let needed = holders as usize + 1;
    match who.len() {
        len if len <= needed => list(who),
        _ if needed == 2 => format!("Two or more of {}", list(who)),
        _ => format!("{needed} or more of {}", list(who)),
    }
}

/// The caller whose lock broke a line of the contract, and that line.
fn broken_contract(witness: &Witness<'_>, violation: &Violation) -> String {
    let mut breaches = witness.history().breaches.iter();
    breaches.find(|breach| breach.at == violation.from).map_or_else(
        || "The lock broke its contract".to_owned(),
        |breach| {
            let op = breach.op.and_then(|id| op(witness.history(), id));
            let op = op.filter(|op| op.ret.is_none_or(|ret| ret.instant() >= breach.at));
            let call = op.map_or_else(String::new, |op| {
                format!(" in its {} at {}", op.kind.noun(), moment(op.call.at))
            });
            format!(
                "The lock of {} broke its contract{call}: {}",
                naming::breaker(witness, breach),
                breach.text()
            )
        },
    )
}

/// The holder past its lease in an overlap, and the other one.
fn stale<'a>(witness: &'a Witness<'_>) -> Option<(&'a str, &'a str)> {
    let bare = witness.stale()?;
    let other = witness.actors.iter().find(|grant| grant.id != bare.grant.id)?;
    Some((&bare.grant.caller, &other.caller))
}

/// The caller that changed another's key, by the last change that the violation names.
fn thief<'a>(witness: &Witness<'a>, violation: &Violation) -> Option<&'a str> {
    let keys = &witness.finding.history.keys;
    let by = violation.keys.iter().filter_map(|index| keys.get(*index)?.by).next_back()?;
    witness.caller(by)
}

/// That nobody could get the lock, with the caller whose leftover key was the reason, if one was.
fn stuck(witness: &Witness<'_>) -> String {
    let nobody = "nobody held the lock, and nobody could get it";
    match witness.left().next() {
        Some((life, _)) if counted::is_full(witness) => {
            format!("The key on {} counts holders that are gone: {nobody} any more", life.node)
        }
        Some((life, owner)) if life.until_ms.is_none() => {
            let when = if witness.stays(life) { "any more" } else { "in time" };
            format!(
                "{} left its key on {} with no time to live: {nobody} {when}",
                owner.caller, life.node
            )
        }
        Some((life, owner)) => {
            format!("{} left its key on {}: {nobody} in time", owner.caller, life.node)
        }
        None => {
            let mut probes = witness.history().ops.iter().filter(|op| op.process == PROBE);
            let is_granted = probes.any(|op| matches!(op.outcome, Outcome::Granted { .. }));
            let mut ops = witness.history().ops.iter();
            let was_granted = ops.any(|op| matches!(op.outcome, Outcome::Granted { .. }));
            let when = match (is_granted, was_granted) {
                (true, _) => "in time",
                (false, true) => "before the run ended",
                (false, false) => "at all",
            };
            format!("Nobody held the lock, and nobody could get it {when}")
        }
    }
}

fn late(ns: Nanos) -> String {
    format!("{} late", length(ns))
}

/// What the violation did to the resource, as the end of a sentence.
fn harm(witness: &Witness<'_>) -> String {
    // Only the check knows what its finding did to the resource.
    if witness.primary.is_some_and(|violation| violation.kind == Kind::OwnCheck) {
        return String::new();
    }
    let Some(harm) = witness.of_kind(Kind::Corruption).next() else {
        return spared(witness).unwrap_or_default();
    };
    format!(", and {}", damage(&witness.finding.plan.workload.kind, harm))
}

/// What protected the resource, as the end of a sentence.
fn spared(witness: &Witness<'_>) -> Option<String> {
    let mut accesses = witness.finding.history.accesses.iter();
    if let Some(hold) = witness.idle() {
        return Some(format!("; {} made no access in that time", hold.grant.caller));
    }
    let refused = accesses.find(|access| {
        !access.accepted && access.grant.is_some_and(|grant| witness.is_actor(grant))
    })?;
    let by = refused.fence.map_or_else(String::new, |fence| format!(" by its fence {fence}"));
    let hold = refused.grant.and_then(|grant| witness.hold(grant));
    let mut covered = hold.into_iter().flat_map(|hold| &hold.covered);
    let in_time = covered.any(|(from, to)| *from <= refused.at.at && refused.at.at < *to);
    let late = if in_time { "" } else { "late " };
    Some(format!("; the resource refused {}'s {late}access{by}", refused.caller))
}

/// The callers that a violation is about: those of its grants, otherwise those of its operations.
pub fn callers(witness: &Witness<'_>, violation: &Violation) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for op in violation.ops.iter().filter_map(|id| op(witness.history(), *id)) {
        if !names.contains(&op.caller) {
            names.push(op.caller.clone());
        }
    }
    names
}
