//! A hunt, and the plan that each of its seeds draws.

use std::ops::RangeInclusive;

use proptest::strategy::{Strategy as _, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::hunt::drawing::{Alphabet, fitting, sampled, struck};
use crate::hunt::habits::callers;
use crate::hunt::parameter::Parameter;
use crate::hunt::strategy::lineage::Lineages;
use crate::hunt::strategy::portfolio::Portfolio;
use crate::hunt::strategy::{Strategies, Strategy, bounds, lineage, priorities, swarm};
use crate::plan::Plan;
use crate::run::Lab;

/// What is searched, and the lab for it.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The lab that runs the plans.
    pub lab: Lab,
    /// The base plan: what all plans have in common. Its faults are replaced.
    pub base: Plan,
    /// What may be drawn.
    pub alphabet: Alphabet,
    /// The seeds, inclusive.
    pub seeds: RangeInclusive<u64>,
    /// How plans are drawn.
    pub strategies: Strategies,
    /// Runs without faults that are known.
    pub lineages: Lineages,
}

impl Hunt {
    /// A hunt by all strategies.
    pub fn new(lab: Lab, base: Plan, alphabet: Alphabet, seeds: RangeInclusive<u64>) -> Hunt {
        let (strategies, lineages) = (Strategies::default(), Lineages::default());
        Hunt { lab, base, alphabet, seeds, strategies, lineages }
    }

    /// The number of its plans.
    pub fn plans(&self) -> u64 {
        (self.seeds.end() - self.seeds.start()).saturating_add(1)
    }

    /// The strategies that draw, before any plan has run.
    pub fn portfolio(&self) -> Portfolio {
        let can = |strategy: &Strategy| {
            *strategy != Strategy::Priorities
                || !priorities::slowing(&self.base, &self.alphabet).is_empty()
        };
        match self.strategies {
            Strategies::Only(strategy) => Portfolio::of(&[strategy]),
            Strategies::Portfolio => {
                Portfolio::of(&Strategy::ALL.into_iter().filter(can).collect::<Vec<_>>())
            }
        }
    }
}

/// The plan that a seed draws by a strategy.
pub fn draw(hunt: &Hunt, seed: u64, strategy: Strategy) -> Plan {
    let mut runner = runner(seed, 0);
    let base = Plan { seed, ..hunt.base.clone() };
    let (base, alphabet) = &with_callers(base, &hunt.alphabet);
    let plans = match strategy {
        Strategy::Random => struck(base, alphabet, &mut runner),
        Strategy::Swarm => {
            // What swarm leaves out varies again here: it may change to fit the assumptions.
            let base = fitting(base, alphabet).unwrap_or_else(|| base.clone());
            let half = swarm::half(&base, alphabet, &mut runner);
            struck(&base, &half, &mut runner)
        }
        Strategy::Priorities => priorities::plans(base, alphabet, &mut runner),
        Strategy::Bounds => bounds::plans(base, alphabet, &mut runner),
        Strategy::Lineage => {
            lineage::plans(base, alphabet, (&hunt.lab, &hunt.lineages), &mut runner)
        }
    };
    let tree = plans.new_tree(&mut runner);
    tree.expect("the strategies reject nothing").current()
}

/// The runner for one stream of draws of a seed.
fn runner(seed: u64, stream: u8) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8] = stream;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(Config::default(), rng)
}

/// The base plan with the number of callers that its seed draws, and the alphabet without it. It is
/// drawn before all else, from another stream, so that no other draw depends on it.
fn with_callers(mut base: Plan, alphabet: &Alphabet) -> (Plan, Alphabet) {
    let drawn = callers(&base, &alphabet.varies);
    base.workload.callers = sampled(&drawn, &mut runner(base.seed, 1));
    let mut alphabet = alphabet.clone();
    alphabet.varies.remove(&Parameter::Callers);
    (base, alphabet)
}
