//! Predicates of sentences about a key by which several callers have the lock.

use lockstorm::history::{Key, Op, OpId, OpKind};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::true_stories::facts::{Facts, Held, Truth, ensure};
use crate::true_stories::templates::{Sentence, Template};

pub const TEMPLATES: &[Template] = &[
    (
        "{who}'s release takes effect on the key on {node} by which {who} has the lock, and has no part in it.",
        |facts, sentence| {
            let (index, release) = released(facts, sentence)?;
            let acquire = facts.grant(release).ok_or("it releases nothing")?;
            // Since the last key that no reader set over that of readers.
            let keys = facts.keys_on(sentence.words[1]).filter(|(other, _)| *other < index);
            let starts = |key: &Key| {
                let by = key.by.and_then(|by| facts.op(by));
                key.change == KeyChange::Set && by.is_some_and(|by| !by.shared)
                    || key.change == KeyChange::Deleted
                    || key.change == KeyChange::Expired
            };
            let since: Vec<(usize, &Key)> = keys.collect();
            let first = since.iter().rposition(|(_, key)| starts(key)).unwrap_or(0);
            let has_part = since[first..].iter().any(|(_, key)| key.by == Some(acquire));
            ensure(!has_part, "its acquire has a part in the key")
        },
    ),
    (
        "{who}'s release takes effect again on the key on {node} by which {who} has the lock.",
        |facts, sentence| {
            let (index, release) = released(facts, sentence)?;
            let acquire = facts.grant(release);
            let mut keys = facts.keys_on(sentence.words[1]).take_while(|(it, _)| *it < index);
            let is_release = |op: &Op| matches!(op.kind, OpKind::Release { .. });
            let before = keys.any(|(_, key)| {
                let by = key.by.and_then(|by| facts.op(by)).filter(|by| is_release(by));
                let is_same = by.is_some_and(|by| facts.grant(by.id) == acquire);
                is_same && key.at.at < sentence.at.at
            });
            ensure(before, "nothing was given back before")
        },
    ),
    (
        "{who}'s release deletes the key on {node} by which {who} has the lock, too.",
        |facts, sentence| {
            let (index, _) = released(facts, sentence)?;
            let is_deleted = facts.history.keys[index].change == KeyChange::Deleted;
            ensure(is_deleted, "it does not delete the key")
        },
    ),
    (
        "The key on {node} by which {who} has the lock is gone: it has expired.",
        |facts, sentence| {
            let mut keys = facts.keys_on(sentence.words[0]);
            let is_it = |key: &Key| key.at == sentence.at && key.change == KeyChange::Expired;
            ensure(keys.any(|(_, key)| is_it(key)), "no key expires then")?;
            holds(facts, sentence, sentence.words[1])
        },
    ),
];

/// The change of the lock's key by a release of the first caller, while the second holds the lock.
fn released(facts: &Facts, sentence: &Sentence) -> Result<(usize, OpId), String> {
    let [who, node, whose] = sentence.words[..] else { return Err("other words".into()) };
    holds(facts, sentence, whose)?;
    let found = facts.keys_on(node).find_map(|(index, key)| {
        let by = facts.op(key.by?)?;
        let is_it = key.at == sentence.at && by.caller == who;
        (is_it && matches!(by.kind, OpKind::Release { .. })).then_some((index, by.id))
    });
    found.ok_or_else(|| "no release of that caller changes the key then".to_owned())
}

fn holds(facts: &Facts, sentence: &Sentence, who: &str) -> Truth {
    let at = sentence.at;
    let is_it = |held: &Held| {
        let decided = held.op.call.instant() < at && at < held.until;
        held.op.caller == who && decided
    };
    ensure(facts.holds.iter().any(is_it), "that caller does not have the lock")
}

/// Whether a node let an acquire in by the key of another acquire of this caller.
pub fn shares(facts: &Facts, hold: &Held, node: &str, whose: &str) -> Truth {
    let mut requests = facts.history.requests.iter().rev().filter(|it| it.op == hold.op.id);
    let decided = requests.find_map(|request| {
        let applied = request.at(Leg::Applied)?;
        (request.to == node && !request.declined && applied < hold.from).then_some(applied)
    });
    let decided = decided.ok_or("the node did not decide on the acquire")?;
    let later = facts.keys_on(node).find(|(_, key)| decided < key.at).map(|(index, _)| index);
    let standing = facts.standing(node, later.unwrap_or(usize::MAX)).and_then(|(_, by)| by);
    let owner = standing.ok_or("no key of an acquire is there")?;
    ensure(owner != hold.op.id && facts.caller(owner) == whose, "it is the key of another")
}
