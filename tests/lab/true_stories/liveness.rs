//! Predicates of sentences about keys that block others, operations without a return, late losses.

use lockstorm::history::{Key, Op, OpKind, Outcome, PROBE, Request};
use lockstorm_platform::time::{Clock, MILLISECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::true_stories::facts::{Facts, How, Truth, ensure, is_granted, is_removal};
use crate::true_stories::grants::is_acquire;
use crate::true_stories::pattern::{is_length, is_moment, list};
use crate::true_stories::templates::{Sentence, Template};

pub const TEMPLATES: &[Template] = &[
    ("{who}'s acquire sets the key on {node}{any}; it {any}.", |f, t| {
        left_by(f, t, KeyChange::Set)
    }),
    ("{who}'s acquire takes over the key on {node}{any}; it {any}.", |f, t| {
        left_by(f, t, KeyChange::Changed)
    }),
    (
        "{who} requests the lock while {who}'s key is on {node}: {number} {word} until {moment}, all refused.",
        |f, t| {
            kept_out(f, t)?;
            asked(f, t, &[t.words[0].to_owned()], 3, 5)
        },
    ),
    (
        "{who} requests the lock while {who}'s key is on {node}: {number} {word} by {list} until {moment}, all refused.",
        |f, t| {
            kept_out(f, t)?;
            asked(f, t, &list(t.words[5]), 3, 6)
        },
    ),
    ("{who}'s release sets the key on {node}{any}.", set_by_release),
    ("{who}'s release hands the lock on {node} on to {who}: {who} still has it.", hands_on),
    ("{who}'s acquire finds {whose}'s key on {node}, and has to retry.", retries),
    ("{who}'s acquire is refused: {whose}'s key is on {node}.", |f, t| barred(f, t, true)),
    ("{who}'s acquire is refused: {whose}'s key was on {node}.", |f, t| barred(f, t, false)),
    (
        "{who}'s key is still on {node}, with no time to live: nothing will ever remove it.",
        |f, t| {
            still(f, t, true)?;
            let comes = f.history.requests.iter().any(|r| {
                let ends = f.history.fault_intervals.iter().any(|c| {
                    let is_after = r.at(Leg::Sent).is_some_and(|sent| sent < c.from);
                    c.verb.kills() && c.strikes(&r.to) && is_after
                });
                let is_sent = r.at(Leg::Sent).is_some() && r.at(Leg::Applied).is_none();
                let by = f.history.ops.iter().find(|op| op.id == r.op);
                let of_client = by.is_none_or(|op| op.process != PROBE);
                r.to == t.words[1] && of_client && is_sent && !ends
            });
            ensure(!comes, "a request for it is under way")
        },
    ),
    ("{who}'s key is still on {node}, with time to live left.", |f, t| still(f, t, false)),
    ("{who}'s key is still on {node}, with no time to live.", |f, t| still(f, t, true)),
    (
        "After the heal the probe tries {number} {word} from here to {moment} and is let in only then.",
        |f, t| probe(f, t, true),
    ),
    (
        "After the heal the probe tries {number} {word} from here to {moment} and is never let in.",
        |f, t| probe(f, t, false),
    ),
    ("{who} {any}; no answer ever comes.", |facts, sentence| {
        let found = facts.history.ops.iter().any(|op| {
            let asks = match op.kind {
                OpKind::Acquire => "requests the lock",
                OpKind::Extend { .. } => "requests more time",
                OpKind::Release { .. } => "releases the lock",
                OpKind::Lost { .. } => "learns of its loss",
                OpKind::Read { .. } => "reads the resource",
                OpKind::Write { .. } => "writes the resource",
                OpKind::Append { .. } => "appends to the resource",
                OpKind::Add { .. } => "adds to the resource",
                OpKind::Expire { .. } => "lets the resource's value end",
            };
            let is_it = op.caller == sentence.words[0] && op.call.instant() == sentence.at;
            is_it && asks == sentence.words[1] && op.ret.is_none()
        });
        ensure(found, "no such operation is without an answer")
    }),
    ("{who} learns of its loss, {length} after its lease ended.", |f, t| notified_late(f, t, true)),
    (
        "{who} learns of its loss, {length} after its lease ended, {length} after it ran again.",
        |f, t| notified_late(f, t, true),
    ),
    ("{who} never learns of its loss, and holds on.", never_notified),
    ("{who} never learns of its loss, and holds on for {length} after its lease ended.", |f, t| {
        notified_late(f, t, false)
    }),
    (
        "{who} never learns of its loss, and holds on for {length} after its lease ended, {length} after it ran again.",
        |f, t| notified_late(f, t, false),
    ),
];

fn left_by(facts: &Facts, sentence: &Sentence, change: KeyChange) -> Truth {
    let forever = match sentence.words[2] {
        "" => false,
        ", with no time to live" => true,
        _ => return Err("unknown words".to_owned()),
    };
    let is_it = |(_, key): &(usize, &Key)| {
        let is_theirs = key.by.is_some_and(|by| facts.caller(by) == sentence.words[0]);
        key.at == sentence.at && key.change == change && is_theirs
    };
    let of_key = facts.keys_on(sentence.words[1]).find(is_it);
    let found = of_key.or_else(|| facts.members_on(sentence.words[1]).find(is_it));
    let (_, key) = found.ok_or("no such key is set then")?;
    let op = key.by.and_then(|by| facts.op(by)).ok_or("by nobody")?;
    ensure(op.kind == OpKind::Acquire, "it is not set by an acquire")?;
    let asked: Vec<&Request> = facts.history.requests.iter().filter(|r| r.op == op.id).collect();
    let replied = |r: &&Request| r.legs.iter().any(|(leg, _)| *leg == Leg::Delivered);
    let end = sentence.words[3];
    let is_so = match (&op.outcome, op.ret) {
        (Outcome::Granted { .. }, Some(ret)) => {
            let at = end.strip_prefix("is granted at ");
            sentence.at < ret.instant() && at.is_some_and(|at| is_moment(at, ret.at))
        }
        (Outcome::Pending, _) => end == "never returns",
        (Outcome::Unknown, ret) => {
            let is_answered = asked.iter().any(replied);
            let [now, before] = match is_answered {
                true => ["returns with an unknown outcome", "had returned with an unknown outcome"],
                false => ["ends without an answer", "had ended without an answer"],
            };
            match ret.filter(|ret| ret.instant() < sentence.at) {
                None => end == now,
                Some(ret) => {
                    let at = end.strip_prefix(before).and_then(|end| end.strip_prefix(" at "));
                    at.is_some_and(|at| is_moment(at, ret.at))
                }
            }
        }
        (Outcome::Refused { .. }, _) => end == "is refused all the same",
        _ => false,
    };
    ensure(is_so, &format!("it ends as {:?}", op.outcome))?;
    let mut later = facts.keys_on(sentence.words[1]).skip_while(|(_, k)| k.at <= key.at);
    let prolonged = later.next().is_some_and(|(_, key)| key.until_ms.is_some());
    let is_endless = key.of.is_none() && key.until_ms.is_none() && !prolonged;
    ensure(!forever || is_endless, "it has a time to live, or its collection may")
}

fn set_by_release(facts: &Facts, sentence: &Sentence) -> Truth {
    let mut keys = facts.keys_on(sentence.words[1]).filter(|(_, key)| key.at == sentence.at);
    let (_, key) = keys.next().ok_or("no key is set then")?;
    let by = key.by.and_then(|by| facts.op(by)).ok_or("by nobody")?;
    let releases = matches!(by.kind, OpKind::Release { .. }) && by.caller == sentence.words[0];
    ensure(releases, "it is not set by a release of it")?;
    let is_endless = key.of.is_none() && key.until_ms.is_none();
    let term = if is_endless { ", with no time to live" } else { "" };
    ensure(sentence.words[2] == term, "its time to live is otherwise")
}

/// A release sets the key then, an acquire of another is the next to change it, and the caller of
/// the release holds another grant.
fn hands_on(facts: &Facts, sentence: &Sentence) -> Truth {
    let [who, node, next, holder] = sentence.words[..] else { return Err("words".into()) };
    let mut keys = facts.keys_on(node).skip_while(|(_, key)| key.at < sentence.at);
    let (_, key) = keys.next().filter(|(_, key)| key.at == sentence.at).ok_or("no key is set")?;
    let by = key.by.and_then(|by| facts.op(by)).ok_or("by nobody")?;
    let OpKind::Release { grant } = by.kind else { return Err("it is no release".into()) };
    ensure(by.caller == who && holder == who && key.change == KeyChange::Set, "by another")?;
    let (_, found) = keys.next().ok_or("nobody changes it")?;
    let to = found.by.and_then(|by| facts.op(by)).ok_or("nobody finds it")?;
    let is_let_in = to.caller == next && next != who && is_granted(to);
    ensure(is_let_in && found.change != KeyChange::Set, "it lets another in")?;
    let mut holds = facts.holds.iter().filter(|held| held.op.caller == who && held.op.id != grant);
    let is_held = holds.any(|held| held.from < sentence.at && sentence.at < held.until);
    ensure(is_held, "its caller has no other grant")
}

/// A try of an acquire comes to a node on which such a key is, and another try follows.
fn retries(facts: &Facts, sentence: &Sentence) -> Truth {
    let mut requests = facts.history.requests.iter().enumerate();
    let comes = |(_, request): &(usize, &Request)| {
        let op = facts.op(request.op).filter(|op| is_acquire(facts, op));
        let now = request.legs.contains(&(Leg::Applied, sentence.at));
        now && request.to == sentence.words[2]
            && op.is_some_and(|op| op.caller == sentence.words[0])
    };
    let (index, request) = requests.find(comes).ok_or("no request of it comes there then")?;
    let mut later = facts.history.requests[index + 1..].iter();
    let again = later.any(|other| other.op == request.op && other.command == request.command);
    ensure(again, "it does not ask again")?;
    let before = facts.history.keys.partition_point(|key| key.at <= sentence.at);
    let owner = facts.leaver(sentence.words[2], before).ok_or("there is no key, or nobody's")?;
    ensure(facts.caller(owner) == sentence.words[1], "it is another's key")
}

/// The named key exists there from now until the last try, and it does not belong to a hold of its
/// own caller.
fn kept_out(facts: &Facts, sentence: &Sentence) -> Truth {
    let before = facts.history.keys.partition_point(|key| key.at <= sentence.at);
    let owner = facts.leaver(sentence.words[2], before).ok_or("there is no key, or nobody's")?;
    ensure(facts.caller(owner) == sentence.words[1], "it is another's key")?;
    let held = facts.holds.iter().find(|hold| hold.op.id == owner);
    let rightful = held.is_some_and(|h| sentence.at < h.until && h.op.process != sentence.words[0]);
    let end = sentence
        .words
        .last()
        .and_then(|word| crate::true_stories::pattern::moment(word))
        .unwrap_or(0);
    let gone = facts.keys_on(sentence.words[2]).any(|(_, key)| {
        is_removal(key.change) && key.at > sentence.at && key.at.at / MILLISECOND < end
    });
    ensure(!gone, "the key goes in between")?;
    ensure(!rightful, "its owner holds the lock then")
}

/// This many acquires of these callers from now until then, each refused.
fn asked(facts: &Facts, sentence: &Sentence, who: &[String], number: usize, until: usize) -> Truth {
    let refused = |op: &&Op| {
        is_acquire(facts, op)
            && op.process != PROBE
            && matches!(op.outcome, Outcome::Refused { .. })
    };
    let in_time = |op: &&Op| {
        op.call.instant() >= sentence.at
            && op.ret.is_some_and(|ret| {
                Some(ret.at / MILLISECOND)
                    <= crate::true_stories::pattern::moment(sentence.words[until])
            })
    };
    let all: Vec<&Op> = facts.history.ops.iter().filter(refused).filter(in_time).collect();
    let all: Vec<&Op> = all.into_iter().filter(|op| who.contains(&op.caller)).collect();
    let first =
        all.iter().any(|op| op.caller == sentence.words[0] && op.call.instant() == sentence.at);
    ensure(first, "its acquire does not begin here")?;
    let last = all.iter().any(|op| op.ret.is_some_and(|r| is_moment(sentence.words[until], r.at)));
    ensure(last, "none is refused at the end")?;
    ensure(who.iter().all(|name| all.iter().any(|op| op.caller == *name)), "one did not ask")?;
    let number: usize = sentence.words[number].parse().map_err(|_| "no number")?;
    ensure(number <= all.len() && number > 0, &format!("there are {} at the most", all.len()))?;
    let granted = facts.holds.iter().any(|hold| {
        sentence.at < hold.from
            && Some(hold.from.at / MILLISECOND)
                < crate::true_stories::pattern::moment(sentence.words[until])
            && who.contains(&hold.op.caller)
    });
    ensure(!granted, "one of them is granted in between")
}

/// An acquire that is refused now, and met a key that is still there, or is there no more.
fn barred(facts: &Facts, sentence: &Sentence, is_there: bool) -> Truth {
    let mut ops = facts.history.ops.iter().filter(|op| is_acquire(facts, op));
    let is_it = |op: &&Op| {
        let refused = matches!(op.outcome, Outcome::Refused { .. });
        let now = op.ret.map(|ret| ret.instant()) == Some(sentence.at);
        op.caller == sentence.words[0] && refused && now
    };
    let op = ops.find(is_it).ok_or("no acquire of it is refused now")?;
    let (whose, node) = (sentence.words[1], sentence.words[2]);
    let changes = &facts.history.keys;
    let first = changes.partition_point(|key| key.at < op.call.instant());
    let last = changes.partition_point(|key| key.at <= sentence.at);
    let is_its =
        |at: usize| facts.leaver(node, at).is_some_and(|owner| facts.caller(owner) == whose);
    ensure((first..=last).any(is_its), "no key of it was there")?;
    // Its owner may have set another one in the meantime.
    let is_true = if is_there { is_its(last) } else { !(first..=last).all(is_its) };
    ensure(is_true, "it is there no more, or still")
}

fn still(facts: &Facts, sentence: &Sentence, forever: bool) -> Truth {
    let node = sentence.words[1];
    let healed = facts.history.healed.unwrap_or(facts.history.end);
    ensure(sentence.at == healed, "the faults are not healed then")?;
    ensure(!facts.is_down(node, sentence.at.at), "its node is down")?;
    let before = facts.history.keys.partition_point(|key| key.at <= sentence.at);
    let (born, _) = facts.standing(node, before).ok_or("there is no key")?;
    let owner = facts.leaver(node, before);
    ensure(owner.is_some_and(|o| facts.caller(o) == sentence.words[0]), "it is another's")?;
    let last = facts.keys_on(node).rfind(|(index, _)| *index >= born && *index < before);
    let until = last.and_then(|(_, key)| key.until_ms);
    ensure(until.is_none() == forever, "its time to live is otherwise")?;
    let now = facts.reads(node, Clock::Wall, sentence.at.at).unwrap_or(0) / MILLISECOND;
    ensure(until.is_none_or(|until| until >= now), "its time is over")
}

fn probe(facts: &Facts, sentence: &Sentence, granted: bool) -> Truth {
    let asked = facts.history.ops.iter();
    let asked: Vec<&Op> = asked.filter(|op| op.process == PROBE && is_acquire(facts, op)).collect();
    let (first, last) = (asked.first().ok_or("no probe")?, asked.last().ok_or("no probe")?);
    ensure(first.call.instant() == sentence.at, "it begins otherwise")?;
    ensure(sentence.words[0] == asked.len().to_string(), "it asks otherwise often")?;
    let end = last.ret.map_or(facts.history.end.at, |ret| ret.at);
    ensure(is_moment(sentence.words[2], end), "it ends otherwise")?;
    ensure(asked.iter().any(|op| is_granted(op)) == granted, "it is let in otherwise")?;
    ensure(facts.history.healed.is_some_and(|healed| healed <= sentence.at), "nothing is healed")
}

fn notified_late(facts: &Facts, sentence: &Sentence, is_stated: bool) -> Truth {
    let how = |h: &crate::true_stories::facts::Held| (h.how == How::Lost) == is_stated;
    let mut holds = facts.holds.iter();
    let hold = holds.find(|h| h.op.caller == sentence.words[0] && h.until == sentence.at && how(h));
    let hold = hold.ok_or("no hold of it ends so then")?;
    let over = lease_over(facts, hold.op).ok_or("its lease is never over")?;
    let late = sentence.at.at.checked_sub(over).ok_or("its lease is not over")?;
    ensure(is_length(sentence.words[1], late), &format!("it is {late} ns late"))?;
    // The end of the halts in which the lease ended.
    let mut again = over;
    for halt in facts.history.fault_intervals.iter().filter(|c| c.verb.halts()) {
        let to = halt.to.map_or(facts.history.end.at, |to| to.at);
        if halt.strikes(&hold.op.process) && halt.from.at <= again && again < to {
            again = to;
        }
    }
    let ran = sentence.at.at - again;
    match sentence.words.get(2) {
        Some(said) => ensure(again > over && is_length(said, ran), &format!("it ran {ran} ns")),
        None => ensure(again == over, "it was halted when its lease ended"),
    }
}

fn never_notified(facts: &Facts, sentence: &Sentence) -> Truth {
    let mut holds = facts.holds.iter();
    let found = holds
        .any(|h| h.op.caller == sentence.words[0] && h.until == sentence.at && h.how != How::Lost);
    ensure(found, "no hold of it ends untold then")
}

/// When the last lease of a grant was over by its caller's clock: the last outcome counts.
fn lease_over(facts: &Facts, grant: &Op) -> Option<u64> {
    let Outcome::Granted { deadline, .. } = grant.outcome else { return None };
    let mut terms = vec![(grant.ret?, deadline?)];
    for op in &facts.history.ops {
        let is_own = matches!(op.kind, OpKind::Extend { grant: of, .. } if of == grant.id);
        if let (true, Outcome::Kept { deadline: Some(deadline) }, Some(ret)) =
            (is_own, &op.outcome, op.ret)
        {
            terms.push((ret, *deadline));
        }
    }
    let (ret, (clock, deadline)) = *terms.iter().max_by_key(|(ret, _)| ret.seq)?;
    facts.comes_to(&grant.process, clock, ret.at, deadline)
}
