//! Predicates of sentences about grants: their nodes, their lengths, and simultaneous holders.

use std::collections::BTreeSet;

use lockstorm::history::{Key, Op, OpKind, Outcome, Request};
use lockstorm::plan::TopologyKind;
use lockstorm_platform::time::{Instant, MILLISECOND, Nanos};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::true_stories::facts::{Facts, Held, How, Truth, ensure};
use crate::true_stories::pattern::{is_length, is_moment, list, moment};
use crate::true_stories::shared::shares;
use crate::true_stories::templates::{Sentence, Template};

pub const TEMPLATES: &[Template] = &[
    ("{who} is granted the lock{any}.", |facts, sentence| {
        let hold = at_return(facts, sentence).ok_or("no grant of that caller returns then")?;
        granted(facts, &hold, sentence.words[1])
    }),
    ("{who} is granted {any}.", granted_a_group),
    (
        "From here on {list} both believe they hold the lock, for {length}, until {any} at {moment}.",
        |facts, sentence| overlap(facts, sentence, false),
    ),
    (
        "From here on more than one of {list} believe they hold the lock, for {length}, until {any} at {moment}.",
        |facts, sentence| overlap(facts, sentence, true),
    ),
    (
        "From here on more than {number} of {list} believe they hold the lock, for {length}, until {any} at {moment}.",
        |facts, sentence| {
            let allowed = facts.finding.promise.holders;
            ensure(sentence.words[0] == allowed.to_string(), "another number may hold it")?;
            overlap(facts, &Sentence { at: sentence.at, words: sentence.words[1..].to_vec() }, true)
        },
    ),
    (
        "From here on {list} both have the lock within their leases, for {length}, until {who}'s lease is over at {moment}.",
        within,
    ),
    ("{who} releases the lock.", |facts, sentence| {
        let found = facts.history.ops.iter().any(|op| {
            let is_release = matches!(op.kind, OpKind::Release { .. });
            is_release && op.caller == sentence.words[0] && op.call.instant() == sentence.at
        });
        ensure(found, "no release of that caller begins then")
    }),
    ("{who} releases the lock, without an access since another was let in.", |facts, sentence| {
        idle(facts, sentence, How::Released)
    }),
    (
        "{who} learns that the lock is lost, without an access since another was let in.",
        |facts, sentence| idle(facts, sentence, How::Lost),
    ),
    ("{who}'s fence {number} is not above {who}'s fence {number}.", |facts, sentence| {
        let fenced = |who: &str, number: &str, op: &&&Held| {
            let Outcome::Granted { fence, .. } = op.op.outcome else { return false };
            op.op.caller == who && fence.map(|fence| fence.to_string()).as_deref() == Some(number)
        };
        let holds = || facts.holds.iter();
        let late = holds()
            .find(|h| h.from == sentence.at && fenced(sentence.words[0], sentence.words[1], &h));
        let late = late.ok_or("no grant with the smaller fence then")?;
        let early = holds().find(|h| {
            h.op.id != late.op.id
                && fenced(sentence.words[2], sentence.words[3], &h)
                && h.op.call.seq < sentence.at.seq
        });
        early.ok_or("no grant with the larger fence before")?;
        let [small, large] = [1, 3].map(|at| sentence.words[at].parse::<u64>().unwrap_or(0));
        ensure(small <= large, "the fence is above")
    }),
];

fn at_return<'a>(facts: &Facts<'a>, sentence: &Sentence) -> Option<Held<'a>> {
    facts
        .holds
        .iter()
        .copied()
        .find(|hold| hold.from == sentence.at && hold.op.caller == sentence.words[0])
}

/// The keys of a group are those of the acquire, and the nodes those of the story's key.
fn granted_a_group(facts: &Facts, sentence: &Sentence) -> Truth {
    let hold = at_return(facts, sentence).ok_or("no grant of that caller returns then")?;
    let text = sentence.words[1];
    let ends =
        [" in shared mode", " (", "; ", ", without ", ", while ", ", beside ", " with fence "];
    let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    ensure(list(&text[..end]) == hold.op.keys, "it is a grant of other keys")?;
    let rest = &text[end..];
    let on = rest.strip_prefix(" (").and_then(|tail| tail.split_once(')'));
    let Some((on, rest)) = on else { return granted(facts, &hold, rest) };
    let on = on.strip_prefix(facts.lock()).ok_or("the story is about another key")?;
    granted(facts, &hold, &format!("{on}{rest}"))
}

fn granted(facts: &Facts, hold: &Held, mut rest: &str) -> Truth {
    let mut named = Vec::new();
    let in_shared_mode = rest.strip_prefix(" in shared mode");
    ensure(in_shared_mode.is_some() == hold.op.shared, "it is a grant in the other mode")?;
    rest = in_shared_mode.unwrap_or(rest);
    if let Some(tail) = rest.strip_prefix(" on ") {
        let end = [
            ", by ",
            ", sharing ",
            ", while ",
            ", beside ",
            " with fence ",
            "; ",
            ", without ",
            ", as ",
        ];
        let end = end.iter().filter_map(|word| tail.find(word)).min().unwrap_or(tail.len());
        named = list(&tail[..end]);
        rest = &tail[end..];
    }
    if let Some(tail) = rest.strip_prefix(", sharing ") {
        let own = tail.strip_prefix("its own older key").map(|rest| (&*hold.op.caller, rest));
        let (whose, tail) = own.or(tail.split_once("'s key")).ok_or("no such words")?;
        let [node] = &named[..] else { return Err("it is one key".into()) };
        shares(facts, hold, node, whose)?;
        (named, rest) = (Vec::new(), tail);
    }
    if let Some((whose, tail)) = rest.strip_prefix(", by ").and_then(|rest| rest.split_once("'s"))
        && let Some(tail) = tail.strip_prefix(" key with the same owner value")
    {
        let [node] = &named[..] else { return Err("it is one key".into()) };
        shares(facts, hold, node, whose)?;
        let is_equal =
            |other: &Held| other.op.caller == whose && other.op.token() == hold.op.token();
        ensure(facts.holds.iter().any(is_equal), "its owner value is another")?;
        (named, rest) = (Vec::new(), tail);
    }
    nodes(facts, hold, &named)?;
    if let Some(tail) = rest.strip_prefix(", while ").or(rest.strip_prefix(", beside ")) {
        let is_allowed = rest.starts_with(", beside ");
        let (other, tail) = match is_allowed {
            true => {
                let end = [" with fence ", "; ", ", without ", ", as "];
                tail.split_at(
                    end.iter().filter_map(|end| tail.find(end)).min().unwrap_or(tail.len()),
                )
            }
            false => tail.split_once(" still believes it holds it").ok_or("no such words")?,
        };
        let several = facts.finding.promise.holders > 1;
        let beside = facts.holds.iter().any(|h| {
            h.op.caller == other
                && h.op.id != hold.op.id
                && h.from < hold.from
                && hold.from < h.until
                && is_allowed == (several || h.op.shared && hold.op.shared)
        });
        ensure(beside, "the other does not hold it then")?;
        rest = tail;
    }
    let Outcome::Granted { fence, .. } = &hold.op.outcome else { return Err("not granted".into()) };
    let fence = fence.map_or_else(String::new, |fence| format!(" with fence {fence}"));
    term(facts, hold, rest.strip_prefix(&fence).ok_or("it has another fence")?)
}

/// The named nodes are those that executed this acquire's own request and created the key by it. If
/// a quorum of independent nodes replied to its last requests so, only these granted it.
fn nodes(facts: &Facts, hold: &Held, named: &[String]) -> Truth {
    let mut own: BTreeSet<String> = BTreeSet::new();
    let mut votes: BTreeSet<String> = BTreeSet::new();
    for key in &facts.history.keys {
        // A permit is taken out of the lock's key.
        let mut others = facts.history.keys.iter().filter(|other| other.key == key.key);
        let is_set_again = |it: &Key| it.change == KeyChange::Set && it.at > key.at;
        let is_kept = others.any(|it| it.by == Some(hold.op.id) && is_set_again(it));
        let is_named = hold.op.token() == Some(&*key.key);
        let is_taken = key.change == KeyChange::Deleted && is_named && !is_kept;
        let is_set = key.change == KeyChange::Set || key.of.is_some() && is_taken;
        let is_lock = key.key == facts.lock() || key.of.as_deref() == Some(facts.lock());
        let is_own = key.by == Some(hold.op.id) && is_lock && key.at < hold.from;
        let here = |request: &&Request| {
            request.op == hold.op.id && request.to == key.node && !request.declined
        };
        let requests: Vec<&Request> = facts.history.requests.iter().filter(here).collect();
        let applied = requests.iter().any(|request| {
            let applied = |(leg, at): &(Leg, Instant)| *leg == Leg::Applied && *at >= key.at;
            request.legs[0].1 < key.at && request.legs.iter().any(applied)
        });
        if !(is_set && is_own && applied) {
            continue;
        }
        own.insert(key.node.to_string());
        let sets =
            |request: &&&Request| request.at(Leg::Applied).map(|at| at.at) == Some(key.at.at);
        let Some(setter) = requests.iter().find(sets) else { continue };
        let is_same = |other: &&&Request| other.command == setter.command;
        let is_last =
            requests.iter().rfind(is_same).is_some_and(|last| std::ptr::eq(*last, *setter));
        if is_last && setter.at(Leg::Delivered).is_some_and(|reply| reply <= hold.from) {
            votes.insert(key.node.to_string());
        }
    }
    let (plan, named) = (&facts.finding.plan, named.iter().cloned().collect::<BTreeSet<_>>());
    let quorum = plan.lock.quorum.unwrap_or(plan.topology.masters() / 2 + 1) as usize;
    let counts = plan.topology.kind == TopologyKind::Independent && votes.len() >= quorum;
    let granted = if counts { votes } else { own };
    ensure(granted == named, &format!("its own requests set the key on {granted:?}"))
}

/// How long a grant is valid, by the actual run of its caller's clock.
fn term(facts: &Facts, hold: &Held, text: &str) -> Truth {
    let Outcome::Granted { deadline, .. } = &hold.op.outcome else {
        return Err("not granted".into());
    };
    let Some((clock, deadline)) = *deadline else {
        return ensure(text == ", without a lease", "it has no lease");
    };
    let process = &hold.op.process;
    let over = facts.comes_to(process, clock, hold.from.at, deadline);
    if text == "; the grant is dead on arrival" {
        return ensure(over.is_some_and(|over| over <= hold.from.at), "it is not over yet");
    }
    if text == "; its lease never ends by its own clock, which has stopped" {
        return ensure(over.is_none(), "its clock comes to the deadline");
    }
    let kept = facts.history.ops.iter().any(|op| {
        matches!(op.kind, OpKind::Extend { grant, .. } if grant == hold.op.id)
            && matches!(op.outcome, Outcome::Kept { .. })
    });
    let form = if kept { "; its first lease runs until " } else { "; its lease runs until " };
    let sentence = text.strip_prefix(form).ok_or(format!("kept: {kept}, and it says '{text}'"))?;
    let (sentence, by_own) = match sentence.strip_suffix(" by its own clock") {
        Some(sentence) => (sentence, true),
        None => (sentence, false),
    };
    // A clock that stopped or was changed since the call comes to the deadline at another time.
    let read = facts.reads(process, clock, hold.op.call.at).ok_or("it has no such clock")?;
    let mut pieces = facts.history.clocks.iter().filter(|p| p.host == *process && p.clock == clock);
    let over_as_called = pieces.rfind(|p| p.from <= hold.op.call.instant()).map(|p| {
        let rate = 1_000_000 + i64::from(p.line.rate_ppm);
        let left = u128::from(deadline.saturating_sub(read)) * 1_000_000;
        hold.op.call.at + (left / rate.max(1) as u128) as u64
    });
    let over_now = over.unwrap_or(0);
    let is_same = over_as_called.is_some_and(|at| at.abs_diff(over_now) <= 1_000);
    ensure(is_same != by_own, "it names the clock where that makes no difference, or does not")?;
    let over = over.ok_or("its clock never comes to the deadline")?;
    ensure(over > hold.from.at, "it is over already")?;
    ensure(is_moment(sentence, over), &format!("its clock comes to the deadline at {over} ns"))
}

fn overlap(facts: &Facts, sentence: &Sentence, of_more: bool) -> Truth {
    let [span, why, until] = [1, 2, 3];
    let who = list(sentence.words[0]);
    // The probe releases the lock in the instant in which it is granted.
    let goes_on = |h: &&Held| {
        sentence.at < h.until
            || sentence.words[span] == "an instant" && h.until.at == sentence.at.at
    };
    let held = |name: &String| {
        let mut holds = facts.holds.iter().filter(goes_on);
        holds.any(|h| h.op.caller == *name && h.from.at <= sentence.at.at)
    };
    let holding = who.iter().filter(|name| held(name)).count();
    ensure(holding >= 2, "fewer than two hold it then")?;
    let begins =
        facts.holds.iter().any(|h| who.contains(&h.op.caller) && h.from.at == sentence.at.at);
    ensure(begins, "no grant of theirs begins it")?;
    let near = facts.holds.iter().filter(|h| who.contains(&h.op.caller)).filter(goes_on);
    let until = |at: Nanos| is_moment(sentence.words[until], at);
    let near: Vec<_> = near.filter(|h| h.from.at <= sentence.at.at || of_more).collect();
    let (name, how) = match sentence.words[why] {
        "the run ends" => {
            ensure(until(facts.history.end.at), "the run ends otherwise")?;
            return ensure(near.iter().filter(|h| h.how == How::Open).count() >= 2, "who goes on?");
        }
        text => match text.split_once(' ').ok_or("no reason")? {
            (name, "releases it") => (name, How::Released),
            (name, "learns of its loss") => (name, How::Lost),
            (name, "dies") => (name, How::Died),
            _ => return Err(format!("'{text}' ends no belief")),
        },
    };
    let ended = near
        .iter()
        .copied()
        .filter(|h| until(h.until.at))
        .find(|h| h.op.caller == name && h.how == how);
    let ended = ended.ok_or("nobody's belief ends so then")?;
    let open = |at: Instant| near.iter().filter(|h| h.from <= at && at < h.until).count();
    let marks = near.iter().flat_map(|h| [h.from, h.until]);
    let inner = marks.filter(|at| sentence.at.at < at.at && *at < ended.until);
    ensure(inner.into_iter().all(|at| open(at) >= 2), "fewer than two hold it in between")?;
    ensure(is_length(sentence.words[span], ended.until.at - sentence.at.at), "it lasts otherwise")
}

/// Two callers have it, each by its last deadline, until one of these passes.
fn within(facts: &Facts, sentence: &Sentence) -> Truth {
    let who = list(sentence.words[0]);
    let end = moment(sentence.words[3]).ok_or("no end")?;
    let has = |hold: &&Held| who.contains(&hold.op.caller) && hold.from.at <= sentence.at.at;
    let holds: Vec<_> = facts.holds.iter().filter(has).filter(|h| sentence.at < h.until).collect();
    ensure(holds.len() >= 2, "fewer than two hold it")?;
    for hold in &holds {
        let over = facts.lease_over(hold.op, sentence.at).unwrap_or(Nanos::MAX);
        ensure(over > sentence.at.at && over / MILLISECOND >= end, "a lease is over before")?;
        ensure(hold.until.at / MILLISECOND >= end, "a hold is over before")?;
    }
    let mut over = holds.iter().filter(|h| h.op.caller == sentence.words[2]);
    let over = over.find_map(|h| facts.lease_over(h.op, sentence.at)).ok_or("its lease lasts")?;
    ensure(over / MILLISECOND == end, "its lease is over at another time")?;
    ensure(is_length(sentence.words[1], over - sentence.at.at), "it lasts otherwise")
}

fn idle(facts: &Facts, sentence: &Sentence, how: How) -> Truth {
    let mut holds = facts.holds.iter();
    let hold =
        holds.find(|h| h.op.caller == sentence.words[0] && h.until == sentence.at && h.how == how);
    let hold = hold.ok_or("its hold does not end so then")?;
    let others = facts.holds.iter().filter(|h| h.op.caller != hold.op.caller);
    let others = others.filter(|h| hold.from < h.from && h.from < hold.until);
    let last = others.map(|h| h.from).min().ok_or("nobody else was let in")?;
    let used = facts.history.accesses.iter().any(|access| {
        access.grant == Some(hold.op.id) && access.at > last && access.at < sentence.at
    });
    ensure(!used, "there was an access")
}

/// Whether an operation is an acquire of the lock.
pub fn is_acquire(facts: &Facts, op: &Op) -> bool {
    op.kind == OpKind::Acquire && op.is_on(facts.lock())
}
