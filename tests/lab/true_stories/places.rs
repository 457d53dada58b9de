//! Predicates of sentences about waiters: their places in a queue, and whom they wait for.

use lockstorm::history::{Key, Op, Outcome};
use lockstorm_platform::trace::KeyChange;

use crate::true_stories::facts::{Facts, Truth, ensure};
use crate::true_stories::grants::is_acquire;
use crate::true_stories::templates::{Sentence, Template};

pub const TEMPLATES: &[Template] = &[
    ("{who} joins the queue on {node}.", |facts, sentence| {
        let joins = |place: &Place| {
            place.is_of(sentence.words[0], sentence.words[1]) && place.joined.at == sentence.at
        };
        ensure(places(facts).iter().any(joins), "nobody of that name joins it then")
    }),
    ("{who} waits for {key}, which {who} has.", waits_for),
    ("{who} removes {who}'s place from the queue on {node}.", |facts, sentence| {
        let is_it = |place: &Place| {
            let gone = place.gone.filter(|gone| gone.at == sentence.at);
            let by = gone.and_then(|gone| facts.op(gone.by?));
            place.is_of(sentence.words[1], sentence.words[2])
                && by.is_some_and(|by| by.caller == sentence.words[0])
        };
        ensure(places(facts).iter().any(is_it), "it removes no such place then")
    }),
    ("{who} gives up its place in the queue on {node} for another one.", |facts, sentence| {
        moves(facts, sentence, (sentence.words[0], sentence.words[0], sentence.words[1]))
    }),
    ("{who} moves {who}'s place in the queue on {node}.", |facts, sentence| {
        ensure(sentence.words[0] != sentence.words[1], "it is its own place")?;
        moves(facts, sentence, (sentence.words[0], sentence.words[1], sentence.words[2]))
    }),
    ("{who}'s process dies while {who} stands in the queue.", |facts, sentence| {
        let stands = |place: &Place| {
            let is_there = place.joined.at < sentence.at && !place.is_gone(sentence);
            is_there && place.waiter.caller == sentence.words[0]
        };
        ensure(sentence.words[0] == sentence.words[1], "the dead is another")?;
        ensure(places(facts).iter().any(stands), "it stands in no queue")?;
        let host = facts.finding.history.ops.iter().find(|op| op.caller == sentence.words[0]);
        let host = host.ok_or("there is no such caller")?;
        ensure(facts.is_down(&host.process, sentence.at.at), "its process lives")
    }),
    ("{who} no longer has the lock, and its place stays in the queue.", |facts, sentence| {
        stays(facts, sentence, |outcome| matches!(outcome, Outcome::Granted { .. }))
    }),
    ("{who} is refused, and its place stays in the queue.", |facts, sentence| {
        stays(facts, sentence, |outcome| matches!(outcome, Outcome::Refused { .. }))
    }),
    ("{who} gives up, and its place stays in the queue.", |facts, sentence| {
        let is_neither = |outcome: &Outcome| {
            !matches!(outcome, Outcome::Granted { .. } | Outcome::Refused { .. })
        };
        stays(facts, sentence, is_neither)
    }),
    (
        "{who}'s place is removed from the queue on {node}, and the queue moves on.",
        |facts, sentence| {
            let is_it = |place: &Place| {
                place.is_of(sentence.words[0], sentence.words[1])
                    && place.gone.is_some_and(|gone| gone.at == sentence.at)
            };
            ensure(places(facts).iter().any(is_it), "no such place is removed then")
        },
    ),
    (
        "{who}'s place is still at the head of the queue on {node}, and nobody behind it can take \
         the free lock.",
        |facts, sentence| {
            let places = places(facts);
            let is_it = |place: &&Place| place.is_of(sentence.words[0], sentence.words[1]);
            let own = places.iter().find(|place| is_it(place) && place.gone.is_none());
            let own = own.ok_or("no such place stays")?;
            let is_ahead = |place: &Place| {
                let joined =
                    place.joined.at < own.joined.at && place.joined.node == own.joined.node;
                joined && !place.is_gone(sentence)
            };
            ensure(!places.iter().any(is_ahead), "another stands ahead of it")
        },
    ),
];

/// An operation of `who` changes then what is the place of `whose` on that node.
fn moves(facts: &Facts, sentence: &Sentence, (who, whose, node): (&str, &str, &str)) -> Truth {
    let is_there = |place: &Place| {
        place.is_of(whose, node) && place.joined.at < sentence.at && !place.is_gone(sentence)
    };
    let places: Vec<_> = places(facts).into_iter().filter(|place| is_there(place)).collect();
    let moves = facts.history.keys.iter().filter(|key| {
        let is_now = key.at == sentence.at && key.change == KeyChange::Changed;
        is_now && key.by.and_then(|by| facts.op(by)).is_some_and(|by| by.caller == who)
    });
    let is_place = |key: &Key, place: &Place| {
        let joined = place.joined;
        key.key == joined.key && key.of == joined.of && key.node == joined.node
    };
    let mut moved = moves.filter(|key| places.iter().any(|place| is_place(key, place)));
    ensure(moved.next().is_some(), "it moves no such place then")
}

/// An acquire of a group waits for a key that another pending acquire has set.
fn waits_for(facts: &Facts, sentence: &Sentence) -> Truth {
    let [who, name, whose] = sentence.words[..] else { return Err("it has other words".into()) };
    let pending = |op: &&Op| {
        op.call.instant() <= sentence.at && op.ret.is_none_or(|ret| sentence.at < ret.instant())
    };
    let mut keys = facts.history.keys.iter().filter(|key| key.of.is_none() && key.key == name);
    let last = keys.rfind(|key| key.at <= sentence.at);
    let set = last.filter(|key| key.change == KeyChange::Set).and_then(|key| facts.op(key.by?));
    let set = set.filter(pending).ok_or("no pending acquire has that key")?;
    let mut ops = facts.history.ops.iter().filter(pending).filter(|op| op.caller == who);
    ensure(set.caller == whose, "another has that key")?;
    ensure(ops.any(|op| op.keys.iter().any(|key| key == name)), "it wants no such key")
}

/// A place in the queue, as the changes of its members on one node have it.
struct Place<'a> {
    waiter: &'a Op,
    joined: &'a Key,
    gone: Option<&'a Key>,
}

impl Place<'_> {
    fn is_of(&self, caller: &str, node: &str) -> bool {
        self.waiter.caller == caller && self.joined.node == node
    }

    fn is_gone(&self, sentence: &Sentence) -> bool {
        self.gone.is_some_and(|gone| gone.at <= sentence.at)
    }
}

fn places<'a>(facts: &Facts<'a>) -> Vec<Place<'a>> {
    let Some(queue) = &facts.finding.promise.queue else { return Vec::new() };
    let of_queue = facts.history.keys.iter().filter(|key| key.of.as_ref() == Some(queue));
    let changes: Vec<&Key> = of_queue.collect();
    let sets = changes.iter().enumerate().filter(|(_, key)| key.change == KeyChange::Set);
    let place = |(index, joined): (usize, &&'a Key)| {
        let waiter = facts.op(joined.by?)?;
        let mut later = changes[index + 1..].iter();
        let gone = later.find(|key| {
            let stays = matches!(key.change, KeyChange::Extended | KeyChange::Changed);
            key.node == joined.node && key.key == joined.key && !stays
        });
        Some(Place { waiter, joined, gone: gone.copied() })
    };
    sets.filter_map(place).filter(|place| is_acquire(facts, place.waiter)).collect()
}

/// An acquire was over in this way, and its place was still there.
fn stays(facts: &Facts, sentence: &Sentence, is_so: impl Fn(&Outcome) -> bool) -> Truth {
    let is_it = |place: &Place| {
        let waiter = place.waiter;
        let returned = waiter.ret.is_some_and(|ret| ret.instant() <= sentence.at);
        let is_there = place.joined.at < sentence.at && !place.is_gone(sentence);
        waiter.caller == sentence.words[0] && is_so(&waiter.outcome) && returned && is_there
    };
    ensure(places(facts).iter().any(is_it), "no acquire was over so and left its place")
}
