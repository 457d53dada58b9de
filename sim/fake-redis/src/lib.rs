//! A fake Redis server for tests, on a free port or on turmoil. The test controls its clock and its
//! faults. `README.md` shows examples.
//!
//! The server is that of `lockstorm-redis`, its machine that of `lockstorm-world`; this package
//! contains only the interface for tests.
//!
//! - [`builder`]: the settings of a server, and which settings are refused
//! - [`look`]: what a test can observe of a server: its requests, its keys
//! - [`live`]: the server on real sockets: every fault is a verb of the fault table
//! - [`thread`]: the thread that a live server runs on
//! - [`server`]: [`FakeRedis`], the value that a test owns
//! - [`blocking`]: the same for tests without async code
//! - [`sim`]: a server in the user's own `turmoil::Sim`

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

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
