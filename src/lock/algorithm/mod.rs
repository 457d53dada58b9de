//! A file an algorithm, and [`owned_key`], on which several of them stand. Each file has its row of
//! the catalogue: how the lock is built, what it promises, what it chooses by default.

use lockstorm_platform::time::Nanos;

use crate::lock::assumptions;
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Choices, Defaults, LEASE, MUTEX};
use crate::lock::{Lock, Setting};
use crate::promise::{Promise, Work};

pub mod check_then_set;
pub mod fenced;
pub mod none;
pub mod owned_key;
pub mod px_constant;
pub mod redisson;
pub mod redlock;
pub mod setnx;
pub mod setnx_expire;
pub mod token_get_del;
pub mod token_lua;
pub mod token_lua_renewed;
pub mod wait_replicas;

/// A lock that scenarios can name: one of the catalogue, or a caller's own.
///
/// A lock of one's own starts from [`Algorithm::lease`] or [`Algorithm::mutex`]; what differs is
/// written over it: `Algorithm { fences: true, ..Algorithm::lease("mine", build) }`.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Its name in scenarios and on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Whether its key lives for a time that the configuration sets.
    pub needs_ttl: bool,
    /// Whether it asks all nodes; otherwise it asks the first.
    pub asks_all: bool,
    /// Whether it prolongs a grant by itself.
    pub renews: bool,
    /// Whether its grants carry an increasing number.
    pub fences: bool,
    /// Whether its code runs tasks or timers of tokio's own: `tokio::spawn`, `tokio::time`. It is
    /// run on the turmoil engine then, and its clients are never paused: the engine could not
    /// stop those tasks.
    pub runs_tokio: bool,
    /// Makes the lock of one caller.
    pub build: fn(Setting) -> Box<dyn Lock>,
    /// What it promises to a caller with this work.
    pub promise: fn(&LockConfig, Work) -> Promise,
    /// What it chooses where the configuration says nothing.
    pub defaults: Defaults,
}

impl Algorithm {
    /// A lock of one's own whose key on one node lives for a while. Unless written over, it
    /// makes the choices of [`LEASE`] and promises what [`assumptions::lease`] says: that counts on
    /// calls which take one time-out of a request at the most, so a lock whose release tries again
    /// promises less.
    pub const fn lease(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
        Algorithm {
            name,
            about: "a lock of one's own whose key lives for a while",
            needs_ttl: true,
            asks_all: false,
            renews: false,
            fences: false,
            runs_tokio: false,
            build,
            promise: assumptions::lease,
            defaults: LEASE,
        }
    }

    /// A lock of one's own whose key on one node lives until it is deleted. Unless written over,
    /// it makes the choices of [`MUTEX`] and promises what [`assumptions::mutex`] says.
    pub const fn mutex(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
        Algorithm {
            about: "a lock of one's own whose key lives until it is deleted",
            needs_ttl: false,
            promise: assumptions::mutex,
            defaults: MUTEX,
            ..Algorithm::lease(name, build)
        }
    }

    /// The configuration with nothing left open.
    pub fn choices(&self, config: &LockConfig) -> Choices {
        self.defaults.settle(config)
    }

    /// The time to live that an acquire asks for, ns.
    pub fn ttl(&self, config: &LockConfig) -> Option<Nanos> {
        self.needs_ttl.then(|| self.choices(config).ttl)
    }
}
