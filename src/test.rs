//! For users' own `#[test]` functions: run a scenario, a hunt or a saved plan, and panic with a
//! readable message.
//!
//! A panic names the seed, the saved plan file, and the line that runs it again. The locks are
//! those of the catalogue, and each [`Algorithm`] that a test adds with `lock`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lockstorm_platform::time::Nanos;

use crate::check::own::Check;
use crate::check::signature::Signature;
use crate::check::verdict::Verdict;
use crate::edge::ending::Exit;
use crate::edge::page::Page;
use crate::edge::terminal::say;
use crate::edge::{input, output, watchdog};
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explore::base_plan::{base_plan, base_plan_of};
use crate::explore::examine::met;
use crate::explore::hunt::Tally;
use crate::explore::quarry::{Quarry, countable};
use crate::explore::strategy::Strategies;
use crate::explore::{examine, hunt};
use crate::lock::algorithm::Algorithm;
use crate::lock::catalogue;
use crate::plan::extend::Extend;
use crate::plan::{Persistence, Plan, TopologyKind, WorkloadKind};
use crate::report::text;
use crate::run::Lab;
use crate::scenario::expectation::Fulfilled;
use crate::workload::critical_section::CriticalSection;

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

/// A hunt for violations of a lock of the catalogue on a topology. It stops at the first violation:
/// a test fails by one, and its message tells one story. `lockstorm hunt` searches on.
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
    hunt_from(base_plan(lock, topology))
}

/// A hunt for violations of a user's own lock on a topology.
///
/// ```
/// use lockstorm::lock::algorithm::Algorithm;
/// use lockstorm::lock::algorithm::none::NoLock;
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
    hunt_from(base_plan_of(&lock, topology)).lock(lock)
}

/// A hunt with plans like `base`, except for its faults.
pub fn hunt_from(base: Plan) -> HuntTest {
    HuntTest { quarry: Quarry::like(base), lab: Lab::default(), patience: watchdog::PATIENCE }
}

/// See [`hunt`].
#[must_use = "a hunt that is not run finds nothing"]
pub struct HuntTest {
    quarry: Quarry,
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

    /// Clients do this under the lock, instead of incrementing a counter. What is wrong then is for
    /// a [`HuntTest::check`] to say: the built-in invariants of the resource do not apply.
    ///
    /// # Panics
    /// If a workload of this name exists.
    #[track_caller]
    pub fn workload(mut self, name: &'static str, own: impl CriticalSection + 'static) -> HuntTest {
        self.quarry.workload(WorkloadKind::Own(name.into()));
        HuntTest { lab: self.lab.with_workload(name, own), ..self }
    }

    /// Judges every run by this check too: what it finds is a violation like any other.
    ///
    /// ```
    /// use lockstorm::own::{Case, Findings, TopologyKind, Violation};
    ///
    /// fn no_number_below_zero(case: &Case<'_>) -> Findings {
    ///     let accesses = case.history.accesses.iter().enumerate();
    ///     let found = accesses.filter(|(_, access)| access.value < 0).map(|(index, access)| {
    ///         let own = Violation::own("a number below 0", access.at, access.at);
    ///         Violation { accesses: vec![index], ..own }
    ///     });
    ///     found.collect::<Vec<_>>().into()
    /// }
    ///
    /// let hunt = lockstorm::test::hunt("redlock", TopologyKind::Independent);
    /// let hunt = hunt.check("numbers", no_number_below_zero);
    /// assert!(hunt.within_assumptions().seeds(1..=5).holds().grants > 0);
    /// ```
    ///
    /// # Panics
    /// If a check or a kind of violation has this name.
    #[track_caller]
    pub fn check(self, name: &'static str, own: impl Check + 'static) -> HuntTest {
        HuntTest { lab: self.lab.with_check(name, own), ..self }
    }

    /// Runs the plans on turmoil, in whole milliseconds: this is slower, and gives a second
    /// opinion.
    #[cfg(feature = "turmoil")]
    pub fn on_turmoil(self) -> HuntTest {
        HuntTest { lab: self.lab.on_turmoil(), ..self }
    }

    /// Draws plans like this one, except for their faults: other links, another topology, another
    /// workload. It replaces what was set before, except for faults and seeds.
    ///
    /// ```
    /// use lockstorm::own::{TopologyKind, base_plan};
    /// use lockstorm::plan::WorkloadKind;
    ///
    /// let mut plan = base_plan("redlock", TopologyKind::Independent);
    /// plan.workload.kind = WorkloadKind::Stock;
    /// plan.links.loss_per_million = 10_000;
    /// let hunt = lockstorm::test::hunt("redlock", TopologyKind::Independent);
    /// let tally = hunt.base(plan).within_assumptions().seeds(1..=5).holds();
    /// assert!(tally.grants > 0);
    /// ```
    pub fn base(mut self, plan: Plan) -> HuntTest {
        self.quarry.base(plan);
        self
    }

    /// Draws from these verbs only.
    pub fn faults<'a>(mut self, verbs: impl IntoIterator<Item = &'a str>) -> HuntTest {
        self.quarry.faults = verbs.into_iter().map(str::to_owned).collect();
        self
    }

    /// Fixes the work time of clients, ns.
    pub fn hold(mut self, length: Nanos) -> HuntTest {
        self.quarry.hold(length);
        self
    }

    /// Fixes the lease, ns.
    pub fn ttl(mut self, length: Nanos) -> HuntTest {
        self.quarry.ttl(length);
        self
    }

    /// Fixes the number of nodes, including replicas.
    pub fn nodes(mut self, count: u32) -> HuntTest {
        self.quarry.nodes(count);
        self
    }

    /// Fixes what the nodes write to their disks.
    pub fn persistence(mut self, persistence: Persistence) -> HuntTest {
        self.quarry.persistence(persistence);
        self
    }

    /// Fixes the number of clients.
    pub fn clients(mut self, count: u32) -> HuntTest {
        self.quarry.clients(count);
        self
    }

    /// Fixes the timeout of the lock's requests, ns.
    pub fn timeout(mut self, length: Nanos) -> HuntTest {
        self.quarry.timeout(length);
        self
    }

    /// Fixes when clients extend their grants: `"1/2".parse()` is each time that half of the lease
    /// has passed, `"until-lost"` until the lock reports the loss, `"never"` not at all.
    pub fn extend(mut self, extend: Extend) -> HuntTest {
        self.quarry.extend(extend);
        self
    }

    /// Sets whether clients re-enter the lock while they hold it.
    pub fn reenter(mut self, reenter: bool) -> HuntTest {
        self.quarry.reenter(reenter);
        self
    }

    /// Sets whether clients check their deadline before each access.
    pub fn check_validity(mut self, check: bool) -> HuntTest {
        self.quarry.check_validity(check);
        self
    }

    /// Draws only the faults and the number of clients.
    pub fn as_it_is(mut self) -> HuntTest {
        self.quarry.as_it_is();
        self
    }

    /// Sets the maximum real time of one poll of the lock. After that the process exits with code
    /// 70: the lock loops without an await.
    pub fn patience(self, patience: Duration) -> HuntTest {
        HuntTest { patience, ..self }
    }

    /// Draws only plans within the lock's assumptions.
    pub fn within_assumptions(mut self) -> HuntTest {
        self.quarry.within_assumptions = true;
        self
    }

    /// Tries these seeds.
    pub fn seeds(mut self, seeds: RangeInclusive<u64>) -> HuntTest {
        self.quarry.seeds = seeds;
        self
    }

    /// Draws plans by this strategy, or by the portfolio of all of them, which is the default.
    pub fn strategy(mut self, strategies: impl Into<Strategies>) -> HuntTest {
        self.quarry.strategies = strategies.into();
        self
    }

    /// Hunts, and expects to find nothing.
    ///
    /// # Panics
    /// If something is violated, or nothing was tested.
    #[track_caller]
    pub fn holds(self) -> Tally {
        let (lab, report) = self.hunt();
        if let Some(found) = report.found {
            let drawn = found.strategy;
            let finding = found.finding(&lab, None);
            fail(&finding, &format!("expected: no violation\ndrawn by the strategy '{drawn}'"));
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
        found.finding(&lab, None)
    }

    /// Hunts, and reports the result on standard output; for a `main`. The exit codes are those of
    /// the command line.
    pub fn report(self) -> ExitCode {
        let is_within = self.quarry.within_assumptions;
        let (lab, report) = self.hunt();
        let tested = &report.tally;
        let ending = if let Some(found) = report.found {
            let drawn = found.strategy;
            let finding = found.finding(&lab, None);
            let (story, kept) = (story(&finding), kept(&finding));
            say(&format!("{story}\nfound after {tested}\ndrawn by the strategy '{drawn}'\n{kept}"));
            let is_outside = finding.class.as_ref().is_some_and(|class| !class.is_in_model());
            if is_outside && !is_within {
                say(
                    "a bug of the lock itself may hide behind this one: hunt .within_assumptions()",
                );
            }
            Exit::Violated
        } else if !report.tally.has_tested() {
            say(&format!("unknown: nothing was tested ({tested})"));
            Exit::Unknown
        } else {
            say(&format!("no violation in {tested}\nexplored: {}", report.novelty));
            Exit::Held
        };
        ending.into()
    }

    #[track_caller]
    fn hunt(self) -> (Lab, hunt::HuntReport) {
        let HuntTest { quarry, lab, patience } = self;
        let lab = watchdog::over(lab, Path::new(FAILURES), patience);
        let seeds = quarry.seeds.clone();
        let hunt = countable(seeds, 1).and_then(|_| quarry.hunt(lab));
        let hunt = hunt.unwrap_or_else(|refusal| panic!("{}", refusal.render(false)));
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

    /// The plan may also name this workload.
    ///
    /// # Panics
    /// If a workload of this name exists.
    #[track_caller]
    pub fn workload(self, name: &'static str, own: impl CriticalSection + 'static) -> ReplayTest {
        ReplayTest { lab: self.lab.with_workload(name, own), ..self }
    }

    /// Judges the run by this check too.
    ///
    /// # Panics
    /// If a check or a kind of violation has this name.
    #[track_caller]
    pub fn check(self, name: &'static str, own: impl Check + 'static) -> ReplayTest {
        ReplayTest { lab: self.lab.with_check(name, own), ..self }
    }

    /// Runs it, and expects to find nothing.
    ///
    /// # Panics
    /// If the file is not a plan, something is violated, or nothing was tested.
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

/// Saves the plan, and panics with the whole story.
#[track_caller]
fn fail(finding: &Finding, expected: &str) -> ! {
    panic!("{}\n{expected}\n{}\n", story(finding), kept(finding));
}

fn story(finding: &Finding) -> String {
    text::page(finding, &explain(finding), false)
}

/// Saves the plan under its hash, so that it replaces no other plan; returns how to run it again.
fn kept(finding: &Finding) -> String {
    let name = format!("{}-{}-{}.plan.json", finding.scenario, finding.seed, finding.plan_hash);
    let place = Path::new(FAILURES).join(&name);
    let page = Page { name, text: finding.plan.to_json() };
    let written = output::write(Path::new(FAILURES), &[page]);
    let own = owned(finding);
    let again = match written {
        // The command line knows only the catalogue.
        Ok(()) if !own.is_empty() => {
            format!("again: lockstorm::test::replay({place:?}){own}.holds()")
        }
        Ok(()) => format!("again: lockstorm replay {}", place.display()),
        Err(_) => format!("the plan could not be written to {}", place.display()),
    };
    format!("seed {}, plan {}\n{again}", finding.seed, finding.plan_hash)
}

/// What a replay of the plan needs from the test's author.
fn owned(finding: &Finding) -> String {
    let plan = &finding.plan;
    let lock = catalogue::find(&plan.lock.algorithm).is_none().then_some(".lock(...)");
    let work = matches!(plan.workload.kind, WorkloadKind::Own(_)).then_some(".workload(...)");
    let is_own = !Signature::of(&finding.judgement.verdict).checks.is_empty();
    let check = is_own.then_some(".check(...)");
    lock.into_iter().chain(work).chain(check).collect()
}
