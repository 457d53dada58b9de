//! Latch: go on at once, then work. A party that goes on before all have counted down becomes
//! visible.

use async_trait::async_trait;

use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// See the module documentation.
pub struct GoOn;

#[async_trait(?Send)]
impl CriticalSection for GoOn {
    /// One entry, as soon as the latch is open.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        round.append().await;
        round.work().await
    }
}
