//! Ledger: append an entry, work, append another. Entries of another between the two show.

use crate::workload::round::Round;

/// Two entries.
pub async fn round(round: &mut Round<'_>) {
    round.append().await;
    round.work().await;
    round.append().await;
}
