//! Rate limit: so many requests pass in the life of a counter, which the first of them begins.
//!
//! Two lives that follow each other may let twice as many pass in the length of one: that is how a
//! fixed window counts, and no violation.

use async_trait::async_trait;

use crate::workload::addition::Addition;
use crate::workload::critical_section::CriticalSection;
use crate::workload::guard::Finished;
use crate::workload::round::Round;

/// In which order a request is counted and compared with the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimit {
    /// Count it, then compare the result, in one step.
    CountFirst,
    /// Compare what was counted before it, then count it, in one step: one more than the limit
    /// passes, since a count equal to the limit is not above it.
    TestFirst,
    /// Read the count and compare it, then add one, then set the end of the first: three steps.
    ThreeSteps,
}

#[async_trait(?Send)]
impl CriticalSection for RateLimit {
    /// One request, and the work of one that passes.
    async fn run(&self, round: &mut Round<'_>) -> Result<(), Finished> {
        let (limit, lasts) = (round.workload().items, round.workload().window);
        let count = Addition { lasts: Some(lasts), ..Addition::of(1) };
        let passed = match self {
            RateLimit::CountFirst => {
                round.add(Addition { most: Some(limit), first: true, ..count }).await
            }
            RateLimit::TestFirst => round.add(Addition { most: Some(limit + 1), ..count }).await,
            RateLimit::ThreeSteps => {
                if round.read().await.is_none_or(|before| before >= limit) {
                    return Ok(());
                }
                let after = round.add(Addition { lasts: None, ..count }).await;
                if after == Some(1) {
                    round.expire(lasts).await;
                }
                after
            }
        };
        if passed.is_some() { round.work().await } else { Ok(()) }
    }
}
