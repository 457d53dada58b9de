//! Append log: append an entry, work, append another. Entries of other callers between the two
//! become visible.

use async_trait::async_trait;

use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// See the module documentation.
pub struct AppendLog;

#[async_trait(?Send)]
impl CriticalSection for AppendLog {
    /// Two entries.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        round.append().await;
        round.work().await?;
        round.append().await;
        Ok(())
    }
}
