//! Requirements on a story as a whole, and on the sentence above it.

use std::collections::BTreeSet;

use lockstorm::check::verdict::Verdict;
use lockstorm::explain::evidence::Evidence;
use lockstorm::explain::story::Story;
use lockstorm::history::OpId;

use lockstorm_platform::time::{Instant, MILLISECOND};

use crate::true_stories::all_lines;
use crate::true_stories::facts::{Facts, Truth, ensure, is_removal};
use crate::true_stories::pattern::{is_length, list, moment, read};

/// The maximum number of lines of a story.
const MAX_LINES: usize = 9;

/// Everything that is wrong with it.
pub fn wrong(facts: &Facts, story: &Story) -> Vec<String> {
    let mut wrong = Vec::new();
    if story.lines.len() > MAX_LINES {
        wrong.push(format!("it has {} lines", story.lines.len()));
    }
    for pair in story.lines.windows(2) {
        if pair[0].at > pair[1].at {
            wrong.push(format!("'{}' stands before '{}'", pair[0].text, pair[1].text));
        }
    }
    let (mut said, mut ends, mut faults) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in all_lines(story) {
        if !said.insert((line.at.at, &line.text)) {
            wrong.push(format!("'{}' is said twice", line.text));
        }
        if let Some(Evidence::FaultInterval(index)) = line.evidence.first()
            && facts.history.fault_intervals[*index].from == line.at
            && !faults.insert(*index)
        {
            wrong.push(format!("'{}' tells of a fault that is told already", line.text));
        }
        for evidence in &line.evidence {
            let Evidence::Key(index) = evidence else { continue };
            let key = &facts.history.keys[*index];
            if is_removal(key.change) && !ends.insert(*index) {
                wrong.push(format!("'{}' tells of a key's end that is told already", line.text));
            }
        }
        for after in line.text.split("until ").skip(1) {
            let until = after.split_inclusive(" s").next().and_then(moment);
            if until.is_some_and(|until| until < line.at.at / MILLISECOND) {
                wrong.push(format!("'{}' ends before it begins", line.text));
            }
        }
    }
    wrong
}

/// Whether the sentence of the verdict is true, if it is about an overlap.
pub fn title(facts: &Facts, text: &str) -> Truth {
    let text = text.split(", and ").next().unwrap_or(text);
    let mut text = text.split(';').next().unwrap_or(text).trim_end_matches('.');
    if let Some(words) = read("{any} ({list} in shared mode)", text) {
        for who in list(words[1]) {
            let mut holds = facts.holds.iter();
            let shares = holds.any(|hold| hold.op.caller == who && hold.op.shared);
            ensure(shares, "it holds the lock in the other mode")?;
        }
        text = words[0];
    }
    if let Some(words) = read("{list} held the lock at once for {length}", text) {
        return at_once(facts, &list(words[0]), words[1]);
    }
    if let Some(words) =
        read("{who} held on past its lease while {who} held the lock, for {length}", text)
    {
        // With more than two holders the sentence names two, and means all.
        let mut who: Vec<String> = words[..2].iter().map(|name| (*name).to_owned()).collect();
        if let Verdict::Violated(violations) = &facts.finding.judgement.verdict {
            who.extend(violations[0].ops.iter().map(|op| facts.caller(*op).to_owned()));
        }
        return at_once(facts, &who, words[2]);
    }
    let left = read("{who} left its key on {node} with no time to live: {any}", text);
    if let Some(words) = left.or_else(|| read("{who} left its key on {node}: {any}", text)) {
        return left_there(facts, words[0], words[1]);
    }
    Ok(())
}

/// A key of this caller is on that node, which runs, after all that happens as the faults are
/// healed; or it is there at the end, and no request from after the heal has set it: a start did,
/// or a request that came late.
fn left_there(facts: &Facts, who: &str, node: &str) -> Truth {
    let healed = facts.history.healed.unwrap_or(facts.history.end);
    ensure(!facts.is_down(node, healed.at), "its node is down")?;
    let keys = &facts.history.keys;
    let is_theirs =
        |(_, owner): &(usize, Option<OpId>)| owner.is_some_and(|owner| facts.caller(owner) == who);
    let then = keys.partition_point(|key| key.at.at <= healed.at);
    let (at_heal, at_end) = (facts.standing(node, then), facts.standing(node, usize::MAX));
    ensure(at_heal.is_some() || at_end.is_some(), "there is no key")?;
    let is_early = |by: OpId| facts.op(by).is_some_and(|by| by.call.at < healed.at);
    let is_older = |(born, _): &(usize, _)| {
        !facts.is_set_by_request(&keys[*born]) || keys[*born].by.is_some_and(is_early)
    };
    let is_left = at_heal.is_some_and(|life| is_theirs(&life))
        || at_end.is_some_and(|life| is_theirs(&life) && is_older(&life));
    ensure(is_left, "it is another's")
}

/// Two of these callers hold simultaneously for at least that time, at any place.
fn at_once(facts: &Facts, who: &[String], length: &str) -> Truth {
    let holds = facts.holds.iter().filter(|hold| who.contains(&hold.op.caller));
    let mut marks: Vec<(Instant, bool)> =
        holds.flat_map(|hold| [(hold.from, true), (hold.until, false)]).collect();
    marks.sort_unstable();
    let (mut open, mut since, mut longest) = (0, None::<Instant>, 0);
    for (at, begins) in marks {
        open = if begins { open + 1 } else { open - 1 };
        match since {
            None if open >= 2 => since = Some(at),
            Some(from) if open < 2 => {
                longest = longest.max(at.at - from.at);
                since = None;
            }
            _ => {}
        }
    }
    let (sentence, _) = crate::true_stories::pattern::length(length).ok_or("no length")?;
    let shared = sentence <= longest || is_length(length, longest);
    ensure(shared, &format!("the longest that two of them share is {longest} ns"))
}
