//! Predicates of sentences about keys: their ends, their extends, and interleaved commands.

use lockstorm::history::{Key, Op, OpId, OpKind, Outcome, Request};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, Instant, MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::true_stories::facts::{Facts, Truth, ensure, is_removal};
use crate::true_stories::orders::runs;
use crate::true_stories::pattern::{is_length, is_moment, list, read};
use crate::true_stories::templates::{Sentence, Template};

/// Keys that end in the same way within this time may be told in one sentence.
const TOGETHER: Nanos = SECOND;

pub const TEMPLATES: &[Template] = &[
    ("{who}'s expired key is removed on {list}.", |f, t| {
        ended(f, t, t.words[0], t.words[1], &|facts, index, key| {
            if key.of.is_some() && key.by.is_some() {
                return purged(facts, index, key);
            }
            let born = facts.standing(&key.node, index).map_or(0, |(born, _)| born);
            let over = facts.runs_out(&key.node, born, index);
            // A flush may remove what was over and had not been noticed.
            let is_swept = key.change == KeyChange::Deleted && key.by.is_none();
            ensure(is_swept && over.is_some_and(|over| over <= key.at.at), "it was removed")
                .or_else(|_| is(key, KeyChange::Expired))?;
            let over = over.ok_or("it never runs out")?.min(key.at.at);
            let over = Instant { seq: 0, at: over };
            ensure(!facts.was_down(&key.node, over, key.at), "the node was down as it ran out")
        })
    }),
    ("{who}'s key, which had run out, is gone from {list}, which had been down.", ran_out),
    ("{list} removes {who}'s key.", |f, t| ended(f, t, t.words[1], t.words[0], &is_removed)),
    ("{list} remove {who}'s key.", |f, t| ended(f, t, t.words[1], t.words[0], &is_removed)),
    ("{list} comes back without {who}'s key.", |f, t| {
        ended(f, t, t.words[1], t.words[0], &|facts, _, key| {
            is(key, KeyChange::LostAtRestart)?;
            let earlier = facts.history.keys[0].at;
            ensure(facts.was_down(&key.node, earlier, key.at), "the node was never down")
        })
    }),
    ("{list} come back without {who}'s key.", |f, t| {
        ended(f, t, t.words[1], t.words[0], &|facts, _, key| {
            is(key, KeyChange::LostAtRestart)?;
            let earlier = facts.history.keys[0].at;
            ensure(facts.was_down(&key.node, earlier, key.at), "the node was never down")
        })
    }),
    ("{node} comes back with {who}'s key, which had been {any}.", put_back),
    ("{list} loses {who}'s key: its master does not have it.", |f, t| {
        ended(f, t, t.words[1], t.words[0], &|_, _, key| is(key, KeyChange::LostAtFailover))
    }),
    ("{list} lose {who}'s key: their master does not have it.", |f, t| {
        ended(f, t, t.words[1], t.words[0], &|_, _, key| is(key, KeyChange::LostAtFailover))
    }),
    ("{any} deletes its own {word} on {list}.", |f, t| {
        removed(f, t, t.words[0], Whose::Own(t.words[1]), t.words[2], KeyChange::Deleted)
    }),
    ("{any} deletes its own {word} key on {list}.", |f, t| {
        removed(f, t, t.words[0], Whose::Own(t.words[1]), t.words[2], KeyChange::Deleted)
    }),
    ("{any} counts down its own newer key on {node}.", counted_down),
    ("{who} sets its key on {node} and deletes it at once.", at_once),
    ("{who}'s {word} takes the time to live from {any} key on {node}.", made_endless),
    ("{any} deletes {who}'s key on {list}.", |f, t| {
        removed(f, t, t.words[0], Whose::Of(t.words[1]), t.words[2], KeyChange::Deleted)
    }),
    ("{any} overwrites its own {word} key on {list}.", |f, t| {
        removed(f, t, t.words[0], Whose::Own(t.words[1]), t.words[2], KeyChange::Set)
    }),
    ("{any} overwrites {who}'s key on {list}.", |f, t| {
        removed(f, t, t.words[0], Whose::Of(t.words[1]), t.words[2], KeyChange::Set)
    }),
    ("{any} takes over its own {word} key on {list}.", |f, t| {
        removed(f, t, t.words[0], Whose::Own(t.words[1]), t.words[2], KeyChange::Changed)
    }),
    ("{any} takes over {who}'s key on {list}.", |f, t| {
        removed(f, t, t.words[0], Whose::Of(t.words[1]), t.words[2], KeyChange::Changed)
    }),
    ("{who} prolongs {who}'s key on {node}.", |f, t| touched(f, t, KeyChange::Extended)),
    ("{who} changes {who}'s key on {node}.", |f, t| touched(f, t, KeyChange::Changed)),
    ("{who}'s {word} finds {who}'s key on {node}, and returns as kept.", kept),
    ("The time to live of {who}'s key on {node} is over, though {any}.", |f, t| {
        let over = is_over_now(f, t.at, t.words[1], t.words[0]);
        ensure(over, "no such key runs out now")?;
        ensure(!runs(f, t.words[1], t.at), "the node runs")?;
        counts_on(f, t.at, t.words[0], t.words[2]).map(drop)
    }),
    ("{any}, though {any} counts on it until {moment}.", lost_early),
    (
        "{who} begins to release the lock at {moment}, and receives the reply here.",
        |facts, sentence| {
            let found = facts.history.ops.iter().any(|op| {
                op.caller == sentence.words[0]
                    && matches!(op.kind, OpKind::Release { .. })
                    && is_moment(sentence.words[1], op.call.at)
                    && op.ret.is_some_and(|ret| ret.instant() == sentence.at)
            });
            ensure(found, "no such release")
        },
    ),
    ("{who}'s renewal{any} sets the key again on {list}.", |f, t| renewal(f, t, true)),
    ("{who}'s renewal{any} prolongs the key on {list}.", |f, t| renewal(f, t, false)),
    ("{who}'s {word} comes to {node} before {any} key is set there, its {word} after.", torn),
];

/// An acquire removes a member whose lease is over on its caller's clock, or that has not changed
/// for as long as it was to live.
fn purged(facts: &Facts, index: usize, key: &Key) -> Truth {
    is(key, KeyChange::Deleted)?;
    let by = key.by.and_then(|by| facts.op(by)).ok_or("nobody did it")?;
    ensure(by.kind == OpKind::Acquire, "it is no acquire")?;
    let owner = facts.owner_of_member(index).and_then(|owner| facts.op(owner));
    let owner = owner.ok_or("the member is nobody's")?;
    let (mut has_end, mut ends_later) = (false, false);
    for op in &facts.history.ops {
        if op.id != owner.id && facts.grant(op.id) != Some(owner.id) {
            continue;
        }
        let (Outcome::Granted { deadline, .. } | Outcome::Kept { deadline }) = &op.outcome else {
            continue;
        };
        if let Some((clock, until)) = deadline {
            has_end = true;
            let now = facts.reads(&owner.process, *clock, key.at.at);
            ends_later |= now.is_none_or(|now| now < *until);
        }
    }
    let ttl = facts.finding.plan.lock.ttl.ok_or("it has no lease")?;
    let is_it = |other: &Key| other.node == key.node && other.key == key.key && other.of == key.of;
    let changed = facts.history.keys[..index].iter().rfind(|other| is_it(other));
    let changed = changed.ok_or("it was never there")?.at.at;
    let is_due = changed + ttl <= key.at.at;
    ensure(is_due || has_end && !ends_later, "its lease is not over")
}

/// A start brings a key back that had ended in this way: no request sets it then.
fn put_back(facts: &Facts, sentence: &Sentence) -> Truth {
    let (node, who) = (sentence.words[0], sentence.words[1]);
    let is_it = |key: &Key| {
        let owner = key.by.and_then(|by| facts.owner(by));
        let is_theirs = owner.is_some_and(|owner| facts.caller(owner) == who);
        key.at == sentence.at && key.change == KeyChange::Set && is_theirs
    };
    let (index, key) =
        facts.keys_on(node).find(|(_, key)| is_it(key)).ok_or("no such key is there again")?;
    ensure(!facts.is_set_by_request(key), "a request sets it")?;
    let now = facts.reads(node, Clock::Wall, key.at.at).unwrap_or(0) / MILLISECOND;
    let lasts = key.until_ms.is_none_or(|until| now <= until);
    // A step back before anybody noticed makes it last.
    let next = facts.keys_on(node).find(|(at, _)| *at > index).map(|(_, next)| next.at);
    let revived = facts.history.fault_intervals.iter().any(|interval| {
        let is_step = matches!(interval.verb, Verb::ClockStep { .. }) && interval.strikes(node);
        is_step && key.at < interval.from && next.is_none_or(|next| interval.from < next)
    });
    ensure(lasts || revived, "its time to live is over")?;
    let owner = key.by.and_then(|by| facts.owner(by));
    let ends = facts.keys_on(node).filter(|(at, _)| {
        *at < index && facts.standing(node, *at).is_some_and(|(_, before)| before == owner)
    });
    let mut ends =
        ends.filter(|(at, _)| facts.standing(node, at + 1).is_none_or(|(_, after)| after != owner));
    let (_, end) = ends.next_back().ok_or("it had not ended")?;
    ensure(facts.was_down(node, end.at, key.at), "the node was never down")?;
    let by = end.by.and_then(|by| facts.op(by)).map(|op| &op.kind);
    let releases = matches!(by, Some(OpKind::Release { grant }) if Some(*grant) == owner);
    let is_marked = releases && end.change != KeyChange::Deleted;
    ensure(is_marked == (sentence.words[2] == "released"), "it ended otherwise")?;
    let how = match sentence.words[2] {
        "released" => return Ok(()),
        "deleted" => KeyChange::Deleted,
        "overwritten" => KeyChange::Set,
        "taken over" => KeyChange::Changed,
        _ => return Err("in no such way".to_owned()),
    };
    is(end, how)
}

/// A caller changes the key of another in this way.
fn touched(facts: &Facts, sentence: &Sentence, change: KeyChange) -> Truth {
    let mut keys = facts.keys_on(sentence.words[2]);
    let found = keys.find(|(_, key)| key.at == sentence.at && key.change == change);
    let (index, key) = found.ok_or("no key is changed so there then")?;
    let by = key.by.ok_or("nobody did it")?;
    ensure(facts.caller(by) == sentence.words[0], "another did it")?;
    let (_, owner) = facts.standing(&key.node, index).ok_or("there is no key")?;
    // What an inner release set is its caller's.
    let owner = owner.or_else(|| facts.leaver(&key.node, index));
    ensure(owner.is_some_and(|owner| facts.caller(owner) == sentence.words[1]), "it is another's")
}

fn ran_out(facts: &Facts, sentence: &Sentence) -> Truth {
    ended(facts, sentence, sentence.words[0], sentence.words[1], &|facts, index, key| {
        is(key, KeyChange::Expired)?;
        let last = facts.keys_on(&key.node).rfind(|(at, last)| *at < index && last.by.is_some());
        let since = last.map_or(Instant::default(), |(_, last)| last.at);
        let before = facts.keys_on(&key.node).rfind(|(at, _)| *at < index);
        let (_, before) = before.ok_or("there is no key")?;
        let until = before.until_ms.ok_or("it never runs out")?;
        let now = facts.reads(&key.node, Clock::Wall, key.at.at).unwrap_or(0) / MILLISECOND;
        ensure(until < now, "it has not run out")?;
        let over = key.at.at.saturating_sub((now - until) * MILLISECOND);
        let over = Instant { seq: 0, at: over };
        // A start or a resync may bring a key that had run out before.
        let from = if before.at > over { since.min(over) } else { over };
        ensure(facts.was_down(&key.node, from, key.at), "the node was there")
    })
}

fn is(key: &Key, change: KeyChange) -> Truth {
    ensure(key.change == change, "it ended otherwise")
}

/// On each of the nodes a key of that caller ends in this way, the first of them now.
fn ended(
    facts: &Facts,
    sentence: &Sentence,
    whose: &str,
    nodes: &str,
    is_so: &dyn Fn(&Facts, usize, &Key) -> Truth,
) -> Truth {
    let mut first = None;
    for node in list(nodes) {
        let near = |key: &Key| sentence.at <= key.at && key.at.at <= sentence.at.at + TOGETHER;
        let mut why = Err(format!("no key of {whose} ends on {node} then"));
        let of_key = facts.keys_on(&node).filter(|(_, key)| near(key)).map(|(index, key)| {
            let owner = facts.standing(&node, index).and_then(|(_, owner)| owner);
            let passes = || facts.standing(&node, index + 1).and_then(|(_, owner)| owner) != owner;
            let ends = is_removal(key.change)
                || key.change == KeyChange::Set
                || key.change == KeyChange::Changed && passes();
            (index, key, owner, ends)
        });
        let of_member = facts
            .members_on(&node)
            .filter(|(_, key)| near(key))
            .map(|(index, key)| (index, key, facts.owner_of_member(index), is_removal(key.change)));
        let mut all: Vec<_> = of_key.chain(of_member).collect();
        all.sort_by_key(|(_, key, ..)| key.at);
        for (index, key, owner, ends) in all {
            if !ends || owner.is_none_or(|owner| facts.caller(owner) != whose) {
                continue;
            }
            let so = is_so(facts, index, key);
            if so.is_err() && why.is_ok() {
                continue;
            }
            why = so;
            if why.is_ok() {
                first = Some(first.map_or(key.at, |at: Instant| at.min(key.at)));
                // Another may end in the same instant.
                if key.at >= sentence.at {
                    break;
                }
            }
        }
        why?;
    }
    ensure(first == Some(sentence.at), "the first of them does not end now")
}

/// The owner of a key: a caller, or a newer, an older or the same grant of the caller itself.
#[derive(Clone, Copy)]
enum Whose<'a> {
    Of(&'a str),
    Own(&'a str),
}

/// An operation, written `c1` or `c1's DEL, 2 s on its way,`, ends a key of the given owner.
fn removed(
    facts: &Facts,
    sentence: &Sentence,
    hand: &str,
    whose: Whose,
    nodes: &str,
    change: KeyChange,
) -> Truth {
    let who = hand_of(hand);
    was_on_its_way(facts, sentence, hand)?;
    let of = if let Whose::Of(name) = whose { name } else { who };
    ended(facts, sentence, of, nodes, &|facts, index, key| {
        is(key, change)?;
        let by = key.by.ok_or("nobody did it")?;
        ensure(facts.caller(by) == who, "another did it")?;
        let owner = match key.of {
            Some(_) => facts.owner_of_member(index),
            None => facts.standing(&key.node, index).and_then(|(_, owner)| owner),
        };
        let own = facts.grant(by);
        if let Whose::Own(age) = whose {
            let began = |id: Option<OpId>| id.and_then(|id| facts.op(id)).map(|op| op.call.seq);
            let is_newer = began(own) < began(owner);
            let is_own = own == owner;
            let fits = match age {
                "newer" => is_newer && !is_own,
                "older" => !is_newer && !is_own,
                _ => is_own || facts.finding.plan.workload.reenter,
            };
            ensure(fits, "the key is not of such a grant")?;
        }
        Ok(())
    })
}

/// A request that was on its way for long, and one that was also sent again.
const LATE: &str = "{who}'s {word}, {length} on its way,";
const AGAIN: &str =
    "{who}'s {word}, {length} on its way and sent again once its link was whole at {moment},";

/// Whose operation is written `c1` or `c1's DEL, 2 s on its way,`.
fn hand_of(hand: &str) -> &str {
    let late = read(LATE, hand).or_else(|| read(AGAIN, hand));
    late.map_or(hand, |words| words[0])
}

/// Whether such a request changed a key then, was on its way for as long as is told, and was sent
/// again when that is told.
fn was_on_its_way(facts: &Facts, sentence: &Sentence, hand: &str) -> Truth {
    let late = read(LATE, hand).or_else(|| read(AGAIN, hand));
    let Some(words) = late else { return Ok(()) };
    let told = words.get(3).copied();
    // Replication delivers the rest of the way.
    let near = |at: Nanos| sentence.at.at <= at && at <= sentence.at.at + TOGETHER;
    let mut keys = facts.history.keys.iter().filter(|key| near(key.at.at));
    let mut requests = facts.history.requests.iter();
    let found = keys.any(|key| {
        requests.clone().any(|request| {
            Some(request.op) == key.by
                && facts.caller(request.op) == words[0]
                && request.to == key.node
                && request.command == words[1]
                && took(request, key).is_some_and(|took| is_length(words[2], took))
                && is_sent_again(facts, request, told)
        })
    });
    ensure(found && requests.next().is_some(), "no such request was so long on its way")
}

/// Whether a request was sent into a partition of its link that ended before it came, at the moment
/// that is told; or into none, if nothing is told.
pub fn is_sent_again(facts: &Facts, request: &Request, told: Option<&str>) -> bool {
    let reached = |leg| request.legs.iter().find(|(l, _)| *l == leg).map(|(_, at)| at.at);
    let (Some(sent), Some(came)) = (reached(Leg::Sent), reached(Leg::Applied)) else {
        return told.is_none();
    };
    let is_of = |target: &Target| match target {
        Target::Host(_) => false,
        Target::Links { from, to, both } => {
            let there = from.contains(&request.from.to_string());
            let back = to.contains(&request.from.to_string()) && *both;
            let (node, ends) = (request.to.to_string(), [there, back]);
            ends[0] && to.contains(&node) || ends[1] && from.contains(&node)
        }
    };
    let cuts = facts.history.fault_intervals.iter().filter(|cut| is_of(&cut.target));
    let ends = cuts.filter(|cut| cut.verb == Verb::Partition && cut.from.at <= sent);
    let ends = ends.filter_map(|cut| cut.to).map(|to| to.at);
    match ends.filter(|end| sent < *end && *end <= came).max() {
        Some(end) => told.is_some_and(|told| is_moment(told, end)),
        None => told.is_none(),
    }
}

/// The key had a time to live before the change, and has none after it.
fn made_endless(facts: &Facts, sentence: &Sentence) -> Truth {
    let [who, word, _, node] = sentence.words[..] else { return Err("other words".into()) };
    let at = facts.keys_on(node).find(|(_, key)| key.at == sentence.at);
    let (index, key) = at.ok_or("nothing is changed there then")?;
    let by = key.by.and_then(|by| facts.op(by)).ok_or("nobody did it")?;
    ensure(by.caller == who && by.kind.noun() == word, "another did it")?;
    let before = facts.keys_on(node).take_while(|(other, _)| *other < index).last();
    let had = before.is_some_and(|(_, key)| key.until_ms.is_some() && !is_removal(key.change));
    ensure(had && key.until_ms.is_none(), "it has as much to live as before")
}

/// An extend touches the key that another caller's acquire has, and returns as kept.
fn kept(facts: &Facts, sentence: &Sentence) -> Truth {
    let [who, _, whose, node] = sentence.words[..] else { return Err("other words".into()) };
    let at = facts.keys_on(node).find(|(_, key)| key.at == sentence.at);
    let (index, key) = at.ok_or("nothing is changed there then")?;
    let by = key.by.and_then(|by| facts.op(by)).ok_or("nobody did it")?;
    let is_extend = matches!(by.kind, OpKind::Extend { .. }) && by.caller == who;
    ensure(is_extend && matches!(by.outcome, Outcome::Kept { .. }), "no such extend was kept")?;
    let owner = facts.standing(node, index).and_then(|(_, owner)| owner);
    ensure(owner.is_some_and(|owner| facts.caller(owner) == whose), "it is the key of another")
}

/// An operation of a caller removes the key that it has set at the same time.
fn at_once(facts: &Facts, sentence: &Sentence) -> Truth {
    let [who, node] = sentence.words[..] else { return Err("other words".into()) };
    let now = || facts.keys_on(node).filter(|(_, key)| key.at.at == sentence.at.at);
    let (end, last) = now().next_back().ok_or("nothing is changed there then")?;
    is(last, KeyChange::Deleted)?;
    ensure(last.by.is_some_and(|by| facts.caller(by) == who), "another did it")?;
    let sets = |(index, key): (usize, &Key)| {
        index < end && key.by == last.by && key.change == KeyChange::Set
    };
    ensure(now().any(sets), "it did not set the key")
}

/// A release of an older grant counts down a key of its own caller.
fn counted_down(facts: &Facts, sentence: &Sentence) -> Truth {
    let (hand, node) = (sentence.words[0], sentence.words[1]);
    was_on_its_way(facts, sentence, hand)?;
    let mut keys = facts.keys_on(node);
    let found = keys.find(|(_, key)| key.at == sentence.at && key.change == KeyChange::Changed);
    let (index, key) = found.ok_or("no key is changed there then")?;
    let by = key.by.and_then(|by| facts.op(by)).ok_or("nobody did it")?;
    ensure(matches!(by.kind, OpKind::Release { .. }), "it is no release")?;
    ensure(by.caller == hand_of(hand), "another did it")?;
    let owner = facts.standing(node, index).and_then(|(_, owner)| facts.op(owner?));
    let owner = owner.ok_or("the key is nobody's")?;
    ensure(
        owner.caller == by.caller && by.call.instant() < owner.call.instant(),
        "the key is no newer one of its own",
    )
}

/// Whether a key was evicted, or flushed: that is nobody's operation.
fn is_removed(_: &Facts, _: usize, key: &Key) -> Truth {
    if is(key, KeyChange::Evicted).is_ok() {
        return Ok(());
    }
    is(key, KeyChange::Deleted)?;
    ensure(key.by.is_none(), "an operation deletes it")
}

fn took(request: &Request, key: &Key) -> Option<Nanos> {
    let sent = request.legs.first().filter(|(leg, _)| *leg == Leg::Sent)?.1;
    let (_, applied) = request.legs.iter().find(|(leg, _)| *leg == Leg::Applied)?;
    (applied.at == key.at.at).then(|| applied.at - sent.at)
}

/// Whether a caller's key that goes from a node later runs out now, by the node's clock.
fn is_over_now(facts: &Facts, now: Instant, node: &str, who: &str) -> bool {
    facts.keys_on(node).filter(|(_, key)| key.at > now && is_removal(key.change)).any(
        |(index, _)| {
            facts.standing(node, index).is_some_and(|(born, owner)| {
                let is_theirs = owner.is_some_and(|owner| facts.caller(owner) == who);
                is_theirs && facts.runs_out(node, born, index) == Some(now.at)
            })
        },
    )
}

fn lost_early(facts: &Facts, sentence: &Sentence) -> Truth {
    let forms: [(&str, usize, KeyChange); 7] = [
        ("{node} lets {who}'s key expire", 0, KeyChange::Expired),
        ("{node} evicts {who}'s key", 0, KeyChange::Evicted),
        ("{node} is back without {who}'s key", 0, KeyChange::LostAtRestart),
        ("{node} takes over its master's keys, without {who}'s", 0, KeyChange::LostAtFailover),
        ("{node} deletes {who}'s key", 0, KeyChange::Deleted),
        ("{who}'s key disappears from {node}", 1, KeyChange::Deleted),
        ("{who}'s key disappears from {node}", 1, KeyChange::Set),
    ];
    let event = sentence.words[0];
    let rest = &format!("{} counts on it until {}", sentence.words[1], sentence.words[2]);
    let holder = rest.split([',', ' ']).next().unwrap_or_default();
    let found = forms.iter().any(|(form, node, change)| {
        read(form, event).is_some_and(|names| {
            let (node, whose) = (names[*node], names[1 - *node]);
            whose == holder
                && ended(facts, sentence, whose, node, &|_, _, key| is(key, *change)).is_ok()
        })
    });
    let found = found
        || read("{node} lets {who}'s key expire", event)
            .filter(|names| runs(facts, names[0], sentence.at))
            .is_some_and(|names| is_over_now(facts, sentence.at, names[0], names[1]));
    let hands = [
        ("{who}'s {word} at {moment} deletes {who}'s key on {node}", KeyChange::Deleted),
        ("{who}'s {word} at {moment} overwrites {who}'s key on {node}", KeyChange::Set),
        ("{who}'s {word} at {moment} takes over {who}'s key on {node}", KeyChange::Changed),
    ];
    let is_by = |names: &[&str], key: &Key, change| {
        let op = key.by.and_then(|by| facts.op(by)).ok_or("nobody ends it")?;
        let is_it = op.caller == names[0] && op.kind.noun() == names[1];
        ensure(is_it && is_moment(names[2], op.call.at), "another ends it")?;
        is(key, change)
    };
    let by_hand = |(form, change): &(&str, KeyChange)| {
        read(form, event).is_some_and(|names| {
            let it = |_: &Facts, _, key: &Key| is_by(&names, key, *change);
            names[3] == holder && ended(facts, sentence, names[3], names[4], &it).is_ok()
        })
    };
    let found = found || hands.iter().any(by_hand);
    ensure(found, "no such key ends so then")?;
    let until = counts_on(facts, sentence.at, holder, rest)?;
    let others = facts.holds.iter().any(|hold| {
        let in_it = sentence.at < hold.from && hold.from.at < until;
        in_it && hold.op.caller != holder
    });
    ensure(!others, "somebody got in")
}

/// Who is named holds the lock now, or will be told so, and counts on it until the moment that is
/// returned.
fn counts_on(facts: &Facts, now: Instant, who: &str, text: &str) -> Result<Nanos, String> {
    let (granted, words) =
        match read("{who}, granted it at {moment}, counts on it until {moment}", text) {
            Some(words) => (Some(words[1]), vec![words[0], words[2]]),
            None => (None, read("{who} counts on it until {moment}", text).ok_or("until when?")?),
        };
    let mut holds = facts.holds.iter().filter(|hold| hold.op.caller == who);
    let counts = match granted {
        None => holds.any(|hold| hold.from <= now && now < hold.until),
        Some(granted) => holds.any(|hold| now < hold.from && is_moment(granted, hold.from.at)),
    };
    ensure(counts && words[0] == who, "who is named does not hold the lock")?;
    Ok(crate::true_stories::pattern::moment(words[1]).unwrap_or(0) * MILLISECOND)
}

fn renewal(facts: &Facts, sentence: &Sentence, sets: bool) -> Truth {
    let nodes = list(sentence.words[2]);
    let mut extends =
        facts.history.ops.iter().filter(|op| {
            op.caller == sentence.words[0] && matches!(op.kind, OpKind::Extend { .. })
        });
    let acts = |op: &&Op| {
        nodes.iter().all(|node| {
            facts.keys_on(node).any(|(index, key)| {
                let stood = facts.standing(node, index).is_some();
                key.by == Some(op.id) && key.at >= sentence.at && stood != sets
            })
        })
    };
    let extend = extends.find(acts).ok_or("no renewal of it did so there")?;
    let now = nodes.iter().any(|node| {
        facts.keys_on(node).any(|(_, key)| key.by == Some(extend.id) && key.at == sentence.at)
    });
    ensure(now, "it did so at another time")?;
    if sentence.words[1].is_empty() {
        return Ok(());
    }
    let words = read(", sent at {moment},", sentence.words[1]).ok_or("unknown words")?;
    let sent = facts.history.requests.iter().any(|request| {
        request.op == extend.id
            && nodes.iter().any(|node| *node == request.to)
            && request.legs[0].0 == Leg::Sent
            && is_moment(words[0], request.legs[0].1.at)
    });
    ensure(sent, "it was not sent then")
}

fn torn(facts: &Facts, sentence: &Sentence) -> Truth {
    let [who, first, node, next, second] = sentence.words[..] else { return Err("places".into()) };
    let applied = |command: &str, op: &Op| {
        let requests = facts.history.requests.iter().filter(|r| r.op == op.id && r.to == node);
        let legs = requests.filter(|r| r.command == command).flat_map(|r| &r.legs);
        let at: Vec<_> = legs.filter(|(leg, _)| *leg == Leg::Applied).map(|(_, at)| *at).collect();
        at
    };
    let found = facts.history.ops.iter().filter(|op| op.caller == who).any(|op| {
        let before = applied(first, op).contains(&sentence.at);
        let after = applied(second, op).into_iter().filter(|at| *at > sentence.at).min();
        let Some(after) = after.filter(|_| before) else { return false };
        facts.keys_on(node).any(|(_, key)| {
            let is_set = key.change == KeyChange::Set && sentence.at < key.at && key.at < after;
            let is_whose = key.by.is_some_and(|by| match next {
                "its own next" => facts.caller(by) == who && facts.grant(by) != facts.grant(op.id),
                other => format!("{}'s", facts.caller(by)) == other,
            });
            is_set && is_whose
        })
    });
    ensure(found, "nothing of that kind was set in between")
}
