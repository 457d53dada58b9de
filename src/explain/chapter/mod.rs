//! The chapters that a story is chosen from: each looks at one side of the witness.

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
