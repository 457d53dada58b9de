//! Production: the locks of this crate on real nodes, in real time, in a user's service.
//!
//! A service runs the code that was verified: the same lock with the same configuration, on a
//! [`Platform`](lockstorm_platform::host::Platform) of the operating system instead of a simulated
//! one. [`LockBuilder`] names the lock and its nodes, [`RedisLock`] belongs to one caller, and
//! [`HeldLock`] is a grant: it knows what is left of its lease, and reports its loss.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use lockstorm::production::{Loss, LockBuilder};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let builder = LockBuilder::of("token-lua-renewed")
//!     .key("orders")
//!     .ttl(Duration::from_secs(10))
//!     .node("127.0.0.1:6379");
//! for assumption in builder.assumptions()? {
//!     println!("assumed: {assumption}");
//! }
//! let mut lock = builder.open()?;
//! let held = lock.acquire().await?;
//! let lost = held.lost(); // race it against the work
//! lock.release(held).await;
//! assert_eq!(lost.await, Loss::Released);
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! A lock stays on its thread and starts tasks with `spawn_local`: open and use it within a
//! [`LocalSet`](tokio::task::LocalSet). A service with a runtime of many threads gives its locks
//! a thread of their own, with a current-thread runtime, and sends it work through a channel.
//! [`HeldLock::lost`] is a future that may go back to the other threads. A thread that stands still
//! renews nothing, so work that blocks or computes for long belongs elsewhere.
//!
//! # What is not carried over
//!
//! Nothing is recorded and no fault strikes. Steps do nothing. Owner values come from the operating
//! system. The mutexes of a host (`host-local`) are those of a thread: they exclude nobody on
//! another thread or machine. Connections have no TLS, and nodes have IPv4 addresses. What a
//! verdict assumed has to be true of the deployment: [`LockBuilder::assumptions`] lists it.

mod builder;
mod chance;
mod held;
mod notices;
mod redis_lock;
mod socket;
mod system_clock;
mod system_host;

pub use crate::production::builder::LockBuilder;
pub use crate::production::held::{HeldLock, Loss};
pub use crate::production::redis_lock::{NotAcquired, RedisLock};
