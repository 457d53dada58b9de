//! A story: five to nine lines, each a sentence about events of the history.
//!
//! The chapters offer beats, each with a weight; the heaviest nine are told in order of time.

use lockstorm_sim::time::Instant;
use serde::Serialize;

use crate::check::Verdict;
use crate::explain::chapter::{
    access, breach, calm, grant, liveness, lost, renewal, strike, theft, torn,
};
use crate::explain::witness::Witness;
use crate::history::OpId;

/// The most lines that a story has.
pub const LONGEST: usize = 9;

/// What happened, line by line, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Story {
    /// The lines.
    pub lines: Vec<StoryLine>,
}

/// One sentence with what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoryLine {
    /// When it happened, or began.
    pub at: Instant,
    /// The sentence.
    pub text: String,
    /// The events that it was rendered from: without one of them it reads otherwise, or is gone.
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
    /// A condition, by its index.
    Condition(usize),
    /// A request, by its index.
    Request(usize),
}

/// How much a line matters; the lighter ones are left out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The story is none without it.
    Crux,
    /// Says why.
    Cause,
    /// Says what came of it.
    Effect,
    /// Makes it easier to follow.
    Detail,
}

/// A line that may be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// How much it matters.
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

/// Tells what the witness shows.
pub fn tell(witness: &Witness<'_>) -> Story {
    let mut beats = match witness.finding.judgement.verdict {
        Verdict::Violated(_) => violated(witness),
        Verdict::Holds | Verdict::Unknown(_) => calm::beats(witness),
    };
    beats.sort_by_key(|beat| (beat.weight, beat.line.at));
    beats.truncate(LONGEST);
    let mut lines: Vec<StoryLine> = beats.into_iter().map(|beat| beat.line).collect();
    lines.sort_by_key(|line| line.at);
    // Two chapters may have told the same.
    lines.dedup_by(|one, other| one.at == other.at && one.text == other.text);
    Story { lines }
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
    beats.extend(access::beats(witness));
    beats.retain(|beat| beat.line.at <= horizon);
    beats.extend(liveness::beats(witness));
    beats
}
