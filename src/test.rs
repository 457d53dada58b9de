//! For users' own `#[test]` functions: run a scenario, a hunt or a saved plan, and panic with a
//! readable message.
//!
//! A panic names the seed, the saved plan file, and the line that runs it again. The locks are
//! those of the catalogue, and each [`Algorithm`] that a test adds with `lock`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lockstorm_platform::time::Nanos;

use crate::check::Verdict;
use crate::cli::act::Page;
use crate::cli::{Ending, hunting, input, output, say, watchdog};
use crate::explain::explain;
use crate::explain::finding::Finding;
use crate::explore::examine::{self, met};
use crate::explore::ground::{ground, ground_of};
use crate::explore::habits::Parameter;
use crate::explore::hunt::{self, Hunt, Tally};
use crate::explore::strategy::{self, Alphabet};
use crate::lock::catalogue::{self, Algorithm};
use crate::plan::extend::Extend;
use crate::plan::{Plan, TopologyKind};
use crate::report::text;
use crate::run::Lab;
use crate::scenario::expectation::Met;

/// The folder for plans of failed tests, relative to the package's root.
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
    /// The file may also name this lock.
    ///
    /// # Panics
    /// If a lock of this name exists.
    #[track_caller]
    pub fn lock(self, own: Algorithm) -> ScenarioTest {
        ScenarioTest { lab: self.lab.with_lock(own), ..self }
    }

    /// Runs it on turmoil, in whole milliseconds: slower, and a second opinion.
    #[cfg(feature = "turmoil")]
    pub fn on_turmoil(self) -> ScenarioTest {
        let lab = Lab { locks: self.lab.locks, ..Lab::turmoil() };
        ScenarioTest { lab, ..self }
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
    /// If the file is no scenario, or the result is not the expected one.
    #[track_caller]
    pub fn run(self) {
        let paths = std::slice::from_ref(&self.path);
        let read = input::scenarios_with(&self.lab.locks, paths);
        let scenarios = read.unwrap_or_else(|refusal| panic!("{}", refusal.render(false)));
        let lab = watchdog::over(self.lab, Path::new(FAILURES), watchdog::PATIENCE);
        for scenario in &scenarios {
            for seed in self.seeds.clone().unwrap_or_else(|| scenario.seeds()) {
                let finding = examine::scenario(&lab, scenario, seed);
                if met(scenario, &finding) != Met::Yes {
                    let expected = scenario.expect.held_against(&finding.judgement);
                    fail(&finding, &format!("expected: {expected}"));
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

/// A hunt for violations of a lock of one's own on a topology.
///
/// ```
/// use lockstorm::lock::catalogue::Algorithm;
/// use lockstorm::lock::none::NoLock;
/// use lockstorm::plan::TopologyKind;
///
/// const MINE: Algorithm = Algorithm::mutex("mine", |setting| Box::new(NoLock::new(setting)));
///
/// let finding = lockstorm::test::hunt_own(MINE, TopologyKind::Single).finds();
/// assert_eq!(finding.plan.lock.algorithm, "mine");
/// ```
///
/// # Panics
/// If the catalogue has a lock of this name.
#[track_caller]
pub fn hunt_own(lock: Algorithm, topology: TopologyKind) -> HuntTest {
    hunt_from(ground_of(&lock, topology)).lock(lock)
}

/// A hunt with plans like `base`, except for its faults.
pub fn hunt_from(base: Plan) -> HuntTest {
    HuntTest {
        base,
        verbs: None,
        varies: Parameter::all(),
        within: false,
        seeds: 1..=100,
        lab: Lab::default(),
        patience: watchdog::PATIENCE,
    }
}

/// See [`hunt`].
#[must_use = "a hunt that is not run finds nothing"]
pub struct HuntTest {
    base: Plan,
    verbs: Option<BTreeSet<String>>,
    varies: BTreeSet<Parameter>,
    within: bool,
    seeds: RangeInclusive<u64>,
    lab: Lab,
    patience: Duration,
}

impl HuntTest {
    /// The plans may also name this lock.
    ///
    /// # Panics
    /// If a lock of this name exists.
    #[track_caller]
    pub fn lock(self, own: Algorithm) -> HuntTest {
        HuntTest { lab: self.lab.with_lock(own), ..self }
    }

    /// Runs the plans on turmoil, in whole milliseconds: slower, and a second opinion.
    #[cfg(feature = "turmoil")]
    pub fn on_turmoil(self) -> HuntTest {
        let lab = Lab { locks: self.lab.locks, ..Lab::turmoil() };
        HuntTest { lab, ..self }
    }

    /// Draws from these verbs only.
    pub fn faults<'a>(self, verbs: impl IntoIterator<Item = &'a str>) -> HuntTest {
        HuntTest { verbs: Some(verbs.into_iter().map(str::to_owned).collect()), ..self }
    }

    /// Fixes the work time of clients, ns.
    pub fn hold(mut self, length: Nanos) -> HuntTest {
        self.base.workload.hold = length;
        self.given(Parameter::Hold)
    }

    /// Fixes the lease, ns.
    pub fn ttl(mut self, length: Nanos) -> HuntTest {
        let longer = length.saturating_sub(self.base.longest_ttl());
        self.base.until = self.base.until.saturating_add(longer);
        self.base.lock.ttl = Some(length);
        self.given(Parameter::Ttl)
    }

    /// Fixes the number of nodes, including replicas.
    pub fn nodes(mut self, count: u32) -> HuntTest {
        self.base.topology.nodes = count;
        self.given(Parameter::Nodes)
    }

    /// Fixes the number of clients.
    pub fn clients(mut self, count: u32) -> HuntTest {
        self.base.workload.clients = count;
        self.given(Parameter::Clients)
    }

    /// Fixes the timeout of the lock's requests, ns.
    pub fn timeout(mut self, length: Nanos) -> HuntTest {
        self.base.lock.timeout = Some(length);
        self.given(Parameter::Timeout)
    }

    /// Fixes when clients extend their grants.
    pub fn extend(mut self, extend: Extend) -> HuntTest {
        self.base.workload.extend = extend;
        self.given(Parameter::Extend)
    }

    /// Whether clients re-enter the lock while they hold it.
    pub fn reenter(mut self, reenter: bool) -> HuntTest {
        self.base.workload.reenter = reenter;
        self.given(Parameter::Reenter)
    }

    /// Whether clients check their deadline before each access.
    pub fn check_validity(mut self, check: bool) -> HuntTest {
        self.base.workload.check_validity = check;
        self.given(Parameter::CheckValidity)
    }

    /// The plans differ only in their faults and in the number of clients.
    pub fn as_it_is(mut self) -> HuntTest {
        self.varies = BTreeSet::from([Parameter::Clients]);
        self
    }

    fn given(mut self, parameter: Parameter) -> HuntTest {
        self.varies.remove(&parameter);
        self
    }

    /// The maximum real time of one poll of the lock before the process exits with code 70: the
    /// lock loops without an await.
    pub fn patience(self, patience: Duration) -> HuntTest {
        HuntTest { patience, ..self }
    }

    /// Draws only plans within the lock's assumptions.
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
        let (lab, report) = self.hunt();
        if let Some(found) = report.found {
            let finding = examine::finding(&lab, None, &found.plan, found.trial, found.class);
            fail(&finding, "expected: no violation");
        }
        assert!(report.tally.has_tested(), "nothing was tested: {:?}", report.tally);
        report.tally
    }

    /// Hunts, and expects a violation; returns the smallest plan that shows it.
    ///
    /// # Panics
    /// If nothing is found on any of the seeds.
    #[track_caller]
    pub fn finds(self) -> Finding {
        let (lab, report) = self.hunt();
        let tally = report.tally;
        let found = report.found.unwrap_or_else(|| panic!("no violation was found: {tally:?}"));
        examine::finding(&lab, None, &found.plan, found.trial, found.class)
    }

    /// Hunts, and reports the result on standard output: for a `main`. The exit codes are those of
    /// the command line.
    pub fn tell(self) -> ExitCode {
        let (lab, report) = self.hunt();
        let tested = hunting::tested(&report.tally);
        let ending = if let Some(found) = report.found {
            let finding = examine::finding(&lab, None, &found.plan, found.trial, found.class);
            say(&format!("{}\nfound after {tested}\n{}", story(&finding), kept(&finding)));
            Ending::Violated
        } else if !report.tally.has_tested() {
            say(&format!("unknown: nothing was tested ({tested})"));
            Ending::Unknown
        } else {
            say(&format!("no violation in {tested}"));
            Ending::Held
        };
        ending.into()
    }

    fn hunt(self) -> (Lab, hunt::Report) {
        let HuntTest { lab, base, verbs, varies, within, seeds, patience } = self;
        let lab = watchdog::over(lab, Path::new(FAILURES), patience);
        if let Err(refused) = base.validate_with(&lab.locks) {
            panic!("the plans of this hunt make no sense: {refused}");
        }
        let mut alphabet = Alphabet { varies, within, ..Alphabet::of(*lab.algorithm(&base)) };
        alphabet.verbs = verbs.unwrap_or(alphabet.verbs);
        if let Some(why) = strategy::beyond(&base, &alphabet) {
            panic!("no plan of this hunt is within the assumptions of the lock: {why}");
        }
        // A panic here occurs once, instead of once in every worker.
        let _ = lab.promise(&base);
        let hunt = Hunt { lab, base, alphabet, seeds };
        let report = hunt::hunt(&hunt, &|_| {});
        (hunt.lab, report)
    }
}

/// A saved plan that a test runs again: the plan of a failed test, once the bug is fixed.
pub fn replay(path: impl AsRef<Path>) -> ReplayTest {
    ReplayTest { path: path.as_ref().to_owned(), lab: Lab::default() }
}

/// See [`replay`].
#[must_use = "a test that is not run tests nothing"]
pub struct ReplayTest {
    path: PathBuf,
    lab: Lab,
}

impl ReplayTest {
    /// The plan may also name this lock.
    ///
    /// # Panics
    /// If a lock of this name exists.
    #[track_caller]
    pub fn lock(self, own: Algorithm) -> ReplayTest {
        ReplayTest { lab: self.lab.with_lock(own), ..self }
    }

    /// Runs it, and expects to find nothing.
    ///
    /// # Panics
    /// If the file is no plan, something is violated, or nothing was tested.
    #[track_caller]
    pub fn holds(self) {
        let read = input::plan_with(&self.lab.locks, &self.path);
        let plan = read.unwrap_or_else(|refusal| panic!("{}", refusal.render(false)));
        let lab = watchdog::over(self.lab, Path::new(FAILURES), watchdog::PATIENCE);
        let finding = examine::plan(&lab, &plan);
        if finding.judgement.verdict != Verdict::Holds {
            fail(&finding, "expected: no violation");
        }
    }
}

/// Saves the plan and panics with the whole story.
#[track_caller]
fn fail(finding: &Finding, expected: &str) -> ! {
    panic!("{}\n{expected}\n{}\n", story(finding), kept(finding));
}

fn story(finding: &Finding) -> String {
    text::page(finding, &explain(finding), false)
}

/// Saves the plan; returns how to run it again.
fn kept(finding: &Finding) -> String {
    let name = format!("{}-{}.plan.json", finding.scenario, finding.seed);
    let place = Path::new(FAILURES).join(&name);
    let page = Page { name, text: finding.plan.to_json() };
    let written = output::write(Path::new(FAILURES), &[page]);
    let own = catalogue::find(&finding.plan.lock.algorithm).is_none();
    let again = match written {
        // The command line knows only the catalogue.
        Ok(()) if own => format!("again: lockstorm::test::replay({place:?}).lock(...).holds()"),
        Ok(()) => format!("again: lockstorm replay {}", place.display()),
        Err(_) => format!("the plan could not be written to {}", place.display()),
    };
    format!("seed {}, plan {}\n{again}", finding.seed, finding.plan_hash)
}
