//! The chapters that a story is chosen from: each looks at one side of the witness.

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod breach;
pub(crate) mod calm;
pub(crate) mod grant;
pub(crate) mod liveness;
pub(crate) mod lost;
mod margin;
pub(crate) mod renewal;
pub(crate) mod role;
pub(crate) mod strike;
pub(crate) mod theft;
pub(crate) mod torn;
