//! Verdicts: a history and its terms go in; the violations come out, with their evidence.
//!
//! One file per verdict. Specifications are separate from searches. Nothing here sees a world.

pub mod availability;
pub mod case;
mod contract;
pub mod corruption;
pub mod counts;
pub mod fence;
pub mod foreign;
pub mod idle;
pub mod judge;
pub mod latch;
pub mod late_loss;
pub mod leak;
pub mod linear;
pub mod liveness;
pub mod lost_early;
pub mod nearest_miss;
pub mod overlap;
pub mod overtaking;
pub mod own;
pub mod renewal;
pub mod signature;
pub mod terms;
pub mod untested;
pub mod verdict;
