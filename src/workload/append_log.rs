//! Append log: append an entry, work, append another. Entries of other callers between the two
//! become visible.

use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// Two entries.
pub async fn round(round: &mut Round<'_>) -> Result<(), Finished> {
    round.append().await;
    round.work().await?;
    round.append().await;
    Ok(())
}
