//! Predicates of sentences about runs that held: grants, waits, the nearest miss.

use std::collections::BTreeSet;

use lockstorm::history::{AccessKind, FaultInterval, Key, Op, OpId, OpKind, Outcome, PROBE, Seen};
use lockstorm_platform::time::{Instant, Nanos};
use lockstorm_platform::trace::KeyChange;

use crate::true_stories::facts::{Facts, Held, Truth, ensure, is_death, is_granted, is_removal};
use crate::true_stories::faults::is_back;
use crate::true_stories::grants::is_acquire;
use crate::true_stories::pattern::{is_length, is_moment, is_rounded, list, read};
use crate::true_stories::templates::{Sentence, Template};

pub const TEMPLATES: &[Template] = &[
    (
        "This is the story of {any}, the one of its locks that came closest to a violation.",
        |facts, sentence| ensure(facts.lock() == sentence.words[0], "it is of another one"),
    ),
    ("{who} is granted the lock; nobody else is while the clients run.{any}", |facts, sentence| {
        first(facts, sentence)?;
        ensure(clients(facts).all(|h| h.op.caller == sentence.words[0]), "others are")
    }),
    (
        "{who} is granted the lock; {number} grant{any} to {list} follow{any}, until {moment}.{any}",
        |facts, sentence| {
            first(facts, sentence)?;
            let more: usize = sentence.words[1].parse().map_err(|_| "no number")?;
            ensure(more < clients(facts).count(), "there are fewer grants")?;
            let named = list(sentence.words[3]);
            ensure(named.iter().all(|name| clients(facts).any(|h| h.op.caller == *name)), "who?")?;
            let last = clients(facts).map(|h| h.until).max().ok_or("no grants")?;
            ensure(is_moment(sentence.words[5], last.at), "they end otherwise")?;
            again(facts, more, sentence.words[6])
        },
    ),
    ("{node} is back, and still has {who}'s key.", kept),
    ("{node} is started again, and still has {who}'s key.", kept),
    ("{node} is back without {who}'s key{any}.", forgot),
    ("{node} is started again without {who}'s key{any}.", forgot),
    (
        "{who}, which was paused, outlives its lease by {length}, until {moment}; nobody else is let in.",
        |f, t| outlives(f, t, true),
    ),
    (
        "{who}, whose process was paused, outlives its lease by {length}, until {moment}; nobody else is let in.",
        |f, t| outlives(f, t, true),
    ),
    ("{who} outlives its lease by {length}, until {moment}; nobody else is let in.", |f, t| {
        outlives(f, t, false)
    }),
    (
        "{who}'s {word} of {length} ends {length} before its lease; nobody else is let in.",
        |facts, sentence| spared(facts, sentence, None),
    ),
    (
        "{who}'s {word} of {length} ends {length} before its key on {node} would have been over; nobody else is let in.",
        |facts, sentence| spared(facts, sentence, Some(sentence.words[4])),
    ),
    ("{who}'s lease is extended {any} before its hold ends at {moment}.", |facts, sentence| {
        let kept = facts.history.ops.iter().filter(|op| {
            op.caller == sentence.words[0] && matches!(op.kind, OpKind::Extend { .. })
        });
        let now = kept.clone().any(|op| {
            matches!(op.outcome, Outcome::Kept { .. })
                && op.ret.map(|r| r.instant()) == Some(sentence.at)
        });
        ensure(now, "it is not prolonged now")?;
        let end = facts.holds.iter().any(|h| {
            h.op.caller == sentence.words[0]
                && is_moment(sentence.words[2], h.until.at)
                && h.until >= sentence.at
        });
        ensure(end, "no hold of it ends then")
    }),
    (
        "{who} waits longest: it tries {number} {word} from here on, until it is let in after {length}.",
        |f, t| waits(f, t, true),
    ),
    (
        "{who} waits longest: it tries {number} {word} from here on, in vain for {length}.",
        |f, t| {
            waits(f, t, false)?;
            ensure(!is_cut(f, t), "the heal ends it")
        },
    ),
    (
        "{who} waits longest: it tries {number} {word} from here on, in vain for {length}, until the faults are healed.",
        |f, t| {
            waits(f, t, false)?;
            ensure(is_cut(f, t), "the heal does not end it")?;
            ensure(last_attempt(f, t).is_some_and(|op| !is_granted(op)), "it is let in afterwards")
        },
    ),
    (
        "{who} waits longest: it tries {number} {word} from here on, in vain for {length}, until the faults are healed, and is let in at {moment}.",
        |f, t| {
            waits(f, t, false)?;
            ensure(is_cut(f, t), "the heal does not end it")?;
            let last = last_attempt(f, t).filter(|op| is_granted(op)).and_then(|op| op.ret);
            ensure(last.is_some_and(|ret| is_moment(t.words[4], ret.at)), "it is let in otherwise")
        },
    ),
    (
        "The closest hand-over: {who} is granted the lock {length} after {who}'s hold ended.",
        |facts, sentence| {
            let mut holds = facts.holds.iter();
            let next = holds.find(|h| h.op.caller == sentence.words[0] && h.from == sentence.at);
            let next = next.ok_or("no grant of it then")?;
            let found = facts.holds.iter().any(|h| {
                let gap = next.from.at.checked_sub(h.until.at);
                h.op.caller == sentence.words[2]
                    && gap.is_some_and(|gap| is_length(sentence.words[1], gap))
            });
            ensure(found, "nobody's hold ended so long before")?;
            let nexts = || facts.holds.iter().filter(|hold| hold.op.process != PROBE);
            let gaps = nexts().flat_map(|next| {
                let others = facts.holds.iter().filter(|h| h.op.caller != next.op.caller);
                others.filter_map(|h| next.from.at.checked_sub(h.until.at))
            });
            let closest = gaps.min().ok_or("there is no hand-over")?;
            ensure(is_length(sentence.words[1], closest), &format!("{closest} ns are closer"))
        },
    ),
    ("The probe is granted the lock {length} after the heal.", |facts, sentence| {
        probed(facts, sentence)?;
        let healed = facts.history.healed.ok_or("nothing is healed")?;
        let mut holds = facts.holds.iter().filter(|h| h.op.process != PROBE);
        ensure(!holds.any(|h| healed < h.until && h.until <= sentence.at), "a hold ended since")
    }),
    (
        "The probe is granted the lock {length} after the heal, {length} after {who}'s hold ended.",
        |facts, sentence| {
            probed(facts, sentence)?;
            let holds = facts.holds.iter().filter(|h| h.op.process != PROBE);
            let ends = holds.filter(|h| h.until <= sentence.at).map(|h| (h.until, &h.op.caller));
            let (end, who) = ends.max().ok_or("nobody held it")?;
            ensure(who == sentence.words[2], "another held it last")?;
            ensure(is_length(sentence.words[1], sentence.at.at - end.at), "it ended otherwise")
        },
    ),
    ("The nearest miss: {any}.", nearest),
];

/// The probe's first grant, so long after the heal.
fn probed(facts: &Facts, sentence: &Sentence) -> Truth {
    let mut holds = facts.holds.iter().filter(|h| h.op.process == PROBE);
    ensure(holds.next().is_some_and(|h| h.from == sentence.at), "no such grant")?;
    let healed = facts.history.healed.ok_or("nothing is healed")?;
    ensure(is_length(sentence.words[0], sentence.at.at - healed.at), "it takes otherwise long")
}

/// A node that was down has a caller's key.
fn kept(facts: &Facts, sentence: &Sentence) -> Truth {
    ensure(is_back(facts, sentence.words[0], sentence), "it was not down")?;
    let before = facts.history.keys.partition_point(|key| key.at.at <= sentence.at.at);
    let (born, owner) = facts.standing(sentence.words[0], before).ok_or("it has no key")?;
    let over = facts.runs_out(sentence.words[0], born, before);
    ensure(over.is_none_or(|over| sentence.at.at < over), "its time to live is over")?;
    ensure(owner.is_some_and(|o| facts.caller(o) == sentence.words[1]), "it has another's")?;
    // A node that still reads its files shows a loss only later.
    let next = facts.keys_on(sentence.words[0]).find(|(index, _)| *index >= before);
    let Some((_, next)) = next.filter(|(_, key)| key.change == KeyChange::LostAtRestart) else {
        return Ok(());
    };
    let mut deaths = facts.struck(sentence.words[0]).filter(|c| is_death(&c.verb));
    ensure(deaths.any(|c| sentence.at < c.from && c.from <= next.at), "it has lost it")
}

/// A node that was down had a caller's key and no longer has it.
fn forgot(facts: &Facts, sentence: &Sentence) -> Truth {
    ensure(is_back(facts, sentence.words[0], sentence), "it was not down")?;
    let before = facts.history.keys.partition_point(|key| key.at.at <= sentence.at.at);
    let owner = facts.standing(sentence.words[0], before).and_then(|(_, owner)| owner);
    ensure(owner.is_none_or(|o| facts.caller(o) != sentence.words[1]), "it has the key")?;
    let had = facts.keys_on(sentence.words[0]).any(|(_, key)| {
        key.at < sentence.at && key.by.is_some_and(|by| facts.caller(by) == sentence.words[1])
    });
    ensure(had, "it never had it")
}

fn clients<'a, 'b>(facts: &'b Facts<'a>) -> impl Iterator<Item = &'b Held<'a>> {
    facts.holds.iter().filter(|hold| hold.op.process != PROBE)
}

fn first(facts: &Facts, sentence: &Sentence) -> Truth {
    let first = clients(facts).min_by_key(|hold| hold.from).ok_or("nobody is")?;
    ensure(
        first.from == sentence.at && first.op.caller == sentence.words[0],
        "another is the first",
    )
}

/// Whether this many more grants are nested in others.
fn again(facts: &Facts, more: usize, text: &str) -> Truth {
    let rest = clients(facts).count() - 1 - more;
    if rest == 0 {
        return ensure(text.is_empty(), "nobody takes it again");
    }
    let words = read(" Whoever has it takes it again, {number} {word}.", text).ok_or("no count")?;
    ensure(words[0] == rest.to_string(), "it is taken again otherwise often")
}

/// A halt of this length ends now, its holder knows of a lease that lasts for so much longer, and
/// each of its keys is there.
/// A halted holder resumes this long before its lease is over, or its key on a node.
fn spared(facts: &Facts, sentence: &Sentence, keyed: Option<&str>) -> Truth {
    let (who, word) = (sentence.words[0], sentence.words[1]);
    let hold = facts
        .holds
        .iter()
        .find(|h| h.op.caller == who && h.from < sentence.at && sentence.at <= h.until);
    let hold = hold.ok_or("it holds nothing then")?;
    let mut halts = facts.struck(&hold.op.process).filter(|c| c.verb.word() == word);
    let is_it = |c: &FaultInterval| {
        c.to == Some(sentence.at) && is_length(sentence.words[2], sentence.at.at - c.from.at)
    };
    let halt = halts.find(|c| is_it(c)).ok_or("no such halt ends now")?;
    let others = facts.holds.iter().filter(|h| h.op.caller != who);
    let is_let_in = |from: Instant| halt.from <= from && from <= sentence.at;
    ensure(!others.map(|h| h.from).any(is_let_in), "somebody is let in")?;
    let over = facts.lease_known(hold.op, sentence.at).ok_or("its lease has no end")?;
    let left = over.checked_sub(sentence.at.at).ok_or("its lease is over")?;
    match keyed {
        None => ensure(is_length(sentence.words[3], left), "its lease ends otherwise")?,
        Some(node) => {
            let before = facts.history.keys.iter().take_while(|key| key.at < sentence.at).count();
            let (born, _) = facts.standing(node, before).ok_or("no key is there")?;
            let over = facts.runs_out(node, born, before).ok_or("it never ends")?;
            let key_left = over.saturating_sub(sentence.at.at);
            ensure(is_length(sentence.words[3], key_left) && key_left < left, "it ends otherwise")?;
        }
    }
    let nodes: BTreeSet<&str> = facts.history.keys.iter().map(|key| key.node.as_str()).collect();
    let before = facts.history.keys.iter().take_while(|key| key.at < sentence.at).count();
    let is_own = |id| facts.grant(id) == Some(hold.op.id);
    for node in nodes {
        let had = facts.keys_on(node).any(|(at, key)| at < before && key.by.is_some_and(is_own));
        let has = facts.standing(node, before).and_then(|(_, owner)| owner) == Some(hold.op.id);
        ensure(!had || has, "its key is gone")?;
        let last = facts.keys_on(node).rfind(|(at, _)| *at < before).filter(|_| has);
        let is_over = last.is_some_and(|(_, key)| facts.is_over_at(key, sentence.at.at));
        // Who led the node's group by then, without the key?
        let roles = facts.history.sightings.iter().filter(|seen| seen.at < sentence.at);
        let role = |name: &str| {
            let is_role = |seen: &Seen| matches!(seen, Seen::Follows | Seen::Leads);
            roles.clone().rfind(|seen| seen.by == name && is_role(&seen.what)).map(|seen| seen.what)
        };
        let is_replica = role(node) == Some(Seen::Follows);
        ensure(is_replica || !is_over, "its key is over")?;
        let kin = roles.clone().filter(|seen| seen.what == Seen::Follows && seen.master == node);
        for other in kin.filter(|_| has && !is_replica) {
            let lacks = facts.standing(&other.by, before).is_none();
            let dead = facts.struck(&other.by).any(|c| is_death(&c.verb));
            let leads = role(&other.by) == Some(Seen::Leads);
            ensure(!leads || !lacks || dead, "another node leads without the key")?;
        }
    }
    Ok(())
}

/// From now on a caller tries this often, and is granted at the last try if at all.
/// The last hold beyond its lease, with a halt in that time or without.
fn outlives(facts: &Facts, sentence: &Sentence, paused: bool) -> Truth {
    let mut holds = facts.holds.iter();
    let hold = holds.find(|h| h.op.caller == sentence.words[0] && h.until == sentence.at);
    let hold = hold.ok_or("no hold of it ends then")?;
    ensure(is_moment(sentence.words[2], sentence.at.at), "it ends otherwise")?;
    let (by, _) = crate::true_stories::pattern::length(sentence.words[1]).ok_or("no length")?;
    let over = sentence.at.at.saturating_sub(by);
    let lease = facts.lease_known(hold.op, sentence.at).ok_or("its lease has no end")?;
    let late = sentence.at.at.checked_sub(lease).ok_or("its lease is not over")?;
    ensure(is_length(sentence.words[1], late), &format!("it outlives it by {late} ns"))?;
    let others = facts
        .holds
        .iter()
        .any(|h| h.op.caller != hold.op.caller && h.from.at >= over && h.from < sentence.at);
    ensure(!others, "somebody is let in")?;
    let halts = facts.history.fault_intervals.iter().filter(|c| c.verb.halts());
    let mut own = halts.filter(|c| c.strikes(&hold.op.process) && c.from < sentence.at);
    let is_halted = own.any(|c| c.to.is_none_or(|to| lease < to.at));
    ensure(is_halted == paused, "it is halted otherwise")
}

/// Whether the heal ends a wait, not a death before it.
fn is_cut(facts: &Facts, sentence: &Sentence) -> bool {
    let healed = facts.history.healed.map_or(0, |healed| healed.at);
    is_length(sentence.words[3], healed.saturating_sub(sentence.at.at))
}

/// The last acquire of a wait.
fn last_attempt<'a>(facts: &Facts<'a>, sentence: &Sentence) -> Option<&'a Op> {
    let often: usize = sentence.words[1].parse().ok()?;
    let asked = facts.history.ops.iter().filter(|op| {
        is_acquire(facts, op) && op.caller == sentence.words[0] && op.call.instant() >= sentence.at
    });
    asked.take(often).last()
}

fn waits(facts: &Facts, sentence: &Sentence, granted: bool) -> Truth {
    let asked = facts.history.ops.iter().filter(|op| {
        is_acquire(facts, op) && op.caller == sentence.words[0] && op.call.instant() >= sentence.at
    });
    let asked: Vec<&Op> = asked.collect();
    ensure(
        asked.first().is_some_and(|op| op.call.instant() == sentence.at),
        "it does not begin here",
    )?;
    let often: usize = sentence.words[1].parse().map_err(|_| "no number")?;
    let last = asked.get(often - 1).ok_or("it asks less often")?;
    ensure(asked[..often - 1].iter().all(|op| !is_granted(op)), "it is let in before")?;
    // A caller that is never granted waits until it dies, or until the heal.
    let heal = facts.history.healed.unwrap_or(facts.history.end).at;
    let kills = facts.history.fault_intervals.iter().filter(|c| c.verb.kills());
    let deaths = kills.filter(|c| c.strikes(&last.process)).map(|c| c.from);
    let death = deaths.filter(|at| *at > sentence.at).map(|at| at.at).min();
    let over = death.map_or(heal, |at| at.min(heal));
    let end = match granted {
        true => last.ret.filter(|_| is_granted(last)).ok_or("it is not let in")?.at,
        false => over,
    };
    ensure(end <= over, "it is over before")?;
    let more = asked.get(often).is_some_and(|op| op.call.at < end);
    ensure(!more, "it asks more often")?;
    ensure(is_length(sentence.words[3], end - sentence.at.at), "it lasts otherwise")
}

/// Which key a form of the nearest miss tells of.
#[derive(Clone, Copy)]
enum States {
    /// One that the writer had on the named node.
    Own,
    /// One that was on the named node before the writer's grant.
    Older,
    /// None of the writer's is on the named node when it lets others in.
    Lacking,
}

/// The forms of the nearest miss.
const NEAREST: [(&str, States); 15] = [
    (
        "{who} writes {length} after an older key on {node} was gone; nobody else was let in",
        States::Older,
    ),
    (
        "{who} writes {length} before an older key on {node} is removed, under its grant at \
         {moment}",
        States::Older,
    ),
    ("{who} writes {length} after its key on {node} was gone; nobody else was let in", States::Own),
    (
        "{who} writes {length} before {node} leads again without its key, under its grant at \
         {moment}",
        States::Own,
    ),
    (
        "{who} writes {length} after an older key on {node} was over; nobody else was let in",
        States::Older,
    ),
    (
        "{who} writes {length} before an older key on {node} is over, under its grant at {moment}",
        States::Older,
    ),
    ("{who} writes {length} after its key on {node} was over; nobody else was let in", States::Own),
    (
        "{who} writes {length} after {node} led without its key; nobody else was let in",
        States::Lacking,
    ),
    (
        "{who} writes {length} after {node} ran again without its key; nobody else was let in",
        States::Lacking,
    ),
    (
        "{who} writes {length} before {node} runs again without its key, under its grant at \
         {moment}",
        States::Lacking,
    ),
    (
        "{who} writes {length} before its key on {node} would have been over, under its grant at \
         {moment}",
        States::Own,
    ),
    (
        "{who} writes {length} before its key on {node} is removed, under its grant at {moment}",
        States::Own,
    ),
    (
        "{who} writes {length} before its key on {node} is taken over, under its grant at \
         {moment}",
        States::Own,
    ),
    (
        "{who} writes {length} before {node} leads without its key, under its grant at {moment}",
        States::Lacking,
    ),
    (
        "{who} writes {length} after its grant, and nothing would have kept another out since; \
         nobody came",
        States::Lacking,
    ),
];

/// Whether the time to live of one of the keys on a node is over at that true time, also if a step
/// back or a later extend made it last.
fn runs_out_at(facts: &Facts, node: &str, at: Nanos) -> bool {
    let last = facts.keys_on(node).take_while(|(_, key)| key.at.at < at).last();
    if last.is_some_and(|(_, last)| facts.is_due_first_at(last, at)) {
        return true;
    }
    let keys: Vec<(usize, &Key)> = facts.keys_on(node).collect();
    let is_end = |key: &Key| key.change == KeyChange::Set || is_removal(key.change);
    keys.iter().enumerate().any(|(place, (born, _))| {
        let next = keys[place + 1..].iter().find(|(_, key)| is_end(key));
        let before = next.map_or(usize::MAX, |(index, _)| *index);
        facts.runs_out(node, *born, before) == Some(at)
    })
}

/// Whether a key on a node was given a time to live that is over from that true time on, though
/// somebody may have changed the key since.
fn is_due_at(facts: &Facts, node: &str, at: Nanos) -> bool {
    facts.keys_on(node).any(|(_, key)| facts.is_due_from(key, at.saturating_sub(1), at))
}

/// Whether a node leads at a true time and none of these grants has a valid key on it, right before
/// that if it resumes then.
fn lacks(facts: &Facts, node: &str, (at, resumes): (Nanos, bool), grants: &[OpId]) -> Truth {
    let role = facts.history.sightings.iter().rfind(|seen| {
        let is_role = matches!(seen.what, Seen::Follows | Seen::Leads);
        seen.by == node && seen.at.at <= at && is_role
    });
    ensure(role.is_none_or(|seen| seen.what == Seen::Leads), "it does not lead then")?;
    let is_before = |key: &Key| key.at.at < at || key.at.at == at && !resumes;
    let before = facts.history.keys.partition_point(is_before);
    let Some((born, owner)) = facts.standing(node, before) else { return Ok(()) };
    let over = facts.runs_out(node, born, before);
    let is_valid = over.is_none_or(|over| at < over);
    let is_own = owner.is_some_and(|owner| grants.contains(&owner));
    ensure(!is_own || !is_valid, "it has its key then")
}

/// Whether a node begins to lead at a true time, or is started again.
fn comes_up(facts: &Facts, node: Option<&&str>, at: Nanos) -> bool {
    let Some(node) = node else { return false };
    let mut sightings = facts.history.sightings.iter();
    let leads =
        sightings.any(|seen| seen.what == Seen::Leads && seen.by == **node && seen.at.at == at);
    leads || facts.struck(node).any(|c| is_death(&c.verb) && c.to.is_some_and(|to| to.at == at))
}

/// Whether a halt of a node ends at a true time.
fn resumes(facts: &Facts, node: Option<&&str>, at: Nanos) -> bool {
    let mut halts = facts.history.fault_intervals.iter().filter(|c| c.verb.halts());
    let is_end = |c: &FaultInterval| c.to.is_some_and(|to| to.at == at);
    halts.any(|c| node.is_some_and(|node| c.strikes(node)) && is_end(c))
}

fn nearest(facts: &Facts, sentence: &Sentence) -> Truth {
    let miss = facts.finding.judgement.nearest_miss.ok_or("no miss was measured")?;
    let free = sentence.at.at.saturating_add_signed(miss);
    let says = |words: &str| sentence.words[0].contains(words);
    let runs = says(" runs again") || says(" ran again");
    let mut forms = NEAREST.iter();
    let read = forms.find_map(|(form, states)| Some((read(form, sentence.words[0])?, *states)));
    let (words, states) = read.ok_or("unknown words")?;
    let (who, length) = (words[0], words[1]);
    if let Some(node) = words.get(2) {
        let mut holds = facts.holds.iter().rev();
        let hold = holds.find(|hold| hold.op.caller == who && hold.from <= sentence.at);
        let last = hold.ok_or("it holds nothing")?;
        // Whoever has taken the lock again holds it by the first of its keys as well.
        let together = facts.holds.iter().filter(|hold| {
            hold.op.caller == who && hold.from <= last.from && last.from < hold.until
        });
        let grants: Vec<OpId> = together.map(|hold| hold.op.id).chain([last.op.id]).collect();
        let keys =
            facts.history.keys.iter().filter(|key| key.node == **node && key.at <= sentence.at);
        let owner = |id| facts.history.ops.iter().find(|op| op.id == id);
        let is_own = |op: &Op| match op.kind {
            OpKind::Acquire => grants.contains(&op.id),
            OpKind::Extend { grant: of, .. } => grants.contains(&of),
            _ => false,
        };
        let mut owners = keys.filter_map(|key| owner(key.by?));
        match states {
            States::Own => ensure(owners.any(is_own), "it had no key there")?,
            States::Older => ensure(owners.any(|op| !is_own(op)), "no older key is there")?,
            States::Lacking => lacks(facts, node, (free, runs), &grants)?,
        }
    }
    ensure(is_rounded(length, miss.unsigned_abs()), "it is another length")?;
    let sightings = facts.history.sightings.iter();
    let mut leads = sightings.filter(|seen| seen.what == Seen::Leads);
    let led = leads.any(|seen| words.get(2) == Some(&seen.by.as_str()) && seen.at.at < free);
    if says(" leads without") {
        ensure(!led, "it led before")?;
    }
    ensure(!runs || resumes(facts, words.get(2), free), "no halt of it ends then")?;
    let comes = says(" leads ");
    ensure(!comes || comes_up(facts, words.get(2), free), "it does not begin to lead then")?;
    let is_ended = |ends: &[KeyChange]| {
        let then = |key: &&Key| words.get(2) == Some(&key.node.as_str()) && key.at.at == free;
        facts.history.keys.iter().filter(then).any(|key| ends.contains(&key.change))
    };
    let is_removed = is_ended(&[KeyChange::Evicted, KeyChange::Deleted, KeyChange::LostAtRestart]);
    if says("was gone") {
        let taken = is_ended(&[KeyChange::Set, KeyChange::Changed, KeyChange::LostAtFailover]);
        ensure(is_removed || taken, "nothing removes the key then")?;
    }
    let is_without = says("before") && (says(" leads again without") || says(" leads without"));
    ensure(!is_without || is_gone(facts, free, &words), "its key is there")?;
    if says("is removed") {
        ensure(is_removed, "nothing removes the key then")?;
    }
    if says("is taken over") {
        let is_taken = is_ended(&[KeyChange::Set, KeyChange::Changed]);
        ensure(is_taken, "nobody takes it over then")?;
    }
    if says("its key on") && says(" was over") {
        let runs_out = words.get(2).is_some_and(|node| runs_out_at(facts, node, free));
        ensure(runs_out, "no key runs out then")?;
    }
    if says("would have been over") {
        ensure(!is_removed, "something removes the key then")?;
        let is_due = words.get(2).is_some_and(|node| is_due_at(facts, node, free));
        ensure(is_due, "no key was to run out then")?;
    }
    ensure(writes(facts, sentence.at, who), "it does not write then")
}

/// Whether a caller changes the resource now.
fn writes(facts: &Facts, now: Instant, who: &str) -> bool {
    let mut accesses = facts.history.accesses.iter();
    accesses.any(|access| {
        let changes = access.kind != AccessKind::Read && access.accepted;
        access.at == now && access.caller == who && changes
    })
}

/// Whether who is named has no key on the node that is named, after all that happens then.
fn is_gone(facts: &Facts, now: Nanos, words: &[&str]) -> bool {
    let [who, _, node, ..] = words else { return false };
    let next = facts.keys_on(node).find(|(_, key)| key.at.at > now);
    let next = next.map_or(usize::MAX, |(index, _)| index);
    let Some((born, by)) = facts.standing(node, next) else { return true };
    let is_over = facts.runs_out(node, born, next).is_some_and(|over| over <= now);
    is_over || by.is_none_or(|by| facts.caller(by) != *who)
}
