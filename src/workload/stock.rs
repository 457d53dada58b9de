//! Stock: read the number of items; if any are left, work and write it back minus one. Double sales
//! become visible.

use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// One purchase; none once the stock is empty.
pub async fn round(round: &mut Round<'_>) -> Result<(), Finished> {
    let Some(left) = round.read().await else { return Ok(()) };
    if left > 0 {
        round.work().await?;
        round.write(left - 1, left).await;
    }
    Ok(())
}
