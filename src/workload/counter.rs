//! Counter: read the value, work, write it back plus one. Every lost update becomes visible.

use async_trait::async_trait;

use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// See the module documentation.
pub struct Counter;

#[async_trait(?Send)]
impl CriticalSection for Counter {
    /// One increment.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        let Some(value) = round.read().await else { return Ok(()) };
        round.work().await?;
        round.write(value + 1, value).await;
        Ok(())
    }
}
