//! The chapters from which a story is chosen: each covers one side of the evidence.

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod breach;
pub(crate) mod calm;
pub(crate) mod grant;
pub(crate) mod liveness;
pub(crate) mod lost;
mod margin;
pub(crate) mod order;
pub(crate) mod renewal;
pub(crate) mod role;
pub(crate) mod strike;
pub(crate) mod theft;
pub(crate) mod torn;
