//! All that is known about one run, as one plain value: what a report is made of.
//!
//! Nothing here is computed. Explore fills it in; [`crate::explain`] reads it.

use serde::{Deserialize, Serialize};

use crate::check::Judgement;
use crate::check::signature::Signature;
use crate::history::History;
use crate::lock::{Bounded, Promise};
use crate::plan::Plan;

/// One run with its verdict and everything that stands behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The scenario's name: the stem of its file, of its report and of its plan.
    pub scenario: String,
    /// The question that the scenario asks.
    pub ask: String,
    /// What the scenario's author adds, or nothing.
    #[serde(default)]
    pub note: String,
    /// Where the plan's draws came from.
    pub seed: u64,
    /// What was run.
    pub plan: Plan,
    /// Hash of the plan, in hexadecimal.
    pub plan_hash: String,
    /// Hash of the trace, in hexadecimal.
    pub trace_hash: String,
    /// Records that the trace hash covers.
    pub records: u64,
    /// The engine that drove the world: `event`.
    pub engine: String,
    /// What happened.
    pub history: History,
    /// What the checks say about it.
    pub judgement: Judgement,
    /// What the lock promises, and counts on.
    pub promise: Promise,
    /// Whose fault a violation is; `None` where nothing was violated or nobody ran it again.
    pub class: Option<Class>,
    /// What makes the violation the same as another; `None` where nothing was violated.
    #[serde(default)]
    pub signature: Option<Signature>,
    /// Whether this is what the scenario expects; `None` where it expects nothing.
    pub expected: Option<Expected>,
}

/// What a scenario expects, and whether it came so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Whether it came so.
    pub met: bool,
    /// What is expected, in words: `holds`, `stale-holder, corruption`.
    pub text: String,
}

/// Whether a violation is the lock's fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It remains when every fault beyond the lock's assumptions is taken out: a bug.
    InModel,
    /// It goes away without the faults that broke these assumptions.
    OutOfModel(Vec<BrokenAssumption>),
}

/// An assumption of the lock that the plan did not keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenAssumption {
    /// What the lock counts on.
    pub what: Bounded,
    /// The most that it withstands, in the unit of [`Bounded`].
    pub bound: u64,
    /// What the plan did, in the same unit.
    pub actual: u64,
    /// The faults that did it, by number.
    pub faults: Vec<u32>,
    /// Whether taking these faults out, and no others, makes the violation vanish.
    pub alone: bool,
}
