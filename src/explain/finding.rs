//! All that is known about one run, as one plain value from which a report is made.
//!
//! Explore fills it in; [`crate::explain`] reads it.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::check::judge::Judgement;
use crate::check::signature::Signature;
use crate::check::verdict::Kind;
use crate::explain::experiment::Experiments;
use crate::history::History;
use crate::ledger::breach::Breach;
use crate::ledger::part::Part;
use crate::plan::Plan;
use crate::promise::{Assumption, Bounded, Promise};

/// One run with its verdict and the evidence behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The scenario's name: the stem of its file, of its report and of its plan.
    pub scenario: String,
    /// The scenario's file, as it was named; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The question of the scenario.
    pub ask: String,
    /// A note by the scenario's author, or empty.
    #[serde(default)]
    pub note: String,
    /// The seed of the plan's draws.
    pub seed: u64,
    /// The strategy by which a hunt drew the plan from that seed, before it was shrunk; empty if no
    /// hunt did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub strategy: String,
    /// Whether that hunt shrank the plan, or tried to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_shrunk: bool,
    /// What was run.
    pub plan: Plan,
    /// Hash of the plan, in hexadecimal.
    pub plan_hash: String,
    /// Hash of the trace, in hexadecimal.
    pub trace_hash: String,
    /// Records that the trace hash covers.
    pub records: u64,
    /// The engine that drove the world, as `--engine` names it.
    pub engine: String,
    /// What happened.
    pub history: History,
    /// The result of the checks.
    pub judgement: Judgement,
    /// The lock's guarantees and assumptions.
    pub promise: Promise,
    /// How long a client waits for the reply to a request: the lock's setting or its default, ns.
    #[serde(default)]
    pub timeout: Nanos,
    /// How the run exceeded the lock's assumptions, whether or not that did harm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaches: Vec<Breach>,
    /// Whose fault a violation is; `None` if nothing was violated or there was no rerun.
    pub class: Option<Class>,
    /// The signature that identifies equal violations; `None` if nothing was violated.
    #[serde(default)]
    pub signature: Option<Signature>,
    /// The reruns that explain it; `None` without reruns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiments: Option<Experiments>,
    /// Whether the result is what the scenario expects; `None` if it expects nothing.
    pub expected: Option<Expected>,
}

impl Finding {
    /// Which of the violations is the headline.
    pub fn headline(&self) -> usize {
        self.experiments.as_ref().map_or(0, |tried| tried.headline)
    }
}

/// What a scenario expects, and whether it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Whether it occurred; false if the verdict is unknown.
    pub met: bool,
    /// What is expected, in words: `holds`, `stale-holder, corruption`.
    pub text: String,
}

/// Which violated kinds are the lock's fault: see [`crate::explore::class`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Class {
    /// Kinds that remain if every assumption of the lock is kept, and a broken contract, which no
    /// fault excuses: bugs.
    pub in_model: Vec<Kind>,
    /// Kinds that disappear if every assumption is kept.
    pub out_of_model: Vec<Kind>,
    /// The breaches without which the out-of-model kinds disappear.
    pub broken: Vec<BrokenAssumption>,
    /// Groups of these in which no single breach makes the difference.
    pub either: Vec<Either>,
    /// What was removed from the plan in the run that shows the in-model kinds.
    pub without: Vec<Part>,
    /// The number of plans that were run to find out.
    pub reruns: u32,
}

impl Class {
    /// Whether any kind is the lock's fault.
    pub fn is_in_model(&self) -> bool {
        !self.in_model.is_empty()
    }
}

/// Breached assumptions of which none alone makes the difference: some kinds disappear only without
/// all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Either {
    /// The breaches, as indices into [`Class::broken`].
    pub broken: Vec<usize>,
    /// The kinds.
    pub kinds: Vec<Kind>,
    /// Whether each of them alone suffices, without any other breach.
    pub alone: bool,
}

/// An assumption of the lock that was breached, and made a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenAssumption {
    /// The assumption.
    pub what: Bounded,
    /// Its bound, in the unit of [`Bounded`].
    pub bound: u64,
    /// The actual amount, in the same unit.
    pub actual: u64,
    /// The faults that caused it, by number.
    pub faults: Vec<u32>,
    /// The initial conditions that caused it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initial: Vec<Part>,
    /// The kinds that disappear if only these are removed.
    pub goes: Vec<Kind>,
    /// What is still violated then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays: Vec<Kind>,
    /// Whether the run itself broke it through these parts, and not only a run without other parts.
    #[serde(default = "in_run")]
    pub in_run: bool,
    /// Other assumptions that the run broke and that are kept then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Assumption>,
}

/// The default of [`BrokenAssumption::in_run`].
fn in_run() -> bool {
    true
}

/// A breach without trials.
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
            in_run: in_run(),
            keeps: Vec::new(),
        }
    }
}
