//! Schedule: the job of one period. It registers its period and works. Two runs of a period become
//! visible.
//!
//! Each caller fires at the beginning of each period by the wall clock of its host. It tries the
//! lock once: it runs the job if it is granted the lock, and otherwise another instance does.

use async_trait::async_trait;

use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// See the module documentation.
pub struct Schedule;

#[async_trait(?Send)]
impl CriticalSection for Schedule {
    /// One run.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        let Some(last) = round.read().await else { return Ok(()) };
        round.write(round.period(), last).await;
        round.work().await
    }
}
