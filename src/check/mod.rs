//! Verdicts: a history and its terms go in, what was violated comes out, with a witness.
//!
//! One file a verdict. Specs stand apart from searches. Nothing here sees a world.
//!
//! - [`terms`]: what a history is judged by
//! - [`verdict`]: the answer, and what was violated
//! - [`case`]: a reading with its terms, which every check takes
//! - [`judge`]: all checks, and their worst

pub mod availability;
pub mod case;
mod contract;
pub mod corruption;
pub mod counts;
pub mod fence;
pub mod foreign;
pub mod idle;
pub mod judge;
pub mod late_loss;
pub mod leak;
pub mod linear;
pub mod liveness;
pub mod lost_early;
pub mod nearest_miss;
pub mod overlap;
pub mod renewal;
pub mod signature;
pub mod terms;
pub mod verdict;
