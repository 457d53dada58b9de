//! Counter: read the value, work, write it back plus one. Every lost update becomes visible.

use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// One increment.
pub async fn round(round: &mut Round<'_>) -> Result<(), Finished> {
    let Some(value) = round.read().await else { return Ok(()) };
    round.work().await?;
    round.write(value + 1, value).await;
    Ok(())
}
