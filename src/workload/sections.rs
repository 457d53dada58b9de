//! Every critical section by the kind of its workload: the built-in ones, and the user's own.

use std::fmt;
use std::sync::Arc;

use crate::plan::WorkloadKind;
use crate::workload::append_log::AppendLog;
use crate::workload::check_then_incr::CheckThenIncr;
use crate::workload::counter::Counter;
use crate::workload::critical_section::CriticalSection;
use crate::workload::latch::GoOn;
use crate::workload::rate_limit::RateLimit;
use crate::workload::schedule::Schedule;
use crate::workload::semaphore::EnterAndLeave;
use crate::workload::stock::Stock;

/// The critical sections that a test adds to the built-in ones, by name.
#[derive(Clone, Default)]
pub struct Sections(Vec<(&'static str, Arc<dyn CriticalSection>)>);

impl fmt::Debug for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Sections {
    /// Adds a critical section. Whether the name is free is decided where names are known.
    #[must_use]
    pub fn with(mut self, name: &'static str, own: impl CriticalSection + 'static) -> Sections {
        self.0.push((name, Arc::new(own)));
        self
    }

    /// The critical section of a kind of workload; `None` for an unknown one of the user's own.
    pub fn find(&self, kind: &WorkloadKind) -> Option<Arc<dyn CriticalSection>> {
        match kind {
            WorkloadKind::Counter => Some(Arc::new(Counter)),
            WorkloadKind::Stock => Some(Arc::new(Stock::Write)),
            WorkloadKind::StockGetDecr => Some(Arc::new(Stock::ReadThenTake)),
            WorkloadKind::StockDecr => Some(Arc::new(Stock::TakeAndGiveBack)),
            WorkloadKind::StockScript => Some(Arc::new(Stock::Script)),
            WorkloadKind::StockSegments => Some(Arc::new(Stock::Segment)),
            WorkloadKind::CheckThenIncr => Some(Arc::new(CheckThenIncr)),
            WorkloadKind::RateLimit => Some(Arc::new(RateLimit::CountFirst)),
            WorkloadKind::RateLimitTestFirst => Some(Arc::new(RateLimit::TestFirst)),
            WorkloadKind::RateLimitThreeSteps => Some(Arc::new(RateLimit::ThreeSteps)),
            WorkloadKind::AppendLog => Some(Arc::new(AppendLog)),
            WorkloadKind::Latch => Some(Arc::new(GoOn)),
            WorkloadKind::Semaphore => Some(Arc::new(EnterAndLeave)),
            WorkloadKind::Schedule => Some(Arc::new(Schedule)),
            WorkloadKind::Own(name) => {
                let own = self.0.iter().find(|(own, _)| *name == **own);
                own.map(|(_, section)| Arc::clone(section))
            }
        }
    }
}
