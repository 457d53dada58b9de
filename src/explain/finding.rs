//! All that is known about one run, as one plain value: what a report is made of.
//!
//! Nothing here is computed. Explore fills it in; [`crate::explain`] reads it.

use serde::{Deserialize, Serialize};

use crate::check::judge::Judgement;
use crate::check::signature::Signature;
use crate::check::verdict::Kind;
use crate::explain::experiment::Experiments;
use crate::history::History;
use crate::ledger::breach::Breach;
use crate::ledger::part::Part;
use crate::plan::Plan;
use crate::promise::{Bounded, Promise};

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
    /// How the run went beyond what the lock counts on, whether or not that did harm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaches: Vec<Breach>,
    /// Whose fault a violation is; `None` where nothing was violated or nobody ran it again.
    pub class: Option<Class>,
    /// What makes the violation the same as another; `None` where nothing was violated.
    #[serde(default)]
    pub signature: Option<Signature>,
    /// What was run again to explain it; `None` where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiments: Option<Experiments>,
    /// Whether this is what the scenario expects; `None` where it expects nothing.
    pub expected: Option<Expected>,
}

/// What a scenario expects, and whether it came so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Whether it came so. Where nothing can be said of the run, it did not.
    pub met: bool,
    /// What is expected, in words: `holds`, `stale-holder, corruption`.
    pub text: String,
}

/// Which violated kinds are the lock's fault: see [`crate::explore::class`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Class {
    /// Kinds that remain where every assumption of the lock is kept, and a broken contract, which
    /// no fault excuses: bugs.
    pub in_model: Vec<Kind>,
    /// Kinds that go away where every assumption is kept.
    pub out_of_model: Vec<Kind>,
    /// What the kinds out of the model go away without.
    pub broken: Vec<BrokenAssumption>,
    /// Several of these, of which no single one makes the difference.
    pub either: Vec<Either>,
    /// What was taken out of the plan in the run that shows the kinds in the model.
    pub without: Vec<Part>,
    /// How many plans were run to find out.
    pub reruns: u32,
}

impl Class {
    /// Whether any kind is the lock's fault.
    pub fn is_in_model(&self) -> bool {
        !self.in_model.is_empty()
    }
}

/// Broken assumptions of which none alone makes the difference: some kinds go away only without
/// all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Either {
    /// Which, as places in [`Class::broken`].
    pub broken: Vec<usize>,
    /// For what.
    pub kinds: Vec<Kind>,
    /// Whether each of them alone is enough, without any other breach.
    pub alone: bool,
}

/// An assumption of the lock that was not kept, and made a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenAssumption {
    /// What the lock counts on.
    pub what: Bounded,
    /// The most that it withstands, in the unit of [`Bounded`].
    pub bound: u64,
    /// How much it was, in the same unit.
    pub actual: u64,
    /// The faults that did it, by number.
    pub faults: Vec<u32>,
    /// What of the conditions that the run began with did it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initial: Vec<Part>,
    /// The kinds that go away if these are taken out, and nothing else.
    pub goes: Vec<Kind>,
    /// What is violated then all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays: Vec<Kind>,
}

/// A breach, of which nothing has been tried.
impl From<&Breach> for BrokenAssumption {
    fn from(breach: &Breach) -> BrokenAssumption {
        let initial = breach.parts.iter().copied().filter(|part| part.fault().is_none());
        BrokenAssumption {
            what: breach.what,
            bound: breach.bound,
            actual: breach.actual,
            faults: breach.parts.iter().filter_map(|part| part.fault()).collect(),
            initial: initial.collect(),
            goes: Vec::new(),
            stays: Vec::new(),
        }
    }
}
