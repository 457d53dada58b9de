//! One file for each algorithm, and what several of them share: [`taken_key`], [`owned_key`], and
//! for Redisson's locks [`counted_hash`], [`counted_watchdog`] and [`replicas`]. Each file has its
//! row of the catalogue: how the lock is built, its promise, its defaults.

use lockstorm_platform::fault::MAX_LENGTH;
use lockstorm_platform::time::Nanos;

use crate::lock::assumptions;
use crate::lock::config::LockConfig;
use crate::lock::defaults::{Choices, Defaults, LEASE, MUTEX};
use crate::lock::{Lock, Setting};
use crate::promise::{Bounded, Promise, Work, bound};

pub mod check_then_set;
pub mod counted_hash;
pub mod counted_watchdog;
pub mod fenced;
pub mod host_local;
pub mod latch;
pub mod none;
pub mod owned_key;
pub mod px_constant;
pub mod read_write;
pub mod redisson;
pub mod redisson_fair;
pub mod redisson_fenced;
pub mod redlock;
pub mod replicas;
pub mod scheduled;
pub mod semaphore;
pub mod semaphore_counter;
pub mod setex;
pub mod setnx;
pub mod setnx_expire;
pub mod taken_key;
pub mod token_get_del;
pub mod token_lua;
pub mod token_lua_renewed;
pub mod wait_replicas;

/// A lock that scenarios can name: one of the catalogue, or a user's own.
///
/// A user's own lock starts from [`Algorithm::lease`] or [`Algorithm::mutex`] and overrides what
/// differs: `Algorithm { fences: true, ..Algorithm::lease("mine", build) }`.
///
/// What callers *do* with a lock is here: which methods they call, which options it reads. What a
/// run is *judged* by is in its [`Promise`]: the number of holders, the queue, whether it reports
/// losses. A lock that serves waiters in order has a bit of both: it reads `wait_for`
/// (`waits_for_turn`), and its promise names the queue.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Its name in scenarios and on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Whether its key has a time to live that the configuration sets.
    pub needs_ttl: bool,
    /// Which of several independent nodes it queries.
    pub nodes: Nodes,
    /// Whether it extends a grant by itself.
    pub renews: bool,
    /// Whether its grants carry an increasing number.
    pub fences: bool,
    /// Whether it has a shared mode, as the lock of readers and a writer: callers then acquire it
    /// in either mode. A shared holder only reads.
    pub shares: bool,
    /// Whether it takes a group of keys at once, all or none: callers then acquire groups that
    /// overlap, in any order. Each key lives on one node, which the lock chooses, and is judged as
    /// a lock of its own.
    pub groups: bool,
    /// Whether a grant waits until replicas have acknowledged it: it reads `acks`, `ack_timeout`,
    /// `fsync` and `wait`.
    pub waits_for_replicas: bool,
    /// Whether an acquire may wait for its turn: it reads `wait_for`.
    pub waits_for_turn: bool,
    /// Whether its code runs tasks or timers of tokio itself: `tokio::spawn`, `tokio::time`. It
    /// then runs on the turmoil engine, and its clients are never paused: the engine could not stop
    /// those tasks.
    pub runs_tokio: bool,
    /// Makes the lock of one caller.
    pub build: fn(Setting) -> Box<dyn Lock>,
    /// Its promise to a caller with this work.
    pub promise: fn(&LockConfig, Work) -> Promise,
    /// Its defaults for what the configuration omits.
    pub defaults: Defaults,
}

/// Which of several independent nodes a lock queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The first: there may be no others.
    First,
    /// All of them: a grant needs a quorum.
    Quorum,
    /// Those that it chooses, as a lock of groups does for each key.
    Chosen,
}

impl Algorithm {
    /// A user's own lock whose key on one node has a time to live. Unless overridden, it has the
    /// defaults of [`LEASE`] and the promise of [`assumptions::lease`]. That promise assumes that a
    /// call takes at most one timeout of a request, so a lock whose release retries has to promise
    /// less.
    pub const fn lease(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
        Algorithm {
            name,
            about: "a lock of one's own whose key lives for a while",
            needs_ttl: true,
            nodes: Nodes::First,
            renews: false,
            fences: false,
            shares: false,
            groups: false,
            waits_for_replicas: false,
            waits_for_turn: false,
            runs_tokio: false,
            build,
            promise: assumptions::lease,
            defaults: LEASE,
        }
    }

    /// A user's own lock whose key on one node exists until it is deleted. Unless overridden, it
    /// has the defaults of [`MUTEX`] and the promise of [`assumptions::mutex`].
    pub const fn mutex(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
        Algorithm {
            about: "a lock of one's own whose key lives until it is deleted",
            needs_ttl: false,
            promise: assumptions::mutex,
            defaults: MUTEX,
            ..Algorithm::lease(name, build)
        }
    }

    /// Its promise to a caller with this work. A node that forgot the counter of fences is never
    /// safe again, whatever the lock promises about restarts. No lock can serve callers that do not
    /// find its node, whose requests have no reply in time, or whose accesses arrive after their
    /// own timeout, even without faults.
    pub fn promises(&self, config: &LockConfig, work: Work) -> Promise {
        let filled = self.filled(config);
        let mut promise = (self.promise)(&filled, work);
        let restarts = promise
            .assumes
            .iter_mut()
            .filter(|assumption| self.fences && assumption.what == Bounded::AmnesiacRestart);
        restarts.for_each(|assumption| assumption.bound = MAX_LENGTH);
        if work.reply > self.choices(config).timeout || !work.arrives {
            promise.assumes.retain(|assumption| assumption.what != Bounded::Work);
            promise.assumes.insert(0, bound(Bounded::Work, 0));
        }
        promise
    }

    /// How many callers may hold it at once, whatever their work.
    pub fn holders(&self, config: &LockConfig) -> u32 {
        let work = Work { calls: 1, arrives: true, ..Work::default() };
        self.promises(config, work).holders
    }

    /// The configuration with this lock's own defaults in place of what it omits: what its code and
    /// its promise receive, so that both go by the same values.
    pub fn filled(&self, config: &LockConfig) -> LockConfig {
        let filled = self.defaults.fill(config);
        LockConfig { ttl: self.ttl(config), ..filled }
    }

    /// The configuration with all defaults filled in.
    pub fn choices(&self, config: &LockConfig) -> Choices {
        self.defaults.settle(config)
    }

    /// The time to live that an acquire requests, ns.
    pub fn ttl(&self, config: &LockConfig) -> Option<Nanos> {
        self.needs_ttl.then(|| self.choices(config).ttl)
    }
}
