//! A fake Redis server for tests: on a free port or on turmoil, with its clock and its faults in
//! the test's hands. `README.md` shows it in use.
//!
//! The server is that of `lockstorm-redis`, its machine that of `lockstorm-world`; here is only
//! what a test calls.
//!
//! - [`builder`]: how a server is set up, and which settings are refused
//! - [`look`]: what a test sees of a server: its requests, its keys
//! - [`live`]: the server on real sockets: every fault is a verb of the fault table
//! - [`thread`]: the thread that a live server runs on
//! - [`server`]: [`FakeRedis`], the value that a test holds
//! - [`blocking`]: the same for tests without async code
//! - [`sim`]: a server in a `turmoil::Sim` of the user's own

#![cfg_attr(
    not(any(feature = "live", feature = "turmoil")),
    allow(dead_code, reason = "without a world nothing is started")
)]

#[cfg(feature = "live")]
pub mod blocking;
pub mod builder;
#[cfg(feature = "live")]
pub mod live;
pub mod local_request;
pub mod look;
#[cfg(feature = "live")]
pub mod server;
#[cfg(feature = "turmoil")]
pub mod sim;
#[cfg(feature = "live")]
pub mod thread;

pub use builder::{BadSetting, Builder};
pub use lockstorm_redis::compat::Compat;
pub use lockstorm_redis::node::Append;
#[cfg(feature = "live")]
pub use server::FakeRedis;
#[cfg(all(feature = "turmoil", not(feature = "live")))]
pub use sim::FakeRedis;

/// The blocks of the README are run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
