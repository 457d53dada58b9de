//! Stock: read the number of items; if any are left, work and write it back minus one. Double sales
//! become visible.

use async_trait::async_trait;

use crate::plan::Workload;
use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// See the module documentation.
pub struct Stock;

#[async_trait(?Send)]
impl CriticalSection for Stock {
    fn initial(&self, workload: &Workload) -> i64 {
        workload.items
    }

    /// One purchase; none once the stock is empty.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        let Some(left) = round.read().await else { return Ok(()) };
        if left > 0 {
            round.work().await?;
            round.write(left - 1, left).await;
        }
        Ok(())
    }
}
