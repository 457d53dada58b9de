//! A story: five to nine lines, each a sentence about events of the history.
//!
//! The chapters offer beats, each with a weight; the nine heaviest are told in order of time, the
//! others are folded away. If two beats describe the same event, the heavier one is told.

use std::collections::BTreeSet;

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::KeyChange;
use serde::Serialize;

use crate::check::Verdict;
use crate::explain::chapter::{
    access, answer, breach, calm, grant, liveness, lost, renewal, role, strike, theft, torn,
};
use crate::explain::witness::Witness;
use crate::history::OpId;

/// The maximum number of lines of a story.
pub const LONGEST: usize = 9;

/// What happened, line by line, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Story {
    /// The lines.
    pub lines: Vec<StoryLine>,
    /// The remaining lines, in order of time.
    pub folded: Vec<StoryLine>,
}

/// One sentence with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoryLine {
    /// When it happened, or began.
    pub at: Instant,
    /// The sentence.
    pub text: String,
    /// The events from which it was rendered: without one of them it changes or disappears.
    pub evidence: Vec<Evidence>,
}

/// An event of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// An operation, by its number.
    Op(OpId),
    /// A change of a key, by its index.
    Key(usize),
    /// An access at the resource, by its index.
    Access(usize),
    /// A fault interval, by its index.
    Condition(usize),
    /// A request, by its index.
    Request(usize),
    /// A role change or an observation, by its index.
    Sighting(usize),
}

/// The importance of a line; lighter ones are left out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Essential to the story.
    Crux,
    /// Gives a reason.
    Cause,
    /// Gives a consequence.
    Effect,
    /// Makes the story easier to follow.
    Detail,
    /// Shown on demand, or if there is little else.
    Minor,
}

/// A candidate line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Its importance.
    pub weight: Weight,
    /// The line.
    pub line: StoryLine,
}

impl Beat {
    /// A beat.
    pub fn new(weight: Weight, at: Instant, text: String, evidence: Vec<Evidence>) -> Beat {
        Beat { weight, line: StoryLine { at, text, evidence } }
    }
}

/// Tells the story of the evidence.
pub fn tell(witness: &Witness<'_>) -> Story {
    let mut beats = match witness.finding.judgement.verdict {
        Verdict::Violated(_) => violated(witness),
        Verdict::Holds | Verdict::Unknown(_) => calm::beats(witness),
    };
    beats.sort_by_key(|beat| (beat.weight, beat.line.at));
    let mut told = once(witness, beats);
    let folded = told.split_off(LONGEST.min(told.len()));
    Story { lines: in_order(told), folded: in_order(folded) }
}

fn in_order(beats: Vec<Beat>) -> Vec<StoryLine> {
    let mut lines: Vec<StoryLine> = beats.into_iter().map(|beat| beat.line).collect();
    lines.sort_by_key(|line| line.at);
    lines
}

/// Of beats with the same text, or about one fault or one end of a key, only the first.
fn once(witness: &Witness<'_>, beats: Vec<Beat>) -> Vec<Beat> {
    let (mut said, mut events) = (BTreeSet::new(), BTreeSet::new());
    let mut told = Vec::new();
    for beat in beats {
        let evidence = beat.line.evidence.iter().copied();
        let single: Vec<Evidence> =
            evidence.filter(|event| is_told_once(witness, *event)).collect();
        let is_new = single.iter().all(|event| !events.contains(event));
        if is_new && said.insert((beat.line.at.at, beat.line.text.clone())) {
            events.extend(single);
            told.push(beat);
        }
    }
    told
}

/// Whether an event may be told in one line only.
fn is_told_once(witness: &Witness<'_>, event: Evidence) -> bool {
    match event {
        Evidence::Key(index) => witness.history().keys.get(index).is_some_and(|key| {
            !matches!(key.change, KeyChange::Set | KeyChange::Changed | KeyChange::Extended)
        }),
        _ => false,
    }
}

fn violated(witness: &Witness<'_>) -> Vec<Beat> {
    let horizon = witness.horizon();
    let mut beats = breach::beats(witness);
    beats.extend(grant::beats(witness));
    beats.extend(strike::beats(witness));
    beats.extend(theft::beats(witness));
    beats.extend(lost::beats(witness));
    beats.extend(torn::beats(witness));
    beats.extend(renewal::beats(witness));
    beats.extend(role::beats(witness));
    beats.extend(answer::beats(witness));
    beats.extend(access::beats(witness));
    beats.retain(|beat| beat.line.at <= horizon);
    beats.extend(liveness::beats(witness));
    beats
}
