//! The chapters from which a story is chosen: each covers one side of the evidence.

pub mod access;
pub mod answer;
pub mod breach;
pub mod calm;
pub mod grant;
pub mod liveness;
pub mod lost;
pub mod margin;
pub mod renewal;
pub mod role;
pub mod strike;
pub mod theft;
pub mod torn;
