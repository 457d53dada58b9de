//! The kinds of guarded resources, and of what clients do there.

use serde::{Deserialize, Serialize};

use crate::name::Name;

/// The kind of the guarded resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Read, wait, write back plus one.
    Counter,
    /// Read; if any are left, wait and write back minus one.
    Stock,
    /// Read; if any are left, wait and take one in one step.
    StockGetDecr,
    /// Take one in one step, and give it back if it was one too many.
    StockDecr,
    /// Take one if any are left, in one step.
    StockScript,
    /// Like `Stock`, with a lock and a share of the items for each segment: who finds one empty
    /// turns to the next.
    StockSegments,
    /// Read; if the count is below its limit, wait and add one in one step.
    CheckThenIncr,
    /// Count a request and compare the result with the limit, in one step.
    RateLimit,
    /// Compare what was counted so far with the limit and count the request, in one step.
    RateLimitTestFirst,
    /// Read the count, add one, and set the end of the first: three steps.
    RateLimitThreeSteps,
    /// Append an entry, wait, append another.
    // Plans of earlier versions have the name that the assumption ledger has now.
    #[serde(alias = "ledger")]
    AppendLog,
    /// Go on as soon as the latch is open, and not before.
    Latch,
    /// Enter, wait, leave: as many may be inside at once as the lock has permits.
    Semaphore,
    /// Once a period: register the period, wait.
    Schedule,
    /// One of the user's own, by its name: a test adds its code.
    #[serde(untagged)]
    Own(Name),
}

impl WorkloadKind {
    /// Whether it counts requests in the life of a counter.
    pub fn is_rate_limit(&self) -> bool {
        matches!(
            self,
            WorkloadKind::RateLimit
                | WorkloadKind::RateLimitTestFirst
                | WorkloadKind::RateLimitThreeSteps
        )
    }

    /// Whether its resource stays whole only if one caller at a time works on it.
    pub fn needs_one_holder(&self) -> bool {
        matches!(
            self,
            WorkloadKind::Counter
                | WorkloadKind::Stock
                | WorkloadKind::StockGetDecr
                | WorkloadKind::StockSegments
                | WorkloadKind::CheckThenIncr
                | WorkloadKind::RateLimitThreeSteps
                | WorkloadKind::AppendLog
                | WorkloadKind::Schedule
        )
    }

    /// Whether it begins with the items of a stock.
    pub fn is_stock(&self) -> bool {
        matches!(
            self,
            WorkloadKind::Stock
                | WorkloadKind::StockGetDecr
                | WorkloadKind::StockDecr
                | WorkloadKind::StockScript
                | WorkloadKind::StockSegments
        )
    }
}
