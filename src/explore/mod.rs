//! Repeated runs, and what is learned from them.
//!
//! - [`trial`]: one run, judged and checked against the lock's assumptions
//! - [`rerun`]: reruns of plans, each plan once
//! - [`class`]: whether a violation is in-model or out-of-model
//! - [`cause`]: what made the difference, by trial
//! - [`knob`]: the figures of a plan that can be made larger or smaller
//! - [`threshold`]: the value of a figure at which the verdict changes
//! - [`remedy`]: what removes the violation
//! - [`budget`]: how long an explanation may take
//! - [`examine`]: all that a report needs about one plan
//! - [`base_plan`]: the base plan of a hunt
//! - [`drawing`]: proptest strategies for faults and plans
//! - [`strategy`]: how a hunt draws its plans
//! - [`novelty`]: how many states a hunt has seen
//! - [`quarry`]: the request for a hunt
//! - [`wording`]: how its refusals name what the reader may set
//! - [`hunt`]: the search for violations over seeds
//! - [`group`]: the violations of a hunt in groups
//! - [`distinct`]: the distinct findings of a hunt, each shrunk
//! - [`catch`]: the result of a hunt, its first finding explained
//! - [`campaign`]: a hunt in parts, on many machines
//! - [`sound`]: what a correct lock of the same family does in a plan
//! - [`shrink`]: a smaller plan with the same violation
//! - [`smaller`]: plans that are one step smaller
//! - [`habits`]: the use and setup of a lock, as hunts draw them
//! - [`agree`]: whether two engines agree

pub mod agree;
pub mod base_plan;
pub mod budget;
pub mod campaign;
pub mod catch;
pub mod cause;
pub mod class;
pub mod deployment;
pub mod distinct;
pub mod drawing;
pub mod examine;
pub mod group;
pub mod habits;
pub mod hunt;
pub mod knob;
pub mod leeway;
pub mod novelty;
pub mod other_effect;
pub mod parameter;
pub mod quarry;
pub mod remedy;
pub mod rerun;
pub mod shrink;
pub mod smaller;
pub mod sound;
pub mod strategy;
pub mod threshold;
pub mod trial;
pub mod wording;
