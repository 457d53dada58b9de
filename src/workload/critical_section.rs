//! The door of all workloads: what a client does under the lock in one round.

use async_trait::async_trait;

use crate::plan::Workload;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// The work of one round, between the grant and the release. `lockstorm list workloads` names the
/// built-in ones; a test may add its own.
///
/// It has no state of its own: what it must remember is in the resource. All clients of all runs
/// share one value of it.
#[async_trait(?Send)]
pub trait CriticalSection: Send + Sync {
    /// The value of the resource before the first access.
    fn initial(&self, _workload: &Workload) -> i64 {
        0
    }

    /// One round: reads, writes and entries at the resource, with work between them.
    ///
    /// # Errors
    /// If the lock ends the process: pass on what [`Round::work`] returns.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished>;
}
