//! Predicates of sentences about suspected and promoted masters.

use lockstorm::history::{Seen, Sighting};
use lockstorm_platform::time::{Instant, Nanos, SECOND};
use lockstorm_platform::trace::Sight;

use crate::true_stories::facts::{Facts, Truth, ensure};
use crate::true_stories::pattern::{is_length, list, read};
use crate::true_stories::templates::{Sentence, Template};

/// Equal observations within this time may be told in one sentence.
const TOGETHER: Nanos = 2 * SECOND;

pub const TEMPLATES: &[Template] = &[
    ("{node}'s wall clock is {length} {side} from the start.", |facts, sentence| {
        let clock = facts.finding.plan.clocks.get(sentence.words[0]).ok_or("its clock is right")?;
        let is_ahead = clock.wall_offset > 0;
        ensure((sentence.words[2] == "ahead") == is_ahead, "it is on the other side")?;
        ensure(
            is_length(sentence.words[1], clock.wall_offset.unsigned_abs()),
            "by something else",
        )?;
        ensure(sentence.at == Instant::default(), "that is no start")
    }),
    ("{node}, which followed {node}, is a master from now on{any}.", |facts, sentence| {
        let place = place(facts, sentence, |seen| seen.what == Seen::Leads)?;
        let (what, master) =
            role_before(facts, sentence.words[0], place).ok_or("it had no role")?;
        ensure(what == Seen::Follows && master == sentence.words[1], "it did not follow that one")?;
        news(facts, sentence, sentence.words[2])
    }),
    ("{node}, which led, now follows {node}.", |facts, sentence| {
        let place = place(facts, sentence, |seen| seen.what == Seen::Follows)?;
        let (what, _) = role_before(facts, sentence.words[0], place).ok_or("it had no role")?;
        ensure(what == Seen::Leads, "it did not lead")?;
        ensure(facts.history.sightings[place].master == sentence.words[1], "it follows another")
    }),
    ("{node} now follows {node} instead of {node}.", |facts, sentence| {
        let place = place(facts, sentence, |seen| seen.what == Seen::Follows)?;
        let (what, master) =
            role_before(facts, sentence.words[0], place).ok_or("it had no role")?;
        ensure(what == Seen::Follows && master == sentence.words[2], "it did not follow that one")?;
        ensure(facts.history.sightings[place].master == sentence.words[1], "it follows another")
    }),
    ("{node}'s process ends by itself.", |facts, sentence| {
        place(facts, sentence, |seen| seen.what == Seen::Exited).map(drop)
    }),
    ("{list} suspects that {node} is down.", |f, t| watched(f, t, Sight::Suspected, 1)),
    ("{list} suspect that {node} is down.", |f, t| watched(f, t, Sight::Suspected, 2)),
    ("{list} reports that {node} is down: enough agree.", |f, t| watched(f, t, Sight::Down, 1)),
    ("{list} report that {node} is down: enough agree.", |f, t| watched(f, t, Sight::Down, 2)),
    ("{list} see their clocks jump and act on nothing for 30 s: TILT.", |f, t| {
        list(t.words[0]).iter().try_for_each(|who| tilted(f, t, who))
    }),
    ("{node} sees its clock jump and acts on nothing for 30 s: TILT.", |f, t| {
        tilted(f, t, t.words[0])
    }),
    ("{list} names {node} as the master from now on.", |f, t| watched(f, t, Sight::Named, 1)),
    ("{list} name {node} as the master from now on.", |f, t| watched(f, t, Sight::Named, 2)),
];

/// A Sentinel was in TILT mode, at the told time or soon after; its clock was stepped, or it was
/// halted.
fn tilted(facts: &Facts, sentence: &Sentence, who: &str) -> Truth {
    let mut all = facts.history.sightings.iter();
    let soon = |seen: &Sighting| sentence.at <= seen.at && seen.at.at - sentence.at.at <= TOGETHER;
    ensure(all.any(|s| s.by == who && s.what == Seen::Tilted && soon(s)), "it was not tilted")?;
    let mut struck = facts.history.fault_intervals.iter();
    ensure(struck.any(|c| c.strikes(who) && c.from <= sentence.at), "nothing struck it before")
}

fn place(facts: &Facts, sentence: &Sentence, is: fn(&Sighting) -> bool) -> Result<usize, String> {
    let mut all = facts.history.sightings.iter();
    let found =
        all.position(|seen| seen.at == sentence.at && seen.by == sentence.words[0] && is(seen));
    found.ok_or_else(|| "it did not become so then".to_owned())
}

/// The last role that a node reported before that.
fn role_before<'a>(facts: &Facts<'a>, node: &str, place: usize) -> Option<(Seen, &'a str)> {
    let mut earlier = facts.history.sightings[..place].iter().rev();
    let last = earlier.find(|s| s.by == node && matches!(s.what, Seen::Leads | Seen::Follows))?;
    Some((last.what, &last.master))
}

/// Each of these, at least so many, made that observation of the master soon, the first of them now.
fn watched(facts: &Facts, sentence: &Sentence, sight: Sight, least: usize) -> Truth {
    let saw = |by: &str| {
        facts.history.sightings.iter().find(|seen| {
            let soon = sentence.at <= seen.at && seen.at.at - sentence.at.at <= TOGETHER;
            seen.by == by
                && seen.master == sentence.words[1]
                && soon
                && seen.what == Seen::Watched(sight)
        })
    };
    let by = list(sentence.words[0]);
    ensure(by.len() >= least, "it is one alone")?;
    ensure(by.iter().all(|by| saw(by).is_some()), "one did not see that")?;
    ensure(by.iter().any(|by| saw(by).is_some_and(|s| s.at == sentence.at)), "none saw it now")
}

/// Whether a new master has the key of a holder.
fn news(facts: &Facts, sentence: &Sentence, text: &str) -> Truth {
    if text.is_empty() {
        return Ok(());
    }
    let node = sentence.words[0];
    let before = facts.history.keys.partition_point(|key| key.at < sentence.at);
    let has = |who: &str| {
        let owner = facts.standing(node, before).and_then(|(_, owner)| owner);
        owner.is_some_and(|owner| facts.caller(owner) == who)
    };
    if let Some(words) = read(": it has {who}'s key", text) {
        return ensure(has(words[0]), "it has not");
    }
    let words = read(": {who}'s key on {node} has not reached it", text).ok_or("unknown words")?;
    // One of an earlier grant may still be there.
    let there = facts.keys_on(words[1]).filter(|(_, key)| key.at < sentence.at);
    let mut owners = there.filter_map(|(_, key)| facts.owner(key.by?));
    let last = owners.rfind(|owner| facts.caller(*owner) == words[0]);
    let owner = last.ok_or("there was no such key")?;
    let stands = facts.standing(node, before).and_then(|(_, owner)| owner);
    ensure(stands != Some(owner), "it has the key")
}
