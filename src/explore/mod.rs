//! The path in a loop: runs that are made to learn something from.
//!
//! - [`trial`]: one run, judged and classified
//! - [`examine`]: all that a report needs about one plan
//! - [`ground`]: what a hunt starts from
//! - [`ledger`]: which assumption of a lock a fault puts to the test, and by how much
//! - [`strategy`]: proptest strategies for faults and plans
//! - [`hunt`]: the search for a violation over seeds
//! - [`shrink`]: the same violation from a smaller plan

pub mod agree;
pub mod examine;
pub mod ground;
pub mod habits;
pub mod hunt;
pub mod ledger;
pub mod overwork;
pub mod shrink;
pub mod strategy;
pub mod trial;
