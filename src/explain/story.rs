//! A story: five to nine lines, each a sentence about events of the history.

use lockstorm_platform::time::Instant;
use serde::Serialize;

use crate::history::OpId;

/// What happened, line by line, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Story {
    /// The lines.
    pub lines: Vec<StoryLine>,
    /// What else could be told, in order of time.
    pub folded: Vec<StoryLine>,
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
    /// What a node became or somebody saw, by its index.
    Sighting(usize),
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
    /// Is told on demand, or where there is little else.
    Minor,
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
