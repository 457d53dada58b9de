//! Check, then increment: read the count; if it is below its limit, work and add one. The addition
//! is one step, but what was read may no longer be true.

use async_trait::async_trait;

use crate::workload::addition::Addition;
use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// See the module documentation.
pub struct CheckThenIncr;

#[async_trait(?Send)]
impl CriticalSection for CheckThenIncr {
    /// One increment; none once the limit is reached.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        let limit = round.workload().items;
        if round.read().await.is_some_and(|count| count < limit) {
            round.work().await?;
            round.add(Addition::of(1)).await;
        }
        Ok(())
    }
}
