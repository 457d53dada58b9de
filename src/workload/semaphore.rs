//! Semaphore: enter, work, leave. More callers inside at once than the lock has permits become
//! visible.

use async_trait::async_trait;

use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// See the module documentation.
pub struct EnterAndLeave;

#[async_trait(?Send)]
impl CriticalSection for EnterAndLeave {
    /// Two entries in the log of the resource: the caller is inside from the first to the second.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        round.append().await;
        round.work().await?;
        round.append().await;
        Ok(())
    }
}
