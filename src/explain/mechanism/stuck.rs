//! Why nobody could get the lock after the heal, if no caller's key is the reason.

use std::collections::BTreeSet;

use lockstorm_platform::time::{Instant, SECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::ending::last_set;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::mechanism::several::left_by_refused;
use crate::explain::mechanism::state::state_stays;
use crate::explain::witness::Witness;
use crate::history::{History, Op, OpId, OpKind, Outcome, PROBE, PROBE_MARGIN, Request, Seen};
use crate::ledger::node::SERVES_NOBODY;
use crate::plan::TopologyKind;
use crate::quantity::{count, length, list, moment};
use crate::reading::leaders;
use crate::reading::leaders::Leaders;
use crate::reading::moment::Moment;

/// Why no caller could get the lock although no caller's key blocks it; only for [`Kind::Stuck`].
pub fn mechanism(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    if violation.kind != Kind::Stuck {
        return None;
    }
    let quorum = witness.quorum();
    let gaps = leaders::leaderless(&witness.reading, quorum);
    // A gap that ended before the violation did is no reason: a master was back in time.
    let gap = gaps.iter().rfind(|(_, to)| *to >= Moment::from(violation.to));
    let Some((from, _)) = gap else {
        let served = nobody_served(witness, violation);
        return served
            .or_else(|| left_late(witness))
            .or_else(|| stayed_late(witness))
            .or_else(|| own_key(witness))
            .or_else(|| left_by_refused(witness))
            .or_else(|| rejected(witness))
            .or_else(|| unreplicated(witness))
            .or_else(|| never_back(witness))
            .or_else(|| unreached(witness))
            .or_else(|| state_stays(witness))
            .or_else(|| out_of_time(witness))
            .or_else(|| too_short(witness))
            .or_else(|| short_of_votes(witness))
            .or_else(|| long_unreached(witness));
    };
    let since = moment(from.at);
    let tilted = witness.history().sightings.iter();
    let tilted = tilted.filter(|seen| seen.what == Seen::Tilted && Moment::from(seen.at) <= *from);
    let tilted: BTreeSet<&str> = tilted.map(|seen| seen.by.as_str()).collect();
    let text = match quorum {
        1 if !tilted.is_empty() => {
            let names: Vec<String> = tilted.into_iter().map(str::to_owned).collect();
            format!(
                "No node has led since {since}, and {} acted on nothing: TILT, since clocks had \
                 jumped.",
                list(&names)
            )
        }
        1 if witness.finding.plan.topology.kind == TopologyKind::Cluster => {
            format!("No node has led the slot of the lock since {since}.")
        }
        1 => format!("No node has led since {since}."),
        _ => format!("Fewer than the {quorum} masters of a quorum have led since {since}."),
    };
    Some(Mechanism::new(How::NoLeader, text, Vec::new()))
}

/// A dead caller's key that blocked the probe for too long, and then expired.
fn left_late(witness: &Witness<'_>) -> Option<Mechanism> {
    let (history, healed) = (witness.history(), witness.healed());
    let late = witness.lives.iter().filter_map(|life| {
        let owner = op(history, life.owner?)?;
        let died = witness.reading.death_after(&owner.process, Moment::from(owner.call))?;
        // If a release had returned before, the death of the caller did not leave the key.
        let mut releases = witness.reading.releases(owner.id).filter_map(|release| release.ret);
        if releases.any(|ret| Moment::from(ret) < died.at) {
            return None;
        }
        let gone = witness.gone(life);
        let stayed = died.at < gone && witness.is_there(life, healed);
        (stayed && kept_out_too_long(witness, life, gone)).then_some((life, owner, gone))
    });
    let (life, owner, gone) = late.max_by_key(|(.., gone)| *gone)?;
    let until = until(witness, life, gone);
    if let Some(found) = stayed_again(witness, (life, &owner.caller), &until) {
        return Some(found);
    }
    let text = format!("{} died, and its key stayed on {} {until}.", owner.caller, life.node);
    let evidence = vec![Evidence::Op(owner.id), Evidence::Key(life.born)];
    Some(Mechanism::new(How::LeftByDead, text, evidence))
}

/// A key that blocked the probe for too long, and then expired, since its owner's release failed,
/// or since its owner, who lost its grant, called none.
fn stayed_late(witness: &Witness<'_>) -> Option<Mechanism> {
    let (history, healed) = (witness.history(), witness.healed());
    let late = witness.lives.iter().filter_map(|life| {
        let owner = op(history, life.owner?).filter(|owner| owner.process != PROBE)?;
        let release = witness.reading.releases(owner.id).last();
        let gone = witness.gone(life);
        let failed = match release {
            Some(release) => release.outcome != Outcome::Released,
            None => matches!(owner.outcome, Outcome::Granted { .. }),
        };
        let stayed = failed && witness.is_there(life, healed);
        (stayed && kept_out_too_long(witness, life, gone)).then_some((life, owner, release, gone))
    });
    let (life, owner, release, gone) = late.max_by_key(|(.., gone)| *gone)?;
    let (who, node, until) = (&owner.caller, &life.node, until(witness, life, gone));
    if let Some(found) = stayed_again(witness, (life, who), &until) {
        return Some(found);
    }
    let text = match release {
        Some(release) => {
            let at = moment(release.call.at);
            format!("{who}'s release at {at} failed, and its key stayed on {node} {until}.")
        }
        None => format!("{who} never released its grant, and its key stayed on {node} {until}."),
    };
    let evidence = vec![Evidence::Op(release.unwrap_or(owner).id), Evidence::Key(life.born)];
    Some(Mechanism::new(How::ReleaseFailed, text, evidence))
}

/// Whether a key that is gone from a moment on is why the probe was let in too late: it kept the
/// probe out until the probe's time was over, or until the try before the one that was granted.
/// Otherwise something else kept the probe out afterwards, as a node that rejects writes.
fn kept_out_too_long(witness: &Witness<'_>, life: &StoryLife, gone: Moment) -> bool {
    let Some(stuck) = witness.of_kind(Kind::Stuck).next() else { return false };
    let wait = witness.finding.plan.longest_ttl().saturating_add(PROBE_MARGIN);
    let is_over = stuck.from.at.saturating_add(wait) <= gone.at;
    let mut later = probe_acquires(witness.history()).filter(|op| gone <= op.call.into());
    let is_last = stuck.from.at <= gone.at && later.all(|op| op.token().is_some());
    witness.kept_out_probe(life) && (is_over || is_last)
}

/// Until when a key stayed, at most to the end of the run.
fn until(witness: &Witness<'_>, life: &StoryLife, gone: Moment) -> String {
    let last = gone.at.min(witness.history().end.at);
    format!("until {}{}", moment(last), held_back(witness, life, gone))
}

/// A key that had been removed, and stayed after a start or a resync brought it back.
fn stayed_again(
    witness: &Witness<'_>,
    (life, who): (&StoryLife, &str),
    until: &str,
) -> Option<Mechanism> {
    let releases: Vec<&Op> =
        life.owner.map_or(Vec::new(), |owner| witness.reading.releases(owner).collect());
    let deleted = brought_back(witness, (life, who), &releases);
    let (text, evidence) = deleted.map(|(text, more)| (text, more.to_vec())).or_else(|| {
        let first = witness.came_back(life)?;
        let end = first.end?;
        let key = &witness.history().keys[end];
        let was = match key.change {
            KeyChange::Deleted => "removed",
            KeyChange::Evicted => "evicted",
            KeyChange::Expired => "over",
            _ => return None,
        };
        // A node may record an expiry later than it happens, so the expiry itself is shown.
        let gone = if was == "over" { witness.gone(first).at } else { key.at.at };
        let (node, gone, came) = (&life.node, moment(gone), came(witness, life));
        let text = format!("{who}'s key on {node} was {was} at {gone}, and {came}");
        Some((text, vec![Evidence::Key(end), Evidence::Key(life.born)]))
    })?;
    let text = format!("{text}, where it stayed {until}.");
    Some(Mechanism::new(How::SetAgain, text, evidence))
}

/// How a key came back to its node, in words.
fn came(witness: &Witness<'_>, life: &StoryLife) -> String {
    let (node, back) = (&life.node, moment(life.from.at));
    match witness.put_back(life) {
        Some(_) => format!("a start of {node} put the key back at {back}"),
        None => format!("the key came to {node} again at {back}"),
    }
}

/// A key that one of these releases deleted, and that came back without a command.
pub fn brought_back(
    witness: &Witness<'_>,
    (life, who): (&StoryLife, &str),
    releases: &[&Op],
) -> Option<(String, [Evidence; 2])> {
    let end = witness.came_back(life)?.end?;
    let key = &witness.history().keys[end];
    let release = releases.iter().find(|release| key.by == Some(release.id))?;
    let (node, gone, came) = (&life.node, moment(key.at.at), came(witness, life));
    let text = format!("{who}'s release deleted its key on {node} at {gone}, and {came}");
    let is_deleted = key.change == KeyChange::Deleted;
    is_deleted.then_some((text, [Evidence::Key(end), Evidence::Op(release.id)]))
}

/// A clause for a key that outlived its time to live because the clock of its node lost time.
fn held_back(witness: &Witness<'_>, life: &StoryLife, gone: Moment) -> String {
    let set = last_set(witness, life).filter(|set| set.on == life.node);
    let due = set.map(|set| set.at.saturating_add(set.lasts));
    match due.map(|due| gone.at.min(witness.history().end.at).saturating_sub(due)) {
        Some(late) if late > SECOND => {
            let (late, node) = (length(late), &life.node);
            format!(", {late} longer than it was to live: {node}'s clock lost that time meanwhile")
        }
        _ => String::new(),
    }
}

/// A key of an earlier acquire of the probe that returned as unknown: its last acquire met it.
fn own_key(witness: &Witness<'_>) -> Option<Mechanism> {
    let history = witness.history();
    let last = witness.last_refused_to_probe()?;
    let met = |life: &&StoryLife| {
        witness.reading.requests_of(last.id).iter().any(|request| life.is_met_by(request))
    };
    let mut lives = witness.lives.iter().filter(met);
    let (life, first) = lives.find_map(|life| {
        let owner =
            op(history, life.owner?).filter(|op| op.process == PROBE && op.id != last.id)?;
        Some((life, owner))
    })?;
    let text = format!(
        "The probe's own acquire at {} had set the key on {} and returned as unknown: its acquire \
         of {} met that key.",
        moment(first.call.at),
        life.node,
        moment(last.call.at)
    );
    let evidence = vec![Evidence::Op(first.id), Evidence::Key(life.born), Evidence::Op(last.id)];
    let is_unknown = first.outcome == Outcome::Unknown;
    is_unknown.then(|| Mechanism::new(How::LeftByUnknown, text, evidence))
}

/// A node that replied with an error to the last operation of the probe that got a reply.
fn rejected(witness: &Witness<'_>) -> Option<Mechanism> {
    let history = witness.history();
    let probes = |id: OpId| op(history, id).is_some_and(|op| op.process == PROBE);
    let requests = history.requests.iter().enumerate();
    let mut requests = requests.filter(|(_, request)| probes(request.op));
    let answered = requests.clone().rfind(|(_, request)| request.is_answered())?.1.op;
    let is_error = |request: &Request| request.op == answered && request.answer.is_some();
    let (index, last) = requests.rfind(|(_, request)| is_error(request))?;
    let what = last.answer.as_deref()?;
    let alike = history.requests.iter().filter(|request| {
        probes(request.op) && request.to == last.to && request.answer.as_deref() == Some(what)
    });
    let often = count(alike.count() as u64, "time");
    let text = format!("{} answered the probe's requests with {what}, {often}.", last.to);
    Some(Mechanism::new(How::Rejected, text, vec![Evidence::Request(index)]))
}

/// A master that reported for too long that too few replicas had what callers had written.
fn unreplicated(witness: &Witness<'_>) -> Option<Mechanism> {
    let mut sightings = witness.history().sightings.iter();
    let last = sightings.rfind(|seen| seen.what == Seen::Unreplicated)?;
    if last.at.at <= witness.healed().at.saturating_add(PROBE_MARGIN) {
        return None;
    }
    let text = format!(
        "{} replied to callers until {} that too few replicas had what they had written.",
        last.by,
        moment(last.at.at)
    );
    Some(Mechanism::new(How::NoReplica, text, Vec::new()))
}

/// An operation of a living process that did not return for as long as the probe has to wait.
fn never_back(witness: &Witness<'_>) -> Option<Mechanism> {
    let end = witness.history().end;
    let lives = |op: &&Op| {
        let is_long = op.call.at.saturating_add(PROBE_MARGIN) <= end.at;
        is_long && witness.reading.death_after(&op.process, Moment::from(op.call)).is_none()
    };
    let ops = || witness.history().ops.iter().filter(|op| op.ret.is_none());
    // The probe's own operation explains its failure; that of another caller may be unrelated.
    let op = ops().filter(|op| op.process == PROBE).find(lives).or_else(|| ops().find(lives))?;
    let text =
        format!("{}'s {} at {} never returned.", op.caller, op.kind.noun(), moment(op.call.at));
    Some(Mechanism::new(How::NoAnswer, text, vec![Evidence::Op(op.id)]))
}

/// The probe's acquires.
fn probe_acquires(history: &History) -> impl DoubleEndedIterator<Item = &Op> + Clone {
    history.ops.iter().filter(|op| op.process == PROBE && op.kind == OpKind::Acquire)
}

/// Whether a request of an operation was answered before the operation returned.
fn is_answered_in_time(witness: &Witness<'_>, op: &Op) -> bool {
    witness.reading.requests_of(op.id).iter().any(|request| is_in_time(request, op))
}

/// Whether the reply to a request came before its operation returned.
fn is_in_time(request: &Request, op: &Op) -> bool {
    let in_time = |at: Instant| op.ret.is_none_or(|ret| at <= ret.instant());
    request.at(Leg::Delivered).is_some_and(in_time)
}

/// The probe's last acquire that had as much time as a reply may take. What the end of the run cut
/// off before says nothing, unless there is no other.
fn last_in_time<'a>(witness: &Witness<'a>) -> Option<&'a Op> {
    let history = witness.history();
    let had_time = |op: &&Op| {
        let timeout = witness.finding.timeout;
        op.ret.is_some() || op.call.at.saturating_add(timeout) <= history.end.at
    };
    let mut all = probe_acquires(history);
    all.clone().rfind(had_time).or_else(|| all.next_back())
}

/// A probe whose last acquire received no reply in time, or sent nothing.
fn unreached(witness: &Witness<'_>) -> Option<Mechanism> {
    let history = witness.history();
    let last = last_in_time(witness)?;
    if is_answered_in_time(witness, last) {
        return None;
    }
    let mut probes = history.ops.iter().filter(|op| op.process == PROBE);
    let text = match probes.any(|op| is_answered_in_time(witness, op)) {
        true => {
            let at = moment(last.call.at);
            format!("No request of the probe's last acquire, at {at}, was answered in time.")
        }
        false => "No request of the probe was answered in time.".to_owned(),
    };
    Some(Mechanism::new(How::NoAnswer, text, vec![Evidence::Op(last.id)]))
}

/// A probe that was let in late, after acquires without a reply in time.
fn long_unreached(witness: &Witness<'_>) -> Option<Mechanism> {
    let history = witness.history();
    let acquires: Vec<&Op> = probe_acquires(history).collect();
    let (last, earlier) = acquires.split_last()?;
    let is_unanswered = |op: &&&Op| !is_answered_in_time(witness, op);
    let unanswered: Vec<&&Op> = earlier.iter().filter(is_unanswered).collect();
    let text = format!(
        "Of {} of the probe before the one at {}, {} had no request answered in time.",
        count(earlier.len() as u64, "acquire"),
        moment(last.call.at),
        unanswered.len(),
    );
    let evidence = unanswered.last()?.id;
    Some(Mechanism::new(How::NoAnswer, text, vec![Evidence::Op(evidence), Evidence::Op(last.id)]))
}

/// A probe whose last acquire gave up while it waited for the reply to a later request.
fn out_of_time(witness: &Witness<'_>) -> Option<Mechanism> {
    let history = witness.history();
    let last = probe_acquires(history).next_back()?;
    let ret = last.ret?;
    let requests = history.requests.iter().enumerate();
    let own: Vec<(usize, &Request)> = requests.filter(|(_, r)| r.op == last.id).collect();
    let in_time = own.iter().filter(|(_, request)| is_in_time(request, last));
    let (index, waits) = own.iter().rfind(|(_, request)| !is_in_time(request, last))?;
    let text = format!(
        "The probe's last acquire gave up after {}, with {} answered, while it waited for the \
         reply to {} from {}.",
        length(ret.at.saturating_sub(last.call.at)),
        count(in_time.count() as u64, "request"),
        waits.command,
        waits.to,
    );
    let evidence = vec![Evidence::Op(last.id), Evidence::Request(*index)];
    Some(Mechanism::new(How::NoAnswer, text, evidence))
}

/// A probe whose last refused acquire knew at one moment that the key was its own on a quorum of
/// nodes, and gave the key back itself.
fn too_short(witness: &Witness<'_>) -> Option<Mechanism> {
    let last = witness.last_refused_to_probe()?;
    let known: Vec<(&StoryLife, Moment, Moment)> = witness
        .lives
        .iter()
        .filter(|life| life.owner == Some(last.id))
        .filter_map(|life| known_between(witness, life).map(|(from, to)| (life, from, to)))
        .collect();
    let at_once = |at: Moment| known.iter().filter(move |(_, from, to)| *from <= at && at < *to);
    let fullest = known.iter().map(|(_, from, _)| *from).max_by_key(|at| at_once(*at).count())?;
    let own: Vec<&StoryLife> = at_once(fullest).map(|(life, ..)| *life).collect();
    let nodes: BTreeSet<&str> = own.iter().map(|life| life.node.as_str()).collect();
    if nodes.len() < witness.quorum() as usize {
        return None;
    }
    let text = format!(
        "The probe's acquire at {} set the key on {} and gave it back itself: too little was left \
         of its lease for what is to be done under it.",
        moment(last.call.at),
        list(&nodes.into_iter().map(str::to_owned).collect::<Vec<_>>())
    );
    let evidence = own.iter().map(|life| Evidence::Key(life.born));
    let evidence = [Evidence::Op(last.id)].into_iter().chain(evidence).collect();
    Some(Mechanism::new(How::LeaseTooShort, text, evidence))
}

/// The interval in which an acquire knew that a key was its own, if it gave that key back itself:
/// from the reply to the request that set the key until it sent the request that deleted it.
fn known_between(witness: &Witness<'_>, life: &StoryLife) -> Option<(Moment, Moment)> {
    let history = witness.history();
    let end = &history.keys[life.end?];
    // What a request changes is recorded before the request counts as applied.
    let by_request = |changed: Instant| {
        let mut own = life.owner.into_iter().flat_map(|owner| witness.reading.requests_of(owner));
        let applied = |request: &Request| request.at(Leg::Applied).is_some_and(|at| at >= changed);
        own.find(|request| request.to == life.node && applied(request))
    };
    let (set, deleted) =
        (by_request(life.from)?, by_request(end.at).filter(|_| end.by == life.owner)?);
    Some((set.at(Leg::Delivered)?.into(), deleted.at(Leg::Sent)?.into()))
}

/// A probe that needed a quorum, and whose last refused acquire did not get all replies in time.
fn short_of_votes(witness: &Witness<'_>) -> Option<Mechanism> {
    let last = witness.last_refused_to_probe()?;
    let own = witness.reading.requests_of(last.id);
    let in_time = own.iter().filter(|request| is_in_time(request, last)).count();
    if witness.quorum() == 1 || in_time == own.len() {
        return None;
    }
    let text = format!(
        "The probe's acquire at {} got replies to {in_time} of its {} in time, and never knew of \
         {} nodes at once that had let it in.",
        moment(last.call.at),
        count(own.len() as u64, "request"),
        witness.quorum(),
    );
    Some(Mechanism::new(How::NoAnswer, text, vec![Evidence::Op(last.id)]))
}

/// A node that replied that it serves no client, though no other node led in its place. `None` if
/// the probe was refused without an error after that: this refusal is the better reason.
fn nobody_served(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let leaders = Leaders::of(witness.history());
    let requests = witness.history().requests.iter().enumerate();
    let mut errors = requests.filter_map(|(index, request)| {
        let word = request.answer.as_deref().filter(|word| SERVES_NOBODY.contains(word))?;
        let is_late = request.legs.last().is_some_and(|(_, at)| *at >= violation.from);
        let would_serve =
            |(_, at): &(Leg, Instant)| leaders.would_serve(&request.to, Moment::from(*at));
        (is_late && request.legs.last().is_some_and(would_serve)).then_some((index, word, request))
    });
    let (index, word, request) = errors.next_back()?;
    let last = request.legs.last().map(|(_, at)| *at)?;
    let is_clean = |later: &Request| {
        later.answer.is_none() && !later.declined && later.at(Leg::Applied) > Some(last)
    };
    let is_refusal = |later: &Request| is_clean(later) && witness.is_refused_to_probe(later.op);
    if witness.history().requests.iter().any(is_refusal) {
        return None;
    }
    let text = format!("{} replies {word}: it serves no client.", request.to);
    Some(Mechanism::new(How::NoLeader, text, vec![Evidence::Request(index)]))
}
