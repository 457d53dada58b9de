//! Stock: sell one item, if any are left. Sales of what is not there become visible.
//!
//! Read, work and write are for a caller that holds a lock. What is done in one step at the
//! resource needs none, unless it follows what was read before.

use async_trait::async_trait;

use crate::plan::Workload;
use crate::workload::addition::Addition;
use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// How an item is taken out of the stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stock {
    /// Read; if any are left, work and write back minus one.
    Write,
    /// Read; if any are left, work and take one, without a look at what is left then.
    ReadThenTake,
    /// Take one; if that was one too many, give it back.
    TakeAndGiveBack,
    /// Take one if any are left, in one step.
    Script,
    /// As `Write`, in one segment; a segment without items sends the buyer to the next.
    Segment,
}

#[async_trait(?Send)]
impl CriticalSection for Stock {
    fn initial(&self, workload: &Workload) -> i64 {
        workload.items
    }

    /// One purchase; none once the stock is empty.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        let take = Addition::of(-1);
        match self {
            Stock::Write | Stock::ReadThenTake => {
                let Some(left) = round.read().await.filter(|left| *left > 0) else { return Ok(()) };
                round.work().await?;
                match self {
                    Stock::Write => round.write(left - 1, left).await,
                    _ => _ = round.add(take).await,
                }
            }
            Stock::TakeAndGiveBack => {
                // Without an answer nothing is given back: perhaps nothing was taken.
                if round.add(take).await.is_some_and(|left| left < 0) {
                    round.add(Addition::of(1)).await;
                }
            }
            Stock::Segment => match round.read().await {
                Some(left) if left > 0 => {
                    round.work().await?;
                    round.write(left - 1, left).await;
                }
                Some(_) => round.finds_nothing().await,
                None => {}
            },
            Stock::Script => _ = round.add(Addition { least: Some(0), ..take }).await,
        }
        Ok(())
    }
}
