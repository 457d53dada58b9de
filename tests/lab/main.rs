//! Whole flows inside one process: plans and histories go in, verdicts, explanations and reports
//! come out. They share one program, because linking a program a file took most of the build.

use std::time::Duration;

use lockstorm::explore::budget::Budget;

/// A budget that is used up: the causes are searched, and neither thresholds nor remedies.
const NO_TIME: Budget = Budget {
    length: Duration::ZERO,
    clock: || Duration::ZERO,
    report: |_| {},
    is_stopped: || false,
};

mod amount;
mod brute;
mod callers;
mod causes;
mod class;
mod contract;
mod distinct;
mod drawn;
mod engines;
mod example;
mod found;
mod groups;
mod handed_on;
mod histories;
mod hunt;
mod limits;
mod list_queue;
mod lock_calls;
mod lock_options;
mod locks;
mod matrix;
mod mechanisms;
mod met;
mod own;
mod own_report;
mod own_work;
mod pages;
mod permits;
mod provenance;
mod queue;
mod reach;
mod readme;
mod reentry;
mod refusals;
mod review;
mod scenarios;
mod scripted;
mod semaphore;
mod sharing;
mod story;
mod strategies;
mod true_stories;
mod waiters;
mod wire;
