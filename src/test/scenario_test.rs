//! A scenario file to be run by a test.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::check::own::Check;
use crate::edge::{input, watchdog};
use crate::explore::examine;
use crate::explore::examine::met;
use crate::lock::algorithm::Algorithm;
use crate::run::Lab;
use crate::scenario::expectation::Fulfilled;
use crate::test::failure::{FAILURES, fail};
use crate::workload::critical_section::CriticalSection;

/// See [`scenario`](crate::test::scenario).
#[must_use = "a test that is not run tests nothing"]
pub struct ScenarioTest {
    path: PathBuf,
    seeds: Option<Vec<u64>>,
    lab: Lab,
}

impl ScenarioTest {
    pub(super) fn of(path: &Path) -> ScenarioTest {
        ScenarioTest { path: path.to_owned(), seeds: None, lab: Lab::default() }
    }

    /// The file may also name this lock.
    ///
    /// # Panics
    /// If a lock of this name exists.
    #[track_caller]
    pub fn lock(self, own: Algorithm) -> ScenarioTest {
        ScenarioTest { lab: self.lab.with_lock(own), ..self }
    }

    /// The file may also name this workload.
    ///
    /// # Panics
    /// If a workload of this name exists.
    #[track_caller]
    pub fn workload(self, name: &'static str, own: impl CriticalSection + 'static) -> ScenarioTest {
        ScenarioTest { lab: self.lab.with_workload(name, own), ..self }
    }

    /// Judges the runs by this check too.
    ///
    /// # Panics
    /// If a check or a kind of violation has this name.
    #[track_caller]
    pub fn check(self, name: &'static str, own: impl Check + 'static) -> ScenarioTest {
        ScenarioTest { lab: self.lab.with_check(name, own), ..self }
    }

    /// Runs it on turmoil, in whole milliseconds: this is slower, and gives a second opinion.
    #[cfg(feature = "turmoil")]
    pub fn on_turmoil(self) -> ScenarioTest {
        ScenarioTest { lab: self.lab.on_turmoil(), ..self }
    }

    /// Runs it on this seed instead of the file's seeds.
    pub fn seed(self, seed: u64) -> ScenarioTest {
        ScenarioTest { seeds: Some(vec![seed]), ..self }
    }

    /// Runs it on these seeds instead of the file's seeds.
    pub fn seeds(self, seeds: RangeInclusive<u64>) -> ScenarioTest {
        ScenarioTest { seeds: Some(seeds.collect()), ..self }
    }

    /// Runs it.
    ///
    /// # Panics
    /// If the file is not a scenario, or the result is not the expected one.
    #[track_caller]
    pub fn run(self) {
        let paths = std::slice::from_ref(&self.path);
        let read = input::scenarios_with(&self.lab.locks, paths);
        let scenarios = read.unwrap_or_else(|refusal| panic!("{}", refusal.render(false)));
        let lab = watchdog::over(self.lab, Path::new(FAILURES), watchdog::PATIENCE);
        for scenario in &scenarios {
            for seed in self.seeds.clone().unwrap_or_else(|| scenario.seeds()) {
                let finding = examine::scenario(&lab, scenario, seed);
                if met(scenario, &finding) != Fulfilled::Yes {
                    let expected = scenario.expect.held_against(&finding.judgement);
                    fail(&finding, &format!("expected: {expected}"));
                }
            }
        }
    }
}
