//! The path in a loop: runs that are made to learn something from.
//!
//! - [`trial`]: one run, judged and held against the lock's assumptions
//! - [`rerun`]: plans that are run again, each once
//! - [`class`]: whose fault a violation is
//! - [`cause`]: what made the difference, by trial
//! - [`threshold`]: from which figure on
//! - [`remedy`]: what heals it
//! - [`budget`]: how long explaining may take
//! - [`examine`]: all that a report needs about one plan
//! - [`ground`]: what a hunt starts from
//! - [`strategy`]: proptest strategies for faults and plans
//! - [`quarry`]: what a hunt is asked for
//! - [`hunt`]: the search for a violation over seeds
//! - [`shrink`]: the same violation from a smaller plan
//! - [`smaller`]: plans that are one step smaller
//! - [`habits`]: how clients use a lock, and how it is set up, as hunts draw it
//! - [`agree`]: whether two engines tell the same

pub mod agree;
pub mod budget;
pub mod cause;
pub mod class;
pub mod examine;
pub mod ground;
pub mod habits;
pub mod hunt;
pub mod quarry;
pub mod remedy;
pub mod rerun;
pub mod shrink;
pub mod smaller;
pub mod strategy;
pub mod threshold;
pub mod trial;
