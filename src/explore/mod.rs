//! Repeated runs of one plan, and what is learned from them.
//!
//! - [`trial`]: one run, judged and checked against the lock's assumptions
//! - [`rerun`]: reruns of plans, each plan once
//! - [`quiet`]: what a lock sends where nothing disturbs it
//! - [`class`]: whether a violation is in-model or out-of-model
//! - [`leeway`]: which settings leave no time for work
//! - [`cause`]: what made the difference, by trial
//! - [`sufficient`]: which sets of parts suffice, without the runs
//! - [`other_effect`]: what else a fault does than the violation in the headline
//! - [`knob`]: the figures of a plan that can be made larger or smaller
//! - [`threshold`]: the value of a figure at which the verdict changes
//! - [`remedy`]: what removes the violation
//! - [`budget`]: how long an explanation may take
//! - [`examine`]: all that a report needs about one plan
//! - [`as_scenario`]: a found plan as the scenario that a person would write
//! - [`agree`]: whether two engines agree

pub mod agree;
pub mod as_scenario;
pub mod budget;
pub mod cause;
pub mod class;
pub mod examine;
pub mod knob;
pub mod leeway;
pub mod other_effect;
pub mod quiet;
pub mod remedy;
pub mod rerun;
pub mod sufficient;
pub mod threshold;
pub mod trial;
