//! Mechanisms of violations that involve one caller, or one key.

use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::verdict::{Cause, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::at_once;
use crate::explain::mechanism::belief::belief;
use crate::explain::mechanism::ending::{KeyEnding, ending};
use crate::explain::mechanism::handed_on;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::mechanism::overlap;
use crate::explain::mechanism::queue;
use crate::explain::mechanism::quorum::without_quorum;
use crate::explain::mechanism::shortened::shortened;
use crate::explain::mechanism::theft::{kept_by_another, stolen};
use crate::explain::mechanism::unguarded;
use crate::explain::naming::breaker;
use crate::explain::witness::Witness;
use crate::history::{Access, Key, Op, OpId, OpKind, Outcome, Request};
use crate::quantity::{length, moment};
use crate::reading::hold::HoldEnd;
use crate::reading::moment::Moment;

/// The first breach of the contract.
pub fn contract(witness: &Witness<'_>) -> Option<Mechanism> {
    let breach = witness.history().breaches.first()?;
    let evidence = breach.op.into_iter().map(Evidence::Op).collect();
    let text = format!("The lock of {}: {}.", breaker(witness, breach), breach.text());
    Some(Mechanism::new(How::ContractBroken, text, evidence))
}

/// A resource that was corrupted without two simultaneous holders.
pub fn corruption(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let index = match violation.cause? {
        Cause::InFlight | Cause::Caller => witness.blamed_access(violation)?,
        Cause::Again => return again(witness, violation),
        Cause::Overlap | Cause::Test | Cause::Endless | Cause::OneSegment => {
            return unguarded::mechanism(witness, violation);
        }
        Cause::None => return None,
    };
    let access = witness.history().accesses.get(index)?;
    let evidence = vec![Evidence::Access(index)];
    let who = &access.caller;
    match violation.cause? {
        Cause::InFlight => {
            let at = moment(access.at.at);
            let text = format!("A write of {who}'s arrived at {at}, after its hold had ended.");
            Some(Mechanism::new(How::WriteInFlight, text, evidence))
        }
        Cause::Caller => Some(without_grant(witness, access, evidence)),
        _ => None,
    }
}

/// A caller that worked although it was refused, or after its hold had ended.
fn without_grant(witness: &Witness<'_>, access: &Access, own: Vec<Evidence>) -> Mechanism {
    let (who, at) = (&access.caller, moment(access.at.at));
    let acquire = access.grant.and_then(|grant| op(witness.history(), grant));
    let evidence = own.into_iter().chain(acquire.map(|op| Evidence::Op(op.id))).collect();
    let grant = access.grant.filter(|grant| witness.reading.is_granted(*grant));
    let Some(tenure) = grant.and_then(|grant| witness.reading.tenure(grant)) else {
        let text = format!("{who} worked at {at} without a grant: the caller is wrong here.");
        return Mechanism::new(How::NoGrant, text, evidence);
    };
    let over = moment(tenure.whole.end.at);
    let why = match tenure.whole.ended {
        HoldEnd::Lost(_) => format!("it had been notified of the loss at {over}"),
        _ => format!("its hold had ended at {over}"),
    };
    let text = format!("{who} worked on at {at}, though {why}: the caller is wrong here.");
    Mechanism::new(How::WorkedOn, text, evidence)
}

/// A second run of a period: something had taken the key of the first run away, or it had ended as
/// it was to end.
fn again(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let access = |index: &usize| witness.history().accesses.get(*index);
    let first = access(violation.accesses.first()?)?;
    let second = access(violation.accesses.last()?)?;
    let (one, other) = (first.grant?, second.grant?);
    let tenure = |grant| witness.tenures.iter().find(|hold| witness.is_of(hold, grant));
    let found = overlap::between(witness, tenure(one)?, tenure(other)?);
    let ended = |how| matches!(how, How::DeletedByOwner | How::Overworked | How::Unclear);
    let blamed = found.filter(|found| !found.how.may_breach().is_empty() && !ended(found.how));
    if let Some(found) = blamed {
        return Some(found);
    }
    let granted = |id| op(witness.history(), id)?.ret.map(|ret| moment(ret.at));
    let text = format!(
        "{} was granted the lock at {} for a period for which {} had been granted it at {}: the \
         key of the first run was gone.",
        second.caller,
        granted(other)?,
        first.caller,
        granted(one)?
    );
    let evidence = vec![Evidence::Op(one), Evidence::Op(other)];
    Some(Mechanism::new(How::RanAgain, text, evidence))
}

/// A command that changed another caller's key.
pub fn foreign(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let history = witness.history();
    let own = || {
        violation.keys.iter().rev().filter(|index| {
            let by = history.keys.get(**index).and_then(|key| key.by);
            by.is_some_and(|by| violation.ops.contains(&by))
                && history.keys[**index].at >= violation.from
        })
    };
    // A replica repeats the changes of its master, so a node that received the request comes first.
    let was_requested = |index: &&usize| {
        let key = &history.keys[**index];
        let mut requests = key.by.into_iter().flat_map(|by| witness.reading.requests_of(by));
        requests.any(|request| request.to == key.node)
    };
    let index = own().find(was_requested).or_else(|| own().next())?;
    let thief = history.keys[*index].by?;
    let victim = violation.ops.iter().find(|id| **id != thief)?;
    let key = &history.keys[*index];
    let met = witness.lives.iter().rfind(|life| life.node == key.node && life.from < key.at);
    let handed_on = met.and_then(|life| handed_on::mechanism(witness, life));
    handed_on.or_else(|| stolen(witness, *index, *victim))
}

/// A renewal that took effect after its release.
pub fn renewal(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let mut ops = violation.ops.iter().filter_map(|id| op(witness.history(), *id));
    let extend = ops.find(|op| matches!(op.kind, OpKind::Extend { .. }))?;
    let mut evidence = vec![Evidence::Op(extend.id)];
    evidence.extend(violation.keys.iter().map(|index| Evidence::Key(*index)));
    let who = &extend.caller;
    let OpKind::Extend { grant, .. } = extend.kind else { return None };
    let done = |release: &Op| Some(release.ret?.instant());
    let given_back = witness.reading.releases(grant).filter_map(done).min();
    let text = match given_back.filter(|back| *back < extend.call.instant()) {
        Some(back) => format!(
            "{who}'s renewal at {} began after its release had returned at {}.",
            moment(extend.call.at),
            moment(back.at)
        ),
        None if witness.release(violation).is_none() => {
            let at = moment(extend.call.at);
            format!("{who}'s renewal at {at} set the key again after it had ended.")
        }
        None => format!(
            "{who}'s renewal at {} was under way when its release returned, and was applied \
             afterwards.",
            moment(extend.call.at)
        ),
    };
    Some(Mechanism::new(How::RenewalLate, text, evidence))
}

/// An operation that never returned.
pub fn unanswered(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let waits = violation.ops.iter().find_map(|id| op(witness.history(), *id))?;
    let mut requests = witness.history().requests.iter().enumerate();
    let last = requests.rfind(|(_, request)| request.op == waits.id);
    let (who, noun) = (&waits.caller, waits.kind.noun());
    let evidence = vec![Evidence::Op(waits.id)];
    let Some((index, request)) = last else {
        let text = format!("{who}'s {noun} sent nothing.");
        return Some(Mechanism::new(How::NoAnswer, text, evidence));
    };
    let evidence = evidence.into_iter().chain([Evidence::Request(index)]).collect();
    let (command, node) = (&request.command, &request.to);
    if request.declined {
        let what = request.answer.as_deref().unwrap_or("an error");
        let text =
            format!("{node} answered {who}'s {command} with {what}, and its {noun} ended there.");
        let how = if what == "NOSCRIPT" { How::ScriptUnknown } else { How::Rejected };
        return Some(Mechanism::new(how, text, evidence));
    }
    if request.is_answered() {
        let place =
            if queue::never_joined(witness, waits) { ", and never joined the queue" } else { "" };
        let text = format!(
            "{who}'s {noun} did not end after the reply of {node} to its {command}{place}."
        );
        return Some(Mechanism::new(How::NoAnswer, text, evidence));
    }
    let text = format!("{who}'s {command} to {node} was never answered.");
    Some(Mechanism::new(How::NoAnswer, text, evidence))
}

/// A holder that was notified too late, or never.
pub fn late(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let grant = violation.ops.iter().find_map(|id| op(witness.history(), *id)?.grant())?;
    let tenure = witness.tenures.iter().find(|hold| witness.is_of(hold, grant))?;
    let found = belief(witness, tenure, (Moment::default(), violation.to.into()));
    let mut halts = witness.reading.halts(&tenure.grant.process);
    let (lost, from) = (witness.lost_at(grant)?, Moment::from(violation.to));
    let ran = !halts.any(|halt| halt.from < from && lost < halt.to);
    let explains = match found.how {
        How::Overworked | How::DeadlineTooLate | How::ShortenedByOwner | How::Unclear => false,
        // A halt that ended before the loss explains why the lease ran out, not the late notice.
        How::StoodStill => !ran,
        _ => true,
    };
    if explains {
        return Some(found);
    }
    let who = &tenure.grant.caller;
    let text = format!("{who} ran, and did not learn that its lease was over.");
    Some(Mechanism::new(How::NotNotified, text, vec![Evidence::Op(grant)]))
}

/// A key that was lost before its lease expired.
pub fn lost(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let grant = violation.ops.iter().find_map(|id| op(witness.history(), *id)?.grant())?;
    let tenure = witness.tenures.iter().find(|hold| witness.is_of(hold, grant))?;
    if let Some(found) = without_quorum(witness, tenure) {
        return Some(found);
    }
    let index = violation.keys.first()?;
    let life = witness.lives.iter().find(|life| life.end == Some(*index))?;
    match ending(witness, life, life.owner?, Moment::from(life.until)) {
        KeyEnding::Taken(mechanism) => Some(mechanism),
        KeyEnding::RanOut => {
            Some(belief(witness, tenure, (witness.gone(life), violation.from.into())))
        }
        KeyEnding::There => None,
    }
}

/// Why no order is legal. A group was granted without one of its keys, or two turns that exclude
/// each other are explained like two simultaneous holders. Otherwise a key was lost, an operation
/// changed the wrong key or returned a false result, or a lease had expired.
pub fn order(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    if let Some(found) = overlap::some_part(witness) {
        return Some(found);
    }
    let (history, to) = (witness.history(), Moment::from(violation.to));
    let ops = || violation.ops.iter().filter_map(|id| op(history, *id));
    if let Some(found) = ops().find_map(|op| of_newer(witness, op)) {
        return Some(found);
    }
    let lied = ops().find_map(|op| kept_by_another(witness, op));
    if let Some(found) = lied.and_then(|(index, victim)| stolen(witness, index, victim)) {
        return Some(found);
    }
    // On one node, a release that took effect and denied it leaves no legal order by itself.
    let given_back = || ops().filter_map(Op::grant).flat_map(|grant| witness.reading.ops_of(grant));
    let mut alone = given_back().filter(|_| witness.quorum() == 1);
    if let Some(found) = alone.find_map(|op| denied(witness, op)) {
        return Some(found);
    }
    let turn = |grant: OpId| witness.tenures.iter().find(|hold| witness.is_of(hold, grant));
    if let [one, other] = &violation.turns[..]
        && let (Some(one), Some(other)) = (turn(one.grant), turn(other.grant))
    {
        let (first, second) = if one.from <= other.from { (one, other) } else { (other, one) };
        if let Some(found) = overlap::between(witness, first, second) {
            return Some(found);
        }
    }
    // A release that found no key of its own comes first: its owner had relied on a lost key.
    let vain = ops().filter(|op| op.outcome == Outcome::NotMine);
    let grants = vain.filter_map(Op::grant).chain(ops().filter_map(Op::grant));
    for grant in grants {
        let lives = witness
            .lives
            .iter()
            .filter(|life| life.owner.is_some_and(|owner| witness.reading.are_one(owner, grant)));
        for life in lives.filter(|life| life.until < violation.to) {
            if let KeyEnding::Taken(found) = ending(witness, life, life.owner?, to)
                && found.how != How::DeletedByOwner
            {
                return Some(found);
            }
        }
    }
    if let Some(found) = ops().find_map(|op| said_kept(witness, op)) {
        return Some(found);
    }
    let mut tenures = witness
        .tenures
        .iter()
        .filter(|hold| ops().any(|op| op.grant().is_some_and(|grant| witness.is_of(hold, grant))));
    let Some(past) = tenures.find(|hold| hold.bare_from().is_some()) else {
        let known = undone(witness, violation.ops.iter().copied());
        let known = known.or_else(|| ops().find_map(|op| denied(witness, op)));
        let known = known.or_else(|| ops().find_map(|op| of_older(witness, op)));
        let mut turns = ops().filter_map(|op| turn(op.grant()?));
        let known =
            known.or_else(|| turns.clone().find_map(|hold| at_once::mechanism(witness, hold)));
        return known.or_else(|| turns.find_map(|hold| shortened(witness, hold, to)));
    };
    Some(belief(witness, past, (Moment::default(), past.until.into())))
}

/// An extend that was kept by the key of another acquire of its caller.
fn of_newer(witness: &Witness<'_>, extend: &Op) -> Option<Mechanism> {
    let OpKind::Extend { .. } = extend.kind else { return None };
    let mut keys = witness.history().keys.iter().enumerate();
    let (index, key) =
        keys.find(|(_, key)| key.by == Some(extend.id) && key.change == KeyChange::Extended)?;
    let is_there = |life: &&StoryLife| life.node == key.node && life.born < index;
    let life = witness.lives.iter().filter(is_there).max_by_key(|life| life.born)?;
    taken_for_own(witness, extend, index, another(witness, life, extend)?)
}

/// A key of an acquire that another release of its caller deleted, as if it were that of a later
/// acquire, or that a later acquire of its caller deleted within its lease.
fn of_older(witness: &Witness<'_>, acquire: &Op) -> Option<Mechanism> {
    let hold = witness.tenures.iter().find(|hold| witness.is_of(hold, acquire.id));
    let lasts = |at| Some(hold?.known_lease(&witness.reading, at)?.saturating_sub(at.at));
    let deleting = |life: &&StoryLife| {
        let end = witness.history().keys.get(life.end?)?;
        let by = op(witness.history(), end.by?)?;
        let left = lasts(end.at).filter(|left| by.kind == OpKind::Acquire && *left > 0);
        let is_early = left.is_some() || matches!(by.kind, OpKind::Release { .. });
        let is_own = life.owner == Some(acquire.id) && is_early;
        another(witness, life, by).filter(|_| is_own).map(|_| (by, left))
    };
    let mut lives = witness.lives.iter();
    let (life, (by, left)) = lives.find_map(|life| Some((life, deleting(&life)?)))?;
    let why = match left {
        Some(left) => format!("{} before its lease was over", length(left)),
        None => "as if it were that of a later one".to_owned(),
    };
    let text = format!(
        "{}'s {} at {} deleted the key of its acquire at {} on {}, {why}.",
        by.caller,
        by.kind.noun(),
        moment(by.call.at),
        moment(acquire.call.at),
        life.node
    );
    let evidence = vec![Evidence::Op(acquire.id), Evidence::Op(by.id), Evidence::Key(life.born)];
    Some(Mechanism::new(How::DeletedByOwner, text, evidence))
}

/// The acquire that owns a key, if it is another one of the caller of an operation.
fn another<'a>(witness: &Witness<'a>, life: &StoryLife, by: &Op) -> Option<&'a Op> {
    let (grant, owner) = (by.grant()?, op(witness.history(), life.owner?)?);
    let is_other = owner.caller == by.caller && !witness.reading.are_one(owner.id, grant);
    is_other.then_some(owner)
}

/// The mechanism of an extend that prolonged the key of another acquire of its caller.
fn taken_for_own(witness: &Witness<'_>, by: &Op, index: usize, other: &Op) -> Option<Mechanism> {
    let own = op(witness.history(), by.grant()?)?;
    let key = &witness.history().keys[index];
    let text = format!(
        "{}'s {} at {} extended the key of its acquire at {} on {}, as if it were that of its \
         acquire at {}.",
        by.caller,
        by.kind.noun(),
        moment(by.call.at),
        moment(other.call.at),
        key.node,
        moment(own.call.at)
    );
    let evidence = [other.id, own.id, by.id].map(Evidence::Op);
    let evidence = evidence.into_iter().chain([Evidence::Key(index)]).collect();
    Some(Mechanism::new(How::SameOwner, text, evidence))
}

/// An extend that returned as kept and sent nothing.
fn said_kept(witness: &Witness<'_>, extend: &Op) -> Option<Mechanism> {
    let is_kept = matches!(extend.kind, OpKind::Extend { .. })
        && matches!(extend.outcome, Outcome::Kept { .. });
    let history = witness.history();
    let sent = !witness.reading.requests_of(extend.id).is_empty();
    let is_empty = is_kept && !history.requests.is_empty() && !sent;
    let text = format!(
        "{} learned at {} that its lease is extended, and nothing was sent for that.",
        extend.caller,
        moment(extend.ret?.at)
    );
    is_empty.then(|| Mechanism::new(How::RenewalLied, text, vec![Evidence::Op(extend.id)]))
}

/// A release that deleted its key and returned as if nothing had been its own.
fn denied(witness: &Witness<'_>, release: &Op) -> Option<Mechanism> {
    let OpKind::Release { grant } = release.kind else { return None };
    let deletes = |key: &Key| key.by == Some(release.id) && key.change == KeyChange::Deleted;
    let is_deleted = |life: &&StoryLife| {
        let end = life.end.and_then(|end| witness.history().keys.get(end));
        let is_own = life.owner.is_some_and(|owner| witness.reading.are_one(owner, grant));
        is_own && end.is_some_and(deletes)
    };
    let mut lives = witness.lives.iter().filter(|_| release.outcome == Outcome::NotMine);
    let life = lives.find(is_deleted)?;
    let (who, at) = (&release.caller, moment(release.call.at));
    let text = match repeated(witness, release, life) {
        Some(command) => format!(
            "{who}'s release at {at} deleted its key, and got no answer to its {command}: it sent \
             that again, and reported that nothing was its own."
        ),
        None => format!(
            "{who}'s release at {at} deleted its key, and reported that nothing was its own."
        ),
    };
    let evidence = vec![Evidence::Op(release.id), Evidence::Key(life.end?)];
    Some(Mechanism::new(How::ReleaseFailed, text, evidence))
}

/// The command of an operation that ended a key, if its reply never came and it was sent again.
fn repeated<'a>(witness: &Witness<'a>, by: &Op, life: &StoryLife) -> Option<&'a str> {
    let all = witness.reading.requests_of(by.id).iter().copied();
    let mut sent = all.filter(|request| request.to == life.node);
    let is_it = |request: &&Request| {
        request.at(Leg::Applied).is_some_and(|at| at >= life.until)
            && request.at(Leg::Delivered).is_none()
    };
    let first = sent.find(is_it)?;
    sent.any(|again| again.command == first.command).then_some(&first.command)
}

/// A release that returned as released and did not change the lock's key.
fn undone(witness: &Witness<'_>, mut ops: impl Iterator<Item = OpId>) -> Option<Mechanism> {
    let history = witness.history();
    let release = ops.find_map(|id| {
        let release = op(history, id)?;
        let is_release = matches!(release.kind, OpKind::Release { .. });
        let lock_key = witness.reading.lock_key;
        let has_effect = history.keys.iter().any(|key| key.by == Some(id) && key.key == lock_key);
        let lied = is_release && release.outcome == Outcome::Released && !has_effect;
        lied.then_some(release)
    })?;
    let text = format!(
        "{}'s release at {} returned as done, and left the lock's key as it was.",
        release.caller,
        moment(release.call.at)
    );
    Some(Mechanism::new(How::NothingDeleted, text, vec![Evidence::Op(release.id)]))
}
