//! Predicates of sentences about requests and replies.

use lockstorm::history::{Op, OpId, OpKind, Outcome, Request};
use lockstorm_platform::time::{Instant, MILLISECOND};
use lockstorm_platform::trace::Leg;

use crate::true_stories::facts::{Facts, Truth, ensure};
use crate::true_stories::keys::is_sent_again;
use crate::true_stories::pattern::{is_length, is_moment, list, read};
use crate::true_stories::templates::{Sentence, Template};

fn is_sent(request: &Request) -> bool {
    request.legs.iter().any(|(leg, _)| *leg == Leg::Sent)
}

fn is_answered(request: &Request) -> bool {
    request.legs.iter().any(|(leg, _)| *leg == Leg::Delivered)
}

/// The operation of that caller that ends now with an unknown outcome.
fn of_unknown_fate<'a>(facts: &Facts<'a>, sentence: &Sentence) -> Result<&'a Op, String> {
    ended(facts, sentence, &Outcome::Unknown)?;
    let is_it = |op: &&Op| {
        op.caller == sentence.words[0] && op.ret.is_some_and(|ret| ret.instant() == sentence.at)
    };
    facts.history.ops.iter().find(is_it).ok_or_else(|| "none ends then".into())
}

pub const TEMPLATES: &[Template] = &[
    (
        "{who}'s {word} ends without an answer: its caller does not learn whether it took effect.",
        |f, t| {
            let op = of_unknown_fate(f, t)?;
            let own = || f.history.requests.iter().filter(|r| r.op == op.id);
            ensure(!own().any(is_answered), "a request was answered")?;
            ensure(own().next().is_none() || own().any(is_sent), "nothing was sent")
        },
    ),
    ("{who}'s {word} finds no connection, and ends without a request.", |f, t| {
        let op = of_unknown_fate(f, t)?;
        ensure(!f.history.requests.iter().any(|r| r.op == op.id && is_sent(r)), "one was sent")
    }),
    (
        "{who}'s {word} ends without an answer to its {word}: its caller does not learn whether that \
         took effect.",
        |f, t| {
            let op = of_unknown_fate(f, t)?;
            let own = || f.history.requests.iter().filter(|r| r.op == op.id);
            let open = own().any(|r| !is_answered(r) && r.command == t.words[2]);
            ensure(open && own().any(is_answered), "it was answered, or nothing was")
        },
    ),
    ("{who}'s {word}, which has changed {list}, ends without an answer to its {word}.", |f, t| {
        let is_it =
            |op: &&Op| op.caller == t.words[0] && op.ret.is_some_and(|ret| ret.instant() == t.at);
        let op = f.history.ops.iter().find(is_it).ok_or("none ends then")?;
        ensure(op.kind.noun() == t.words[1], "it is another kind of operation")?;
        let mut own = f.history.requests.iter().filter(|r| r.op == op.id);
        let last = own.next_back().ok_or("it sent nothing")?;
        let is_silent = is_sent(last) && !is_answered(last) && last.command == t.words[3];
        ensure(is_silent, "its last request was answered")?;
        let keys = || f.history.keys.iter().filter(|key| key.by == Some(op.id));
        let has_changed = |name: &String| keys().any(|key| key.key == **name && key.at < t.at);
        ensure(list(t.words[2]).iter().all(has_changed), "it changed none of these")
    }),
    ("{who}'s {word} ends without an answer of {list}, and its outcome is unknown.", |f, t| {
        let op = of_unknown_fate(f, t)?;
        let own = || f.history.requests.iter().filter(|r| r.op == op.id);
        let silent = |node: &str| own().all(|r| r.to != node || !is_answered(r));
        for node in list(t.words[2]) {
            ensure(own().any(|r| r.to == node) && silent(&node), "it did answer")?;
        }
        ensure(own().any(is_answered), "nobody answered at all")
    }),
    ("{who}'s {word} leaves its key on {node} {length} less to live.", shortened),
    ("{who}'s {word} sends nothing, and returns as unknown.", |f, t| {
        let op = of_unknown_fate(f, t)?;
        ensure(!f.history.requests.iter().any(|r| r.op == op.id), "it asked for something")
    }),
    ("{who}'s {word} returns with an unknown outcome.", |f, t| ended(f, t, &Outcome::Unknown)),
    ("{who}'s {word} finds the lock lost.", |f, t| ended(f, t, &Outcome::Lost)),
    ("{who}'s {word} reports that nothing was its own.", |f, t| ended(f, t, &Outcome::NotMine)),
    ("{node} answers {who}'s {word} with {word}.", |facts, sentence| {
        let [node, who, command, word] = sentence.words[..] else { return Err("places".into()) };
        let found = facts.history.requests.iter().any(|request| {
            request.to == node
                && facts.caller(request.op) == who
                && request.command == command
                && request.declined
                && request.answer.as_deref() == Some(word)
                && request.legs.contains(&(Leg::Applied, sentence.at))
        });
        ensure(found, "no such request was answered so then")
    }),
    (
        "{who} sends another {word} to {node}, with no answer to the one before.",
        |facts, sentence| {
            let [who, command, node] = sentence.words[..] else { return Err("places".into()) };
            let alike = |request: &&lockstorm::history::Request| {
                request.to == node && request.command == command && facts.caller(request.op) == who
            };
            let all: Vec<_> = facts.history.requests.iter().filter(alike).collect();
            let now = all.iter().find(|request| request.legs[0] == (Leg::Sent, sentence.at));
            let now = now.ok_or("none is sent then")?;
            let first = all.iter().any(|request| {
                let (leg, at) = request.legs[0];
                let answered =
                    request.legs.iter().any(|(l, a)| *l == Leg::Delivered && *a < sentence.at);
                request.op == now.op && leg == Leg::Sent && at < sentence.at && !answered
            });
            ensure(first, "no earlier one is without an answer")
        },
    ),
    ("{who}'s {word} goes to {node}, and comes there only at {moment}.", |facts, sentence| {
        let [who, _, node, came] = sentence.words[..] else { return Err("places".into()) };
        comes_late(facts, sentence, (who, node, came), None)
    }),
    (
        "{who}'s {word} goes to {node}, is sent again once its link is whole at {moment}, and comes there only at {moment}.",
        |facts, sentence| {
            let [who, _, node, whole, came] = sentence.words[..] else {
                return Err("places".into());
            };
            comes_late(facts, sentence, (who, node, came), Some(whole))
        },
    ),
    ("{who}'s lease is extended {any}.", prolonged),
    ("{who} takes the lock again while it has it, {number} {word}.", |facts, sentence| {
        let mut inner = facts
            .holds
            .iter()
            .filter(|hold| hold.op.caller == sentence.words[0] && hold.from >= sentence.at);
        let first = inner.next().filter(|hold| hold.from == sentence.at).ok_or("no grant then")?;
        let held = facts.holds.iter().any(|hold| {
            let is_other = hold.op.caller == sentence.words[0] && hold.op.id != first.op.id;
            is_other && hold.from <= first.op.call.instant() && sentence.at < hold.until
        });
        ensure(held, "it does not have it")?;
        let often: usize = sentence.words[1].parse().map_err(|_| "no number")?;
        ensure(often <= inner.count() + 1, "it does so less often")
    }),
];

/// The key had lasted longer before, and an operation of its own caller gave it an earlier end.
fn shortened(f: &Facts, t: &Sentence) -> Truth {
    let [who, word, node, less] = t.words[..] else { return Err("places".into()) };
    let found = f.keys_on(node).find(|(_, key)| key.at == t.at);
    let (index, key) = found.ok_or("no key is changed so there then")?;
    let by = key.by.and_then(|by| f.op(by)).ok_or("nobody did it")?;
    ensure(by.caller == who && by.kind.noun() == word, "another operation did it")?;
    let (born, owner) = f.standing(node, index).ok_or("there is no key")?;
    ensure(owner.is_some_and(|owner| f.caller(owner) == who), "the key is another's")?;
    let mut earlier = f.keys_on(node).filter(|(at, _)| (born..index).contains(at));
    let before = earlier.rfind(|(_, key)| key.until_ms.is_some()).ok_or("it never ran out")?.1;
    let took = before.until_ms.zip(key.until_ms).and_then(|(due, until)| due.checked_sub(until));
    let took = took.ok_or("it lasts as long as before")?;
    ensure(is_length(less, took * MILLISECOND), "it took another length")
}

/// An extend of this caller is sent to the node then, comes at that moment, and was sent again if
/// that is told.
fn comes_late(
    facts: &Facts,
    sentence: &Sentence,
    (who, node, came): (&str, &str, &str),
    whole: Option<&str>,
) -> Truth {
    let found = facts.history.requests.iter().any(|request| {
        let is_sent = request.legs[0] == (Leg::Sent, sentence.at);
        let comes = request.legs.iter().any(|(leg, at)| {
            *leg == Leg::Applied && at.at > sentence.at.at && is_moment(came, at.at)
        });
        let extends = facts.history.ops.iter().any(|op| {
            op.id == request.op && op.caller == who && matches!(op.kind, OpKind::Extend { .. })
        });
        request.to == node && is_sent && comes && extends && is_sent_again(facts, request, whole)
    });
    ensure(found, "no such request goes then and comes so late")
}

fn ended(facts: &Facts, sentence: &Sentence, outcome: &Outcome) -> Truth {
    let is_it = |op: &Op| match op.kind {
        OpKind::Acquire => sentence.words[1] == "acquire",
        OpKind::Extend { background: true, .. } => sentence.words[1] == "renewal",
        OpKind::Extend { background: false, .. } => sentence.words[1] == "extend",
        OpKind::Release { .. } => sentence.words[1] == "release",
        _ => false,
    };
    let found = facts.history.ops.iter().any(|op| {
        let now = op.ret.is_some_and(|ret| ret.instant() == sentence.at);
        now && op.caller == sentence.words[0] && is_it(op) && op.outcome == *outcome
    });
    ensure(found, "no such operation ends so then")
}

/// Whether an extend was kept, and returned before its new deadline.
fn has_time(facts: &Facts, op: &Op) -> bool {
    let (Outcome::Kept { deadline }, Some(ret)) = (&op.outcome, op.ret) else { return false };
    deadline.is_none_or(|(clock, reading)| {
        let over = facts.comes_to(&op.process, clock, op.call.at, reading);
        over.is_none_or(|over| ret.at < over)
    })
}

fn prolonged(facts: &Facts, sentence: &Sentence) -> Truth {
    let kept = |op: &&Op| {
        let is_own = op.caller == sentence.words[0] && matches!(op.kind, OpKind::Extend { .. });
        let mut holds = facts.holds.iter().filter(|h| Some(h.op.id) == facts.grant(op.id));
        let until = holds.next().map(|h| h.until);
        let in_time = |at: Instant| until.is_some_and(|until| at < until);
        let mut keys = facts.history.keys.iter();
        let mut has_effect = || keys.any(|key| key.by == Some(op.id) && in_time(key.at));
        is_own && has_time(facts, op) && has_effect()
    };
    let kept = facts.history.ops.iter().filter(kept);
    let times: Vec<_> =
        kept.filter_map(|op| Some((op.ret?.instant(), facts.grant(op.id)))).collect();
    let (_, grant) = times.iter().find(|(at, _)| *at == sentence.at).ok_or("not then")?;
    let own = times.iter().filter(|(_, of)| of == grant || facts.finding.plan.workload.reenter);
    let own = own.filter(|(at, _)| *at >= sentence.at);
    let (node, often) = match read("on {node} {any}", sentence.words[1]) {
        Some(words) => (Some(words[0]), words[1]),
        None => (None, sentence.words[1]),
    };
    if let Some(node) = node {
        let ops = facts.history.ops.iter().filter(|op| facts.grant(op.id) == *grant);
        let extends = ops.filter(|op| matches!(op.outcome, Outcome::Kept { .. }));
        let ids: Vec<OpId> = extends.map(|op| op.id).collect();
        let mut sent = facts.history.requests.iter().filter(|r| ids.contains(&r.op));
        ensure(sent.all(|r| r.to == node || !is_answered(r)), "another node served one")?;
    }
    if often == "once" {
        return ensure(own.count() == 1 || facts.finding.plan.workload.reenter, "more often");
    }
    let words = read("{number} times from here to {moment}", often).ok_or("how often?")?;
    let until = |at: u64| is_moment(words[1], at);
    let last = own.clone().position(|(at, _)| until(at.at)).ok_or("not at the last")?;
    let often: usize = words[0].parse().map_err(|_| "no number")?;
    ensure(often <= own.count() && last > 0, "less often")
}
