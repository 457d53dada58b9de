//! The outcomes of the operations of the story: errors, no reply, "not mine", an extended lease.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::Leg;

use crate::check::verdict::Kind;
use crate::explain::answers::Answers;
use crate::explain::evidence::Evidence;
use crate::explain::hold::{StoryHold, sent_again};
use crate::explain::mechanism::left::entries;
use crate::explain::mechanism::shortened::shortening;
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, OpKind, Outcome, Request};
use crate::quantity::{count, length, list, moment};
use crate::reading::leaders;

/// The outcomes of the operations of the grants of the story.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut grants: Vec<OpId> = witness.cast().iter().map(|grant| grant.id).collect();
    grants.extend(witness.left().map(|(_, owner)| owner.id));
    // A lost release of an entry may be why a key was left.
    let counted: Vec<OpId> = witness.left().flat_map(|(life, _)| entries(witness, life)).collect();
    let is_shown = |grant: OpId| grants.contains(&grant) || counted.contains(&grant);
    let of = |op: &&Op| op.grant().is_some_and(is_shown);
    let ops: Vec<&Op> = witness.history().ops.iter().filter(of).collect();
    let begun = witness.primary.map_or_else(Instant::default, |primary| primary.from);
    let mut beats: Vec<Beat> = ops.iter().filter_map(|op| ended(witness, op, begun)).collect();
    beats.extend(ops.iter().flat_map(|op| refused(witness, op)));
    beats.extend(ops.iter().flat_map(|op| again(witness, op)));
    beats.extend(ops.iter().filter_map(|op| too_late(witness, op, begun)));
    for hold in witness.tenures.iter().filter(|hold| grants.contains(&hold.grant.id)) {
        beats.extend(prolonged(witness, hold));
        beats.extend(nested(witness, hold));
        beats.extend(shortened(witness, hold));
    }
    beats
}

/// An operation that failed, or whose outcome is unknown.
fn ended(witness: &Witness<'_>, op: &Op, begun: Instant) -> Option<Beat> {
    let ret = op.ret?.instant();
    let (what, of_grant) = match op.kind {
        OpKind::Acquire => ("acquire", false),
        OpKind::Extend { background: true, .. } => ("renewal", true),
        OpKind::Extend { .. } => ("extend", true),
        OpKind::Release { .. } => ("release", true),
        _ => return None,
    };
    let came = match op.outcome {
        Outcome::Unknown => &unknown(&witness.answers(op)),
        Outcome::Lost if of_grant => "finds the lock lost",
        Outcome::NotMine => "reports that nothing was its own",
        _ => return None,
    };
    let text = format!("{}'s {what} {came}.", op.caller);
    // Such an outcome fixes which orders are legal, so it is part of a violation of that kind.
    let is_the_harm = witness.primary.is_some_and(|primary| match op.outcome {
        Outcome::NotMine | Outcome::Lost if primary.kind == Kind::NotLinearizable => true,
        Outcome::NotMine => primary.ops.contains(&op.id),
        _ => false,
    });
    let weight = match ret <= begun {
        _ if is_the_harm => Weight::Crux,
        true => Weight::Cause,
        // Events after the harm began did not lead to it.
        false => Weight::Minor,
    };
    Some(Beat::new(weight, ret, text, vec![Evidence::Op(op.id)]))
}

/// How an operation with an unknown outcome ended.
fn unknown(answers: &Answers<'_>) -> String {
    match answers {
        Answers::All => "returns with an unknown outcome".to_owned(),
        Answers::None => {
            "ends without an answer: its caller does not learn whether it took effect".to_owned()
        }
        Answers::NoRequest => "sends nothing, and returns as unknown".to_owned(),
        Answers::Unsent => "finds no connection, and ends without a request".to_owned(),
        Answers::NotTo(command) => format!(
            "ends without an answer to its {command}: its caller does not learn whether that took \
             effect"
        ),
        Answers::NotOf(nodes) => {
            format!("ends without an answer of {}, and its outcome is unknown", list(nodes))
        }
    }
}

/// The errors that nodes returned to an operation, each once.
fn refused(witness: &Witness<'_>, op: &Op) -> Vec<Beat> {
    let mut answers: BTreeMap<(&str, &str, &str), (usize, &Request)> = BTreeMap::new();
    for (index, request) in witness.history().requests.iter().enumerate() {
        if let (true, Some(word)) = (request.op == op.id, &request.answer) {
            let of = (request.to.as_str(), request.command.as_str(), word.as_str());
            answers.entry(of).or_insert((index, request));
        }
    }
    let beat = |((node, command, word), (index, request)): (_, (usize, &Request))| {
        let at = request.at(Leg::Applied)?;
        let text = format!("{node} answers {}'s {command} with {word}.", op.caller);
        let weight = if matches!(word, "MOVED" | "ASK") { Weight::Detail } else { Weight::Cause };
        let evidence = vec![Evidence::Op(op.id), Evidence::Request(index)];
        Some(Beat::new(weight, at, text, evidence))
    };
    answers.into_iter().filter_map(beat).collect()
}

/// An extend whose first request was under way when the harm began: until it comes, its caller does
/// not learn that the lock is lost.
fn too_late(witness: &Witness<'_>, op: &Op, begun: Instant) -> Option<Beat> {
    let OpKind::Extend { background, .. } = op.kind else { return None };
    let (index, first) = witness.history().first_request(op.id)?;
    let (sent, came) = (first.at(Leg::Sent)?, first.at(Leg::Applied)?);
    if sent >= begun || came <= begun {
        return None;
    }
    let what = if background { "renewal" } else { "extend" };
    let again = sent_again(witness.history(), first).map_or_else(String::new, |whole| {
        format!(" is sent again once its link is whole at {},", moment(whole.at))
    });
    let (who, node, came) = (&op.caller, &first.to, moment(came.at));
    let text = format!("{who}'s {what} goes to {node},{again} and comes there only at {came}.");
    Some(Beat::new(Weight::Cause, sent, text, vec![Evidence::Op(op.id), Evidence::Request(index)]))
}

/// Repeated requests: the same command to a node that had not replied to the previous one, usually
/// a retry.
fn again(witness: &Witness<'_>, op: &Op) -> Vec<Beat> {
    let requests = witness.history().requests.iter().enumerate();
    let own: Vec<(usize, &Request)> = requests.filter(|(_, r)| r.op == op.id).collect();
    let sent = |request: &Request| request.legs.first().copied();
    let beats = own.iter().enumerate().filter_map(|(place, (index, request))| {
        let (Leg::Sent, at) = sent(request)? else { return None };
        let mut earlier = own[..place].iter();
        let first = earlier.rfind(|(_, r)| r.to == request.to && r.command == request.command)?;
        let is_answered = first.1.is_answered();
        let is_sent = sent(first.1).is_some_and(|(leg, _)| leg == Leg::Sent);
        if is_answered || !is_sent {
            return None;
        }
        let (who, command, node) = (&op.caller, &request.command, &request.to);
        let text =
            format!("{who} sends another {command} to {node}, with no answer to the one before.");
        let evidence =
            vec![Evidence::Op(op.id), Evidence::Request(*index), Evidence::Request(first.0)];
        Some(Beat::new(Weight::Minor, at, text, evidence))
    });
    beats.collect()
}

/// How often the lease of a hold was extended.
fn prolonged(witness: &Witness<'_>, hold: &StoryHold<'_>) -> Option<Beat> {
    let kept = witness.history().ops.iter().filter(|op| {
        let is_of = matches!(op.kind, OpKind::Extend { grant, .. } if witness.is_of(hold, grant));
        // An extend that takes effect after the hold has ended does not extend that hold.
        let in_time = |key: &Key| key.by == Some(op.id) && key.at < hold.until;
        let has_effect = || witness.history().keys.iter().any(in_time);
        is_of && is_kept(witness, op) && has_effect()
    });
    let kept: Vec<&Op> = kept.collect();
    let (first, last) = (kept.first()?, kept.last()?);
    let often = match kept.len() {
        1 => "once".to_owned(),
        more => format!("{} from here to {}", count(more as u64, "time"), moment(last.ret?.at)),
    };
    let on = on_one_of_two(witness, &kept).map_or_else(String::new, |node| format!(" on {node}"));
    let text = format!("{}'s lease is extended{on} {often}.", hold.grant.caller);
    let evidence = kept.iter().map(|op| Evidence::Op(op.id)).collect();
    Some(Beat::new(Weight::Cause, first.ret?.instant(), text, evidence))
}

/// Whether an extend returned as kept before its new deadline.
fn is_kept(witness: &Witness<'_>, op: &Op) -> bool {
    let Outcome::Kept { deadline } = op.outcome else { return false };
    let over = deadline.and_then(|(clock, deadline)| {
        witness.reading.clocks.reaches(&op.process, clock, op.call.into(), deadline)
    });
    over.is_none_or(|over| op.ret.is_some_and(|ret| ret.at < over.at))
}

/// The only node that replied to these operations, if a replica was promoted in the run.
fn on_one_of_two<'a>(witness: &Witness<'a>, ops: &[&Op]) -> Option<&'a str> {
    let promoted = leaders::promoted(&witness.reading);
    let ids: BTreeSet<OpId> = ops.iter().map(|op| op.id).collect();
    let requests = witness.history().requests.iter();
    let own = requests.filter(|request| ids.contains(&request.op) && request.is_answered());
    let mut nodes = own.map(|request| &*request.to);
    let one = nodes.next().filter(|_| !promoted.is_empty())?;
    nodes.all(|node| node == one).then_some(one)
}

/// An operation of a holder's own that took from the life of its key what the harm needed.
fn shortened(witness: &Witness<'_>, hold: &StoryHold<'_>) -> Option<Beat> {
    let primary = witness.primary?;
    let is_order = primary.kind == Kind::NotLinearizable;
    let harm = if is_order { primary.to } else { primary.from };
    let found = shortening(witness, hold, harm.into())?;
    let key = &witness.history().keys[found.index];
    let (who, word, node) = (&found.by.caller, found.by.kind.noun(), &key.node);
    let text =
        format!("{who}'s {word} leaves its key on {node} {} less to live.", length(found.took));
    let evidence = vec![Evidence::Op(found.by.id), Evidence::Key(found.index)];
    Some(Beat::new(Weight::Cause, key.at, text, evidence))
}

/// How often a holder re-entered the lock.
fn nested(witness: &Witness<'_>, hold: &StoryHold<'_>) -> Option<Beat> {
    let inner = witness
        .holds
        .iter()
        .filter(|other| other.grant.id != hold.grant.id && witness.is_of(hold, other.grant.id));
    let inner: Vec<&StoryHold<'_>> = inner.collect();
    let first = inner.first()?;
    let often = count(inner.len() as u64, "time");
    let text = format!("{} takes the lock again while it has it, {often}.", hold.grant.caller);
    let evidence = inner.iter().map(|hold| Evidence::Op(hold.grant.id)).collect();
    // An inner grant with a key of its own may be released while the outer grant is still held.
    let mut owners = witness.lives.iter().filter_map(|life| life.owner);
    let has_key = owners.any(|owner| inner.iter().any(|hold| hold.grant.id == owner));
    let weight = if has_key { Weight::Cause } else { Weight::Detail };
    Some(Beat::new(weight, first.from, text, evidence))
}
