//! Every lock by its name: its constructor, its promise, its defaults.

use lockstorm_platform::time::Nanos;

use crate::lock::check_then_set::{self, CheckThenSet};
use crate::lock::defaults::{Choices, Defaults, LEASE, MUTEX};
use crate::lock::fenced::{self, Fenced};
use crate::lock::none::{self, NoLock};
use crate::lock::promise::{self, Work};
use crate::lock::px_constant::{self, PxConstant};
use crate::lock::redisson::{self, Redisson};
use crate::lock::redlock::{self, Redlock};
use crate::lock::setnx::{self, Setnx};
use crate::lock::setnx_expire::{self, SetnxExpire};
use crate::lock::token_get_del::{self, TokenGetDel};
use crate::lock::token_lua::{self, TokenLua};
use crate::lock::token_lua_renewed::{self, TokenLuaRenewed};
use crate::lock::wait_replicas::{self, WaitReplicas};
use crate::lock::{Lock, LockConfig, Promise, Setting};

/// A lock that scenarios can name: one of the catalogue, or a user's own.
///
/// A lock of one's own starts from [`Algorithm::lease`] or [`Algorithm::mutex`] and overrides what
/// differs: `Algorithm { fences: true, ..Algorithm::lease("mine", build) }`.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Its name in scenarios and on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Whether its key has a time to live, which the configuration sets.
    pub needs_ttl: bool,
    /// Whether it queries all nodes; otherwise it queries the first.
    pub asks_all: bool,
    /// Whether it extends a grant on its own.
    pub renews: bool,
    /// Whether its grants carry an increasing number.
    pub fences: bool,
    /// Whether its code runs tasks or timers of tokio's own: `tokio::spawn`, `tokio::time`. It then
    /// runs on the turmoil engine, and its clients are never paused: the engine could not stop
    /// those tasks.
    pub runs_tokio: bool,
    /// Makes the lock of one caller.
    pub build: fn(Setting) -> Box<dyn Lock>,
    /// Its promise to a caller with this work.
    pub promise: fn(&LockConfig, Work) -> Promise,
    /// Its defaults for settings that the configuration omits.
    pub defaults: Defaults,
}

/// Every lock, in the order of the catalogue.
pub const ALGORITHMS: [Algorithm; 13] = [
    Algorithm {
        name: "none",
        about: "no lock: everybody is let in",
        needs_ttl: false,
        asks_all: false,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(NoLock::new(setting)),
        promise: none::promise,
        defaults: MUTEX,
    },
    Algorithm {
        name: "check-then-set",
        about: "GET k, then SET k 1 if it was free: two steps",
        needs_ttl: false,
        asks_all: false,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(CheckThenSet::new(setting)),
        promise: check_then_set::promise,
        defaults: MUTEX,
    },
    Algorithm {
        name: "setnx",
        about: "SETNX k 1, and DEL k: no time to live, no owner",
        needs_ttl: false,
        asks_all: false,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(Setnx::new(setting)),
        promise: setnx::promise,
        defaults: MUTEX,
    },
    Algorithm {
        name: "setnx-expire",
        about: "SETNX k 1, then EXPIRE k s: two steps, no owner",
        needs_ttl: true,
        asks_all: false,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(SetnxExpire::new(setting)),
        promise: setnx_expire::promise,
        defaults: setnx_expire::DEFAULTS,
    },
    Algorithm {
        name: "px-constant",
        about: "SET k 1 NX PX ttl with one value for everybody, and DEL k",
        needs_ttl: true,
        asks_all: false,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(PxConstant::new(setting)),
        promise: px_constant::promise,
        defaults: LEASE,
    },
    Algorithm {
        name: "token-get-del",
        about: "SET k token NX EX s; GET, compare in the client, DEL",
        needs_ttl: true,
        asks_all: false,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(TokenGetDel::new(setting)),
        promise: token_get_del::promise,
        defaults: token_get_del::DEFAULTS,
    },
    Algorithm {
        name: "token-lua",
        about: "SET k token NX PX ttl, and a compare-and-delete in Lua",
        needs_ttl: true,
        asks_all: false,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(TokenLua::new(setting)),
        promise: token_lua::promise,
        defaults: LEASE,
    },
    Algorithm {
        name: "token-lua-renewed",
        about: "token-lua with a task that prolongs the lease and tells of its loss",
        needs_ttl: true,
        asks_all: false,
        renews: true,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(TokenLuaRenewed::new(setting)),
        promise: token_lua_renewed::promise,
        defaults: LEASE,
    },
    Algorithm {
        name: "redlock",
        about: "token-lua on a majority of independent nodes, within the lease",
        needs_ttl: true,
        asks_all: true,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(Redlock::new(setting)),
        promise: redlock::promise,
        defaults: redlock::DEFAULTS,
    },
    Algorithm {
        name: "redlock-no-validity",
        about: "redlock that does not look at the time the asking took",
        needs_ttl: true,
        asks_all: true,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(Redlock::without_validity(setting)),
        promise: redlock::promise_without_validity,
        defaults: redlock::DEFAULTS,
    },
    Algorithm {
        name: redisson::NAME,
        about: "a hash that counts for its owner, a watchdog, and waiters that are told",
        needs_ttl: true,
        asks_all: false,
        renews: true,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(Redisson::new(setting)),
        promise: redisson::promise,
        defaults: redisson::DEFAULTS,
    },
    Algorithm {
        name: "fenced",
        about: "token-lua with a growing number for the resource to check",
        needs_ttl: true,
        asks_all: false,
        renews: false,
        fences: true,
        runs_tokio: false,
        build: |setting| Box::new(Fenced::new(setting)),
        promise: fenced::promise,
        defaults: LEASE,
    },
    Algorithm {
        name: wait_replicas::NAME,
        about: "token-lua on a replicated master, granted when WAIT counts enough replicas",
        needs_ttl: true,
        asks_all: false,
        renews: false,
        fences: false,
        runs_tokio: false,
        build: |setting| Box::new(WaitReplicas::new(setting)),
        promise: wait_replicas::promise,
        defaults: LEASE,
    },
];

/// The lock of the catalogue of this name.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}

/// The locks that a plan may name: those of the catalogue, and the user's own.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    own: Vec<Algorithm>,
}

impl Locks {
    /// Adds a lock.
    ///
    /// # Panics
    /// If a lock of this name exists: a scenario could mean either.
    #[must_use]
    #[track_caller]
    pub fn with(mut self, own: Algorithm) -> Locks {
        assert!(self.find(own.name).is_none(), "there is a lock named '{}' already", own.name);
        self.own.push(own);
        self
    }

    /// The lock of this name.
    pub fn find(&self, name: &str) -> Option<&Algorithm> {
        self.all().find(|algorithm| algorithm.name == name)
    }

    /// Their names: the catalogue's in its order, then the user's own.
    pub fn names(&self) -> Vec<&'static str> {
        self.all().map(|algorithm| algorithm.name).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Algorithm> {
        ALGORITHMS.iter().chain(&self.own)
    }
}

impl Algorithm {
    /// A lock of one's own whose key on one node expires. Unless overridden, it has the defaults of
    /// [`LEASE`] and the promise of [`promise::lease`]. That promise assumes that a call takes at
    /// most one request timeout, so a lock whose release retries promises less.
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
            promise: promise::lease,
            defaults: LEASE,
        }
    }

    /// A lock of one's own whose key on one node exists until it is deleted. Unless overridden, it
    /// has the defaults of [`MUTEX`] and the promise of [`promise::mutex`].
    pub const fn mutex(name: &'static str, build: fn(Setting) -> Box<dyn Lock>) -> Algorithm {
        Algorithm {
            about: "a lock of one's own whose key lives until it is deleted",
            needs_ttl: false,
            promise: promise::mutex,
            defaults: MUTEX,
            ..Algorithm::lease(name, build)
        }
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

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::{MILLISECOND, SECOND};

    use super::{ALGORITHMS, Algorithm, Locks, find};
    use crate::lock::none::NoLock;
    use crate::lock::promise::Work;
    use crate::lock::{Bounded, LockConfig};

    const WORK: Work = Work { lasts: 2 * SECOND, works: 2 * SECOND, calls: 0, patience: SECOND };

    fn bound(name: &str, what: Bounded) -> Option<u64> {
        let config = LockConfig { ttl: Some(10 * SECOND), ..LockConfig::default() };
        let promise = (find(name).expect("a lock of the catalogue").promise)(&config, WORK);
        let of = promise.assumes.iter().find(|assumption| assumption.what == what);
        of.map(|assumption| assumption.bound)
    }

    #[test]
    fn every_lock_is_found_by_its_name_once() {
        for (index, algorithm) in ALGORITHMS.iter().enumerate() {
            let found = ALGORITHMS.iter().position(|other| other.name == algorithm.name);
            assert_eq!(found, Some(index));
        }
        assert!(find("redlok").is_none());
    }

    const MINE: Algorithm = Algorithm::mutex("mine", |setting| Box::new(NoLock::new(setting)));

    #[test]
    fn a_lock_of_ones_own_is_found_beside_the_catalogue() {
        let locks = Locks::default().with(MINE);
        assert!(locks.find("mine").is_some_and(|lock| !lock.needs_ttl));
        assert!(locks.find("redlock").is_some());
        assert_eq!(locks.names().len(), ALGORITHMS.len() + 1);
        assert!(Locks::default().find("mine").is_none());
    }

    #[test]
    #[should_panic(expected = "there is a lock named 'redlock' already")]
    fn a_name_stands_for_one_lock() {
        let _ = Locks::default().with(Algorithm { name: "redlock", ..MINE });
    }

    #[test]
    fn the_pause_that_is_withstood_is_what_the_lease_leaves_beside_the_work() {
        let pause = |name| bound(name, Bounded::ClientPause);
        assert_eq!(pause("token-lua"), Some(7 * SECOND));
        assert_eq!(pause("redlock"), Some(7_848 * MILLISECOND));
        assert_eq!(pause("setnx"), None);
        assert_eq!(pause("redlock-no-validity"), None);
    }

    #[test]
    fn a_dead_holder_is_withstood_where_its_key_ends_by_itself() {
        let crash = |name| bound(name, Bounded::ClientCrash);
        assert_eq!(crash("setnx"), Some(0));
        assert_eq!(crash("setnx-expire"), Some(0));
        assert_eq!(crash("token-lua"), None);
        assert_eq!(crash("none"), None);
    }
}
