//! For users' own `#[test]` functions: run a scenario, a hunt or a saved plan, and panic with a
//! readable message.
//!
//! A panic names the seed, the saved plan file, and the line that runs it again. The locks are
//! those of the catalogue, and each [`Algorithm`] that a test adds with `lock`.

use std::path::Path;

use crate::lock::algorithm::Algorithm;
use crate::plan::base_plan::{base_plan, base_plan_of};
use crate::plan::{Plan, TopologyKind};

mod failure;
mod hunt_test;
mod replay_test;
mod scenario_test;

pub use crate::test::hunt_test::HuntTest;
pub use crate::test::replay_test::ReplayTest;
pub use crate::test::scenario_test::ScenarioTest;

/// A scenario file to be run by a test.
///
/// ```
/// lockstorm::test::scenario("scenarios/gc-pause-outlives-lease.toml").run();
/// ```
pub fn scenario(path: impl AsRef<Path>) -> ScenarioTest {
    ScenarioTest::of(path.as_ref())
}

/// A hunt for violations of a lock of the catalogue on a topology. In a test it stops at the first
/// violation: the test fails by one, and its message is one story. [`HuntTest::report`], which is
/// for a `main`, searches on.
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
///
/// # Panics
/// If the catalogue has no lock of this name.
#[track_caller]
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
    HuntTest::of(base)
}

/// A saved plan that a test runs again: the plan of a failed test, once the bug is fixed.
pub fn replay(path: impl AsRef<Path>) -> ReplayTest {
    ReplayTest::of(path.as_ref())
}
