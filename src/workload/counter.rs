//! Counter: read, work, write back plus one. Every update that is lost shows.

use crate::workload::round::Round;

/// One increment.
pub async fn round(round: &mut Round<'_>) {
    let Some(value) = round.read().await else { return };
    round.work().await;
    round.write(value + 1, value).await;
}
