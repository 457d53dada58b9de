//! Why a key was there of which nobody was the owner: who left it, and how.

use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::verdict::{Kind, Violation};
use crate::explain::endless::made_endless;
use crate::explain::evidence::Evidence;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::mechanism::stuck;
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, OpKind, Outcome, Request};
use crate::quantity::moment;
use crate::reading::moment::Moment;

/// A key that blocks every caller although none holds the lock.
pub fn left(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let named = |born: usize| violation.keys.contains(&born);
    let left: Vec<_> = witness.left().collect();
    let chosen = left.iter().find(|(life, _)| named(life.born)).or_else(|| left.first());
    let Some((life, owner)) = chosen else {
        return stuck::mechanism(witness, violation);
    };
    let (who, node) = (&owner.caller, &life.node);
    let mut evidence = vec![Evidence::Op(owner.id), Evidence::Key(life.born)];
    let reading = &witness.reading;
    let died = reading.death_after(&owner.process, Moment::from(owner.call));
    let releases: Vec<&Op> = reading
        .ops_of(owner.id)
        .chain(reading.releases(owner.id))
        .filter(|op| matches!(op.kind, OpKind::Release { .. }))
        .collect();
    let done = releases.iter().find(|op| op.outcome == Outcome::Released);
    let (how, text) = match (&owner.outcome, done, releases.last()) {
        _ if let Some((how, text, giver)) = handed_over(witness, life, owner) => {
            evidence.push(Evidence::Op(giver));
            (how, text)
        }
        (_, Some(release), _) => {
            evidence.push(Evidence::Op(release.id));
            if let Some(late) = set_late(witness, life, owner, release) {
                late
            } else {
                let (how, text, more) = given_back(witness, (life, who), release);
                evidence.extend(more);
                (how, text)
            }
        }
        _ if let Some((text, more)) = stuck::brought_back(witness, (life, who), &releases) => {
            evidence.extend(more);
            (How::SetAgain, format!("{text}."))
        }
        (Outcome::Refused { .. }, None, None) => (How::LeftByRefused, {
            sent_again(witness, life, owner)
                .unwrap_or_else(|| format!("{who} was refused, and left its key on {node}."))
        }),
        (Outcome::Unknown, None, Some(release))
            if let Some(late) = set_late(witness, life, owner, release) =>
        {
            evidence.push(Evidence::Op(release.id));
            late
        }
        (_, None, Some(release)) => {
            evidence.push(Evidence::Op(release.id));
            (How::ReleaseFailed, failed(witness, (life, who), release))
        }
        (_, None, None) if died.is_some() => {
            (How::LeftByDead, format!("{who} died and left its key on {node}."))
        }
        (Outcome::Unknown | Outcome::Pending, None, None) => (
            How::LeftByUnknown,
            format!("{who} never learned that its key is on {node}, and left it there."),
        ),
        (_, None, None) => {
            (How::ReleaseFailed, format!("{who} never gave its key on {node} back."))
        }
    };
    let Some((taker, change)) = made_endless(witness, life) else {
        return Some(Mechanism::new(how, text, evidence));
    };
    evidence.extend([Evidence::Op(taker.id), Evidence::Key(change)]);
    let whose = if taker.caller == *who { "its" } else { &format!("{}'s", taker.caller) };
    let (text, noun, at) = (text.trim_end_matches('.'), taker.kind.noun(), moment(taker.call.at));
    let text = format!("{text}; {whose} {noun} at {at} had taken the time to live from that key.");
    Some(Mechanism::new(how, text, evidence))
}

/// How an acquire was refused by its own key: the request that set it had no reply and was sent
/// again.
fn sent_again(witness: &Witness<'_>, life: &StoryLife, owner: &Op) -> Option<String> {
    let requests = witness.reading.requests_of(owner.id);
    let done = |request: &Request| request.at(Leg::Applied).map(Moment::from);
    let is_there = |request: &&&Request| request.to == life.node;
    let mut own = requests.iter().filter(is_there);
    let is_heard = |request: &Request| request.at(Leg::Delivered).is_some();
    let first = own.find(|request| {
        done(request).is_some_and(|at| at.at == life.from.at) && !is_heard(request)
    })?;
    let again = own.find(|request| request.command == first.command && is_heard(request))?;
    let (who, command, node) = (&owner.caller, &first.command, &life.node);
    let (set, met) = (moment(life.from.at), moment(done(again)?.at));
    Some(format!(
        "{who}'s {command} set its key on {node} at {set}, and its reply was lost. {command} was \
         sent again, and at {met} met that key."
    ))
}

/// A key that an acquire set for the first time on its node after its release had returned: it did
/// not come back, it came late.
fn set_late(
    witness: &Witness<'_>,
    life: &StoryLife,
    owner: &Op,
    release: &Op,
) -> Option<(How, String)> {
    let is_late = release.ret.is_some_and(|ret| ret.instant() < life.from);
    let born = &witness.history().keys[life.born];
    let is_own = born.by == Some(owner.id) && witness.reading.is_by_command(born);
    if !is_late || !is_own || was_there(witness, life) {
        return None;
    }
    let how = match owner.outcome {
        Outcome::Granted { .. } => How::SetAgain,
        Outcome::Refused { .. } => How::LeftByRefused,
        _ => How::LeftByUnknown,
    };
    let (who, node, at) = (&owner.caller, &life.node, moment(life.from.at));
    let text =
        format!("{who}'s request set its key on {node} at {at}, after its release had returned.");
    Some((how, text))
}

/// How a release did not free a key, in words.
fn failed(witness: &Witness<'_>, (life, who): (&StoryLife, &str), release: &Op) -> String {
    let node = &life.node;
    let what = match release.outcome {
        Outcome::NotMine => "reported that nothing was its own".to_owned(),
        _ => reply(witness, release),
    };
    let mut sent = witness.reading.requests_of(release.id).iter();
    let to = match sent.clone().next_back() {
        Some(last) if sent.all(|request| request.to != *node) => format!(", sent to {},", last.to),
        _ => String::new(),
    };
    format!("{who}'s release{to} {what}, and its key on {node} stayed.")
}

/// The key that a life took over in place, and the acquire of the same caller that had set it and
/// never had an answer: the later key counts it as an entry.
pub fn lost_entry<'a>(
    witness: &'a Witness<'_>,
    life: &StoryLife,
) -> Option<(&'a StoryLife, &'a Op)> {
    let keys = &witness.history().keys;
    let change = keys.get(life.born).filter(|key| key.change == KeyChange::Changed)?;
    let first = witness.lives.iter().find(|first| first.end == Some(life.born))?;
    let entry = first.owner.and_then(|owner| witness.reading.op(owner))?;
    let is_lost = entry.has_no_answer();
    let is_own = entry.caller == witness.reading.op(change.by?)?.caller;
    (is_lost && is_own).then_some((first, entry))
}

/// A key that counts its entries and that still counts one after the release of its owner: an
/// acquire that never had an answer, or one whose own release has not come.
fn still_counts(
    witness: &Witness<'_>,
    life: &StoryLife,
    release: &Op,
) -> Option<(String, Vec<Evidence>)> {
    let (who, node) = (&release.caller, &life.node);
    let stayed = format!("{who}'s key on {node} stayed after its release");
    if let Some((first, entry)) = lost_entry(witness, life) {
        let at = moment(entry.call.at);
        let text =
            format!("{stayed}: it also counts {who}'s acquire of {at}, which never had an answer.");
        return Some((text, vec![Evidence::Op(entry.id), Evidence::Key(first.born)]));
    }
    let lost = lost_release(witness, life, release)?;
    let at = moment(lost.call.at);
    let text = format!(
        "{stayed}: {who}'s release of another entry, at {at}, had not reached {node} by then."
    );
    Some((text, vec![Evidence::Op(lost.id)]))
}

/// The acquires that a leftover key may count: those of its owner's tenure, and those of earlier
/// keys of the same caller that it took over in place.
pub fn entries(witness: &Witness<'_>, life: &StoryLife) -> Vec<OpId> {
    let (reading, keys) = (&witness.reading, &witness.history().keys);
    let caller = |life: &StoryLife| reading.op(life.owner?).map(|owner| &owner.caller);
    let taken_from = |life: &StoryLife| {
        let is_changed = keys[life.born].change == KeyChange::Changed;
        let mut lives = witness.lives.iter().filter(|_| is_changed);
        lives.find(|earlier| earlier.end == Some(life.born) && caller(earlier) == caller(life))
    };
    let all = std::iter::successors(Some(life), |life| taken_from(life));
    all.filter_map(|life| life.owner).flat_map(|owner| reading.together(owner)).collect()
}

/// A release of another entry of a key that had no answer, and that had changed no key on its node
/// by the time of the last release.
fn lost_release<'a>(witness: &Witness<'a>, life: &StoryLife, release: &Op) -> Option<&'a Op> {
    let entries = entries(witness, life);
    let is_of_another = |op: &Op| match op.kind {
        OpKind::Release { grant } => Some(grant) != release.grant() && entries.contains(&grant),
        _ => false,
    };
    let has_effect = |op: &Op| {
        let mut keys = witness.history().keys.iter();
        let is_by = |key: &Key| key.node == life.node && key.by == Some(op.id);
        keys.any(|key| is_by(key) && key.at < release.call.instant())
    };
    witness.history().ops.iter().rfind(|op| {
        let is_lost = op.has_no_answer();
        is_lost && op.call.seq < release.call.seq && is_of_another(op) && !has_effect(op)
    })
}

/// By whom a key was handed to an acquire that was over, or that never had an answer. What its
/// caller released is another key.
fn handed_over(witness: &Witness<'_>, life: &StoryLife, owner: &Op) -> Option<(How, String, OpId)> {
    let set = witness.history().keys.get(life.born)?;
    let mut lives = witness.reading.lives.lives.iter();
    let is_handed = lives.any(|other| other.born == life.born && other.by == Some(owner.id));
    let giver = set.by.filter(|by| is_handed && *by != owner.id);
    let giver = giver.and_then(|giver| witness.reading.op(giver))?;
    let given = Moment::from(set.at);
    let death = witness.reading.death_after(&owner.process, Moment::from(owner.call));
    let (how, state) = match (&owner.outcome, death.filter(|death| death.at <= given)) {
        (Outcome::Granted { .. }, _) => return None,
        (_, Some(death)) => {
            (How::LeftByDead, format!("whose process had died at {}", moment(death.at.at)))
        }
        (Outcome::Refused { .. }, None) => {
            let ret = owner.ret.map(|ret| moment(ret.at)).unwrap_or_default();
            (How::LeftByRefused, format!("which was refused at {ret}"))
        }
        _ => (How::LeftByUnknown, "which never learned of it".to_owned()),
    };
    let text = format!(
        "{}'s {} at {} handed the key on {} to {}'s acquire of {}, {state}, and nobody gave it \
         back.",
        giver.caller,
        giver.kind.noun(),
        moment(giver.call.at),
        life.node,
        owner.caller,
        moment(owner.call.at),
    );
    Some((how, text, giver.id))
}

/// Why a key was there although its owner's release had returned as released.
fn given_back(
    witness: &Witness<'_>,
    (life, who): (&StoryLife, &str),
    release: &Op,
) -> (How, String, Vec<Evidence>) {
    let node = &life.node;
    if witness.set_by_release(life).is_some_and(|release| release.caller == who) {
        let whom = kept_out(witness, who);
        let text =
            format!("{who}'s release set the key on {node}, and what it set kept {whom} out.");
        return (How::NothingDeleted, text, Vec::new());
    }
    let is_later = release.ret.is_some_and(|ret| life.from > ret.instant());
    let put_back = life.from > release.call.instant() && was_there(witness, life);
    if let Some(text) = left_inside(witness, life, release) {
        return (How::LeftByRefused, text, Vec::new());
    }
    let keys = witness.history().keys.iter();
    let mut deleted = keys.filter(|key| key.by == Some(release.id));
    let deleted = deleted.find(|key| key.change == KeyChange::Deleted);
    if is_later || put_back {
        let text = format!("{who}'s key came back on {node} after its release.");
        return (How::SetAgain, text, Vec::new());
    }
    let mut to_node = witness.reading.requests_of(release.id).iter();
    let came = to_node.any(|request| request.to == *node && request.at(Leg::Applied).is_some());
    if let Some(deleted) = deleted.filter(|key| key.node != *node && !came) {
        let text = format!(
            "{who}'s key was deleted on {}, and stayed on {node}, where that did not come.",
            deleted.node
        );
        return (How::DeleteNeverReached, text, Vec::new());
    }
    let (text, more) = still_counts(witness, life, release).unwrap_or_else(|| {
        let text =
            format!("{who} learned that its lock is released, and its key on {node} stayed.");
        (text, Vec::new())
    });
    (How::NothingDeleted, text, more)
}

/// How a refused acquire left its key inside a tenure: the release is that of another acquire, and
/// they have no common owner value.
fn left_inside(witness: &Witness<'_>, life: &StoryLife, release: &Op) -> Option<String> {
    let owner = witness.reading.op(life.owner?).filter(|owner| owner.is_refused())?;
    let given_back = witness.reading.op(release.grant()?).filter(|grant| grant.id != owner.id)?;
    let value = owner.owner_value();
    let is_apart = value.is_none() || value != given_back.owner_value();
    let text = format!(
        "{}'s acquire at {} was refused, and left its key on {}: the release at {} was of the \
         acquire at {}.",
        owner.caller,
        moment(owner.call.at),
        life.node,
        moment(release.call.at),
        moment(given_back.call.at)
    );
    is_apart.then_some(text)
}

/// Whom a leftover key of a caller kept out: the caller itself, if no leak kept another caller out.
pub fn kept_out(witness: &Witness<'_>, who: &str) -> String {
    let mut callers = witness
        .of_kind(Kind::Leak)
        .filter(|leak| leak.ops.len() > 1)
        .flat_map(|leak| leak.ops.iter().filter_map(|id| witness.caller(*id)))
        .peekable();
    match callers.peek().is_some() && callers.all(|caller| caller == who) {
        true => format!("{who} itself"),
        false => "others".to_owned(),
    }
}

/// Whether an earlier key of the same acquire was on the node of a life.
fn was_there(witness: &Witness<'_>, life: &StoryLife) -> bool {
    let earlier = |other: &StoryLife| {
        other.node == life.node && other.owner == life.owner && other.from < life.from
    };
    witness.lives.iter().any(earlier)
}

/// How the last request of an operation without an outcome was answered, if it was.
fn reply(witness: &Witness<'_>, op: &Op) -> String {
    let error =
        witness.reading.requests_of(op.id).iter().rev().find(|request| request.is_answered());
    match error.and_then(|request| Some((&request.to, request.answer.as_deref()?))) {
        Some((node, error)) => format!("was answered with {error} by {node}"),
        None => witness.answers(op).in_words(),
    }
}
