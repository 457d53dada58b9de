//! The profile of a lock of the catalogue, or of a client library: what it sends, what it promises
//! and assumes, and how the scenarios and the matrix try it. All of it is run, so that none of it
//! can be other than what the code does.

use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};

use crate::explain::finding::Finding;
use crate::explore::examine;
use crate::explore::quiet::{QuietCall, calls};
use crate::hunt::matrix::{Contender, FAMILIES, MatrixRow, matrix};
use crate::lock::config::LockConfig;
use crate::plan::Plan;
use crate::plan::base_plan::home;
use crate::run::Lab;
use crate::scenario::Scenario;
use crate::scenario::expectation::ExpectedVerdict;

/// The number of plans of each cell of the row of a profile: those of `tests/golden/matrix.txt`.
pub const PLANS: u64 = 24;

/// A profile.
pub struct Profile<'a> {
    /// Whose it is.
    pub contender: Contender,
    /// The plan without faults, run.
    pub quiet: Finding,
    /// The options in that plan, with the defaults of those that it omits.
    pub config: LockConfig,
    /// What it sends.
    pub calls: Vec<QuietCall>,
    /// The scenarios about it.
    pub scenarios: Vec<&'a Scenario>,
    /// Of a library: the scenarios of its lock that set no option.
    of_lock: Vec<&'a Scenario>,
}

/// How it is broken. This takes far longer than the rest of a profile.
pub struct Damage {
    /// The scenarios that expect a violation, explained.
    pub findings: Vec<Finding>,
    /// Of a library: what becomes of the scenarios of its lock with its options.
    pub of_lock: Vec<Finding>,
    /// Its row of the matrix.
    pub row: MatrixRow,
}

impl Profile<'_> {
    /// The profile of a lock with those of these scenarios that are about it.
    pub fn of<'a>(lab: &Lab, contender: Contender, known: &'a [Scenario]) -> Profile<'a> {
        let plan = contender.base_plan(home(contender.lock));
        Profile {
            contender,
            quiet: examine::classified(lab, &plan),
            config: contender.lock.filled(&plan.lock),
            calls: calls(lab, &plan),
            scenarios: known.iter().filter(|one| is_about(one, &contender)).collect(),
            of_lock: known.iter().filter(|one| is_of_lock(one, &contender)).collect(),
        }
    }

    /// What breaks it.
    pub fn damage(&self, lab: &Lab) -> Damage {
        let broken: Vec<&&Scenario> = self.scenarios.iter().filter(|one| breaks(one)).collect();
        let explain = |one: &&Scenario| examine::scenario(lab, one, one.seeds()[0]);
        let findings = broken.into_par_iter().map(explain).collect();
        let of_lock = self.of_lock.par_iter().filter_map(|one| self.with_options(lab, one));
        let of_lock = of_lock.collect();
        let mut rows = matrix(lab, &[self.contender], &FAMILIES, &(1..=PLANS), &|| {}, || false);
        Damage { findings, of_lock, row: rows.remove(0) }
    }

    /// A scenario of the lock with the options of the library, if that makes sense.
    fn with_options(&self, lab: &Lab, scenario: &Scenario) -> Option<Finding> {
        let plan = scenario.plan(scenario.seeds()[0]);
        let plan = Plan { lock: self.contender.library?.of(plan.lock.clone()), ..plan };
        plan.validate_with(&lab.locks).ok()?;
        Some(Finding { ask: scenario.ask.clone(), ..examine::classified(lab, &plan) })
    }
}

/// Whether the expected answer is a violation.
pub fn breaks(scenario: &Scenario) -> bool {
    matches!(scenario.expect.answer, ExpectedVerdict::Violated { .. })
}

/// Whether a scenario is about the lock of a library, as that is without options.
fn is_of_lock(scenario: &Scenario, contender: &Contender) -> bool {
    let (lock, name) = (scenario.plan(scenario.seeds()[0]).lock, contender.lock.name);
    contender.library.is_some() && lock.algorithm == name && lock == lock.in_place(name)
}

/// Whether a scenario is about a lock in itself, or about this library.
fn is_about(scenario: &Scenario, contender: &Contender) -> bool {
    let lock = scenario.plan(scenario.seeds()[0]).lock;
    match contender.library {
        Some(library) => lock.library == library.title(),
        None => lock.library.is_empty() && lock.algorithm == contender.lock.name,
    }
}
