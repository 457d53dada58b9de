//! Predicates of sentences about commands that an operator gave to a node.

use lockstorm::history::{FaultInterval, Key, OpId, Seen};
use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::{Instant, MILLISECOND, SECOND};
use lockstorm_platform::trace::KeyChange;

use crate::true_stories::facts::{Facts, Truth, ensure, is_death};
use crate::true_stories::faults::word_of;
use crate::true_stories::pattern::{is_moment, read};
use crate::true_stories::templates::{Sentence, Template};

pub const TEMPLATES: &[Template] = &[
    ("{node} is made master{any}.", promoted),
    ("{node} receives the order to become master.", |f, t| given(f, t, "failover")),
    ("{node} evicts a key{any}.", |f, t| removes(f, t, "evict", None)),
    ("{node} evicts {who}'s key{any}.", |f, t| removes(f, t, "evict", Some(t.words[1]))),
    ("{node} receives the order to evict a key.", |f, t| given(f, t, "evict")),
    ("{node} is flushed{any}.", |f, t| match read("{any}: {who}'s key is gone", t.words[1]) {
        Some(words) => {
            let words = vec![t.words[0], words[1], words[0]];
            let sentence = Sentence { at: t.at, words };
            removes(f, &sentence, "flush", Some(sentence.words[1]))
        }
        None => removes(f, t, "flush", None),
    }),
    ("{node} receives the order to delete all its keys.", |f, t| given(f, t, "flush")),
];

/// The commands of this name that were given to a node by now and did something.
fn commands<'a>(facts: &Facts<'a>, sentence: &Sentence, word: &str) -> Vec<&'a FaultInterval> {
    let own = facts.struck(sentence.words[0]).filter(|c| word_of(&c.verb) == word);
    own.filter(|c| c.met != Some(0) && c.from <= sentence.at).collect()
}

/// Whether a node runs: it is not down, paused or asleep.
pub fn runs(facts: &Facts, node: &str, at: Instant) -> bool {
    let stops =
        |c: &&FaultInterval| is_death(&c.verb) || matches!(c.verb, Verb::Pause | Verb::Suspend);
    let mut stopped = facts.struck(node).filter(stops);
    !stopped.any(|c| c.from <= at && c.to.is_none_or(|to| at < to))
}

/// A command was given now, and nothing shows that its node carried it out.
fn given(facts: &Facts, sentence: &Sentence, word: &str) -> Truth {
    let commands = commands(facts, sentence, word);
    let mut now = commands.iter().filter(|c| c.from == sentence.at);
    ensure(now.any(|c| c.done.is_empty()), "no command that did nothing to the node is given then")
}

/// When the command was given that is carried out now: more than 100 ms ago if that is said.
fn since(facts: &Facts, sentence: &Sentence, word: &str, text: &str) -> Truth {
    let commands = commands(facts, sentence, word);
    let now: Vec<_> = commands.iter().filter(|c| c.done.contains(&sentence.at)).collect();
    let [this] = now[..] else { return Err(format!("{} commands act now", now.len())) };
    match read(", as ordered at {moment}", text) {
        Some(words) => ensure(is_moment(words[0], this.from.at), "it was told at another time"),
        None if text.is_empty() => {
            ensure(sentence.at.at - this.from.at <= 100 * MILLISECOND, "it was told long ago")
        }
        None => Err(format!("'{text}' is unknown")),
    }
}

/// A node carries out a command now that removes keys: that caller's, if one is named.
fn removes(facts: &Facts, sentence: &Sentence, word: &str, whose: Option<&str>) -> Truth {
    let node = sentence.words[0];
    let change = if word == "evict" { KeyChange::Evicted } else { KeyChange::Deleted };
    let mut now = facts.keys_on(node).filter(|(_, key)| {
        let soon = sentence.at <= key.at && key.at.at <= sentence.at.at + SECOND;
        soon && key.change == change && key.by.is_none()
    });
    let Some(who) = whose else {
        // A flush may have found other keys than the lock's: the counter of fences.
        let mut keys = facts.history.keys.iter().filter(|key| key.node == node);
        if keys.any(|key| key.at == sentence.at && key.change == change && key.by.is_none()) {
            return since(facts, sentence, word, sentence.words[1]);
        }
        return Err("nothing shows that it is carried out now".to_owned());
    };
    let is_its = |owner: Option<OpId>| owner.is_some_and(|owner| facts.caller(owner) == who);
    let goes = |key: &Key| key.at == sentence.at && key.change == change && key.by.is_none();
    // With the key of a semaphore all its members go.
    let mut members = facts.members_on(node).filter(|(_, key)| goes(key));
    let gone = now.any(|(index, _)| is_its(facts.standing(node, index).and_then(|(_, by)| by)))
        || members.any(|(index, _)| is_its(facts.owner_of_member(index)));
    ensure(gone, "no key of that caller goes there then")?;
    since(facts, sentence, word, sentence.words[2])
}

/// A node begins to lead now, by a command.
fn promoted(facts: &Facts, sentence: &Sentence) -> Truth {
    let (node, text) = (sentence.words[0], sentence.words[1]);
    let mut reports = facts.history.sightings.iter();
    let now = reports.any(|s| s.by == node && s.what == Seen::Leads && s.at == sentence.at);
    ensure(now, "it does not begin to lead then")?;
    let (by, rest) = text.split_once(": ").unwrap_or((text, ""));
    since(facts, sentence, "failover", by)?;
    if rest.is_empty() {
        return Ok(());
    }
    let (news, asked) = rest.split_once(", and ").ok_or("it does not say who asks it")?;
    queried_next(facts, sentence.at, node, asked)?;
    if let Some(words) = read("it has {who}'s key", news) {
        return has_key(facts, sentence.at, node, words[0]);
    }
    let words = read("{who}'s key on {node} has not reached it", news).ok_or("unknown news")?;
    let had = facts.keys_on(words[1]).any(|(_, key)| {
        key.at < sentence.at && key.by.is_some_and(|by| facts.caller(by) == words[0])
    });
    ensure(had, "there was no such key")?;
    // It may have an older key of that caller.
    let before = facts.history.keys.partition_point(|key| key.at.at <= sentence.at.at);
    let owner = |node| facts.standing(node, before).and_then(|(_, owner)| owner);
    let is_same = owner(node).is_some() && owner(node) == owner(words[1]);
    ensure(!is_same || !runs(facts, node, sentence.at), "it has the key")
}

fn has_key(facts: &Facts, at: Instant, node: &str, who: &str) -> Truth {
    let before = facts.history.keys.partition_point(|key| key.at.at <= at.at);
    let standing = facts.standing(node, before).ok_or("it has no key")?;
    ensure(standing.1.is_some_and(|owner| facts.caller(owner) == who), "it has another's key")?;
    ensure(runs(facts, node, at), "it does not run")
}

/// The targets of the requests that clients send until another node is promoted.
fn queried_next(facts: &Facts, since: Instant, node: &str, text: &str) -> Truth {
    let group = group(facts, node);
    let orders = facts.history.fault_intervals.iter().filter(|c| c.verb == Verb::Failover);
    let of_group = |c: &&FaultInterval| group.iter().any(|node| c.strikes(node));
    let leads = orders.filter(of_group).filter_map(|c| c.done.first().copied());
    let next = leads.filter(|at| *at > since).min();
    let sent = facts.history.requests.iter().filter(|r| {
        let at = r.legs[0].1;
        at > since && next.is_none_or(|next| at < next) && group.iter().any(|node| *node == r.to)
    });
    let sent: Vec<bool> = sent.map(|request| request.to == node).collect();
    let first = sent.iter().position(|here| *here);
    if text == "clients go to it from now on" {
        let all = first == Some(0) && sent.iter().all(|here| *here);
        return ensure(all, &format!("the first of {} that reaches it is {first:?}", sent.len()));
    }
    if text == "the next request of a client goes to it" {
        return ensure(first == Some(0), "it does not");
    }
    if text == "no client sends it a request" {
        return ensure(first.is_none(), "a client does");
    }
    let words = read("{number} request{any} elsewhere before one reaches it", text);
    let words = words.ok_or("unknown words")?;
    ensure(first.map(|first| first.to_string()).as_deref() == Some(words[0]), "not so many")
}

/// The nodes that ever followed one another, by their own reports.
fn group(facts: &Facts, node: &str) -> Vec<String> {
    let mut group = vec![node.to_owned()];
    let follows = facts.history.sightings.iter().filter(|seen| seen.what == Seen::Follows);
    let pairs: Vec<_> = follows.map(|seen| (&seen.by, &seen.master)).collect();
    loop {
        let is_in = |name: &String| group.contains(name);
        let new = pairs.iter().find_map(|(by, master)| match (is_in(by), is_in(master)) {
            (true, false) => Some((*master).clone()),
            (false, true) => Some((*by).clone()),
            _ => None,
        });
        let Some(new) = new else { return group };
        group.push(new);
    }
}
