//! The path in a loop: runs that are made to learn something from.
//!
//! - [`trial`]: one run, judged and held against the lock's assumptions
//! - [`class`]: whose fault a violation is
//! - [`examine`]: all that a report needs about one plan
//! - [`ground`]: what a hunt starts from
//! - [`strategy`]: proptest strategies for faults and plans
//! - [`hunt`]: the search for a violation over seeds
//! - [`shrink`]: the same violation from a smaller plan

pub mod agree;
pub mod class;
pub mod examine;
pub mod ground;
pub mod habits;
pub mod hunt;
pub mod shrink;
pub mod strategy;
pub mod trial;
