//! For users' own `#[test]` functions: run a scenario or a hunt, and panic readably.
//!
//! A panic names the seed, the plan file that was written, and the line that runs it again.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::cli::input;
use crate::explain::explain;
use crate::explain::finding::Finding;
use crate::explore::examine::{self, met};
use crate::explore::ground::ground;
use crate::explore::hunt::{self, Hunt, Tally};
use crate::explore::strategy::{Alphabet, USUAL_VERBS};
use crate::plan::{Plan, TopologyKind};
use crate::report::text;
use crate::run::{Lab, promise};
use crate::scenario::expectation::Met;

/// Where plans of failed tests are written, seen from the package's root.
const FAILURES: &str = "target/lockstorm";

/// A scenario file to be run by a test.
///
/// ```
/// lockstorm::test::scenario("scenarios/gc-pause-outlives-lease.toml").run();
/// ```
pub fn scenario(path: impl AsRef<Path>) -> ScenarioTest {
    ScenarioTest { path: path.as_ref().to_owned(), seeds: None, lab: Lab::default() }
}

/// See [`scenario`].
#[must_use = "a test that is not run tests nothing"]
pub struct ScenarioTest {
    path: PathBuf,
    seeds: Option<Vec<u64>>,
    lab: Lab,
}

impl ScenarioTest {
    /// Runs it on this seed, not on those that the file names.
    pub fn seed(self, seed: u64) -> ScenarioTest {
        ScenarioTest { seeds: Some(vec![seed]), ..self }
    }

    /// Runs it on these seeds, not on those that the file names.
    pub fn seeds(self, seeds: RangeInclusive<u64>) -> ScenarioTest {
        ScenarioTest { seeds: Some(seeds.collect()), ..self }
    }

    /// Runs it.
    ///
    /// # Panics
    /// If the file is no scenario, or something else is found than it expects.
    #[track_caller]
    pub fn run(self) {
        let read = input::scenarios(std::slice::from_ref(&self.path));
        let scenarios = read.unwrap_or_else(|refusal| panic!("{}", refusal.render(false)));
        for scenario in &scenarios {
            for seed in self.seeds.clone().unwrap_or_else(|| scenario.seeds()) {
                let finding = examine::scenario(&self.lab, scenario, seed);
                if met(scenario, &finding) != Met::Yes {
                    fail(&finding, &format!("expected: {}", scenario.expect.words()));
                }
            }
        }
    }
}

/// A hunt for violations of a lock of the catalogue on a topology.
///
/// ```
/// use lockstorm::plan::TopologyKind;
///
/// let tally = lockstorm::test::hunt("redlock", TopologyKind::Independent)
///     .faults(["partition", "loss"])
///     .within_assumptions()
///     .seeds(1..=20)
///     .holds();
/// assert!(tally.struck_in_hold > 0);
/// ```
pub fn hunt(lock: &str, topology: TopologyKind) -> HuntTest {
    hunt_from(ground(lock, topology))
}

/// A hunt whose plans are like `base`, its faults apart.
pub fn hunt_from(base: Plan) -> HuntTest {
    let verbs = USUAL_VERBS.into_iter().map(str::to_owned).collect();
    HuntTest { base, verbs, within: false, seeds: 1..=100, lab: Lab::default() }
}

/// See [`hunt`].
#[must_use = "a hunt that is not run finds nothing"]
pub struct HuntTest {
    base: Plan,
    verbs: BTreeSet<String>,
    within: bool,
    seeds: RangeInclusive<u64>,
    lab: Lab,
}

impl HuntTest {
    /// Draws from these verbs only.
    pub fn faults<'a>(self, verbs: impl IntoIterator<Item = &'a str>) -> HuntTest {
        HuntTest { verbs: verbs.into_iter().map(str::to_owned).collect(), ..self }
    }

    /// Draws only plans that keep to what the lock assumes.
    pub fn within_assumptions(self) -> HuntTest {
        HuntTest { within: true, ..self }
    }

    /// Tries these seeds.
    pub fn seeds(self, seeds: RangeInclusive<u64>) -> HuntTest {
        HuntTest { seeds, ..self }
    }

    /// Hunts, and expects to find nothing.
    ///
    /// # Panics
    /// If something is violated, or nothing was tested.
    #[track_caller]
    pub fn holds(self) -> Tally {
        let (lab, report) = (self.lab, self.hunt());
        if let Some(found) = report.found {
            let finding = examine::finding(&lab, &found.plan, found.trial, Some(found.class));
            fail(&finding, "expected: no violation");
        }
        assert!(report.tally.struck_in_hold > 0, "nothing was tested: {:?}", report.tally);
        report.tally
    }

    /// Hunts, and expects a violation: the smallest plan that shows it.
    ///
    /// # Panics
    /// If nothing is found on any of the seeds.
    #[track_caller]
    pub fn finds(self) -> Finding {
        let (lab, report) = (self.lab, self.hunt());
        let tally = report.tally;
        let found = report.found.unwrap_or_else(|| panic!("no violation was found: {tally:?}"));
        examine::finding(&lab, &found.plan, found.trial, Some(found.class))
    }

    fn hunt(self) -> hunt::Report {
        let within = self.within.then(|| promise(&self.base));
        let alphabet = Alphabet { verbs: self.verbs, most_faults: 4, within };
        hunt::hunt(&Hunt { lab: self.lab, base: self.base, alphabet, seeds: self.seeds }, &|_| {})
    }
}

/// Writes the plan down and panics with the whole story.
#[track_caller]
fn fail(finding: &Finding, expected: &str) -> ! {
    let name = format!("{}-{}.plan.json", finding.scenario, finding.seed);
    let place = Path::new(FAILURES).join(&name);
    let written = input::write(Path::new(FAILURES), &name, &finding.plan.to_json());
    let plan = match written {
        Ok(()) => format!("again: lockstorm replay {}", place.display()),
        Err(_) => format!("the plan could not be written to {}", place.display()),
    };
    let story = text::page(finding, &explain(finding), false);
    panic!("{story}\n{expected}\nseed {}, plan {}\n{plan}\n", finding.seed, finding.plan_hash);
}
