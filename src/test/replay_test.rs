//! A saved plan that a test runs again.

use std::path::{Path, PathBuf};

use crate::check::own::Check;
use crate::check::verdict::Verdict;
use crate::edge::{input, watchdog};
use crate::explore::examine;
use crate::lock::algorithm::Algorithm;
use crate::run::Lab;
use crate::test::failure::{FAILURES, fail};
use crate::workload::critical_section::CriticalSection;

/// See [`replay`](crate::test::replay).
#[must_use = "a test that is not run tests nothing"]
pub struct ReplayTest {
    path: PathBuf,
    lab: Lab,
}

impl ReplayTest {
    pub(super) fn of(path: &Path) -> ReplayTest {
        ReplayTest { path: path.to_owned(), lab: Lab::default() }
    }

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
