//! A story: at most nine lines, each a sentence about events of the history. The files of the
//! folder write them, each for one side of the evidence; `order` has what several of them need for
//! faults that act by command.

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod calm;
pub(crate) mod contract;
pub(crate) mod deadlock;
pub(crate) mod grant;
pub(crate) mod liveness;
pub(crate) mod lost;
mod margin;
pub(crate) mod order;
pub(crate) mod own;
pub(crate) mod queue;
pub(crate) mod renewal;
pub(crate) mod role;
pub(crate) mod shared;
pub(crate) mod strike;
pub(crate) mod theft;
pub(crate) mod torn;

use lockstorm_platform::time::Instant;
use serde::Serialize;

use crate::explain::evidence::Evidence;

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

/// The importance of a line, the most important first. Less important lines are folded away first.
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
