//! Every lock by its name: those of the catalogue, and a user's own beside them.

use crate::lock::algorithm::{
    Algorithm, Nodes, check_then_set, fenced, host_local, latch, none, px_constant, read_write,
    redisson, redisson_fair, redisson_fenced, redlock, scheduled, semaphore, semaphore_counter,
    setex, setnx, setnx_expire, token_get_del, token_lua, token_lua_renewed, wait_replicas,
};

/// Every lock, in the order of the catalogue.
pub const ALGORITHMS: [Algorithm; 25] = [
    none::ALGORITHM,
    host_local::ALGORITHM,
    check_then_set::ALGORITHM,
    setnx::ALGORITHM,
    setnx_expire::ALGORITHM,
    setex::ALGORITHM,
    setex::PSETEX,
    px_constant::ALGORITHM,
    token_get_del::ALGORITHM,
    token_lua::ALGORITHM,
    token_lua_renewed::ALGORITHM,
    token_lua::JEDIS_UTIL,
    redlock::ALGORITHM,
    redlock::SEQUENTIAL,
    redlock::WITHOUT_VALIDITY,
    redisson::ALGORITHM,
    redisson_fair::ALGORITHM,
    redisson_fenced::ALGORITHM,
    read_write::ALGORITHM,
    fenced::ALGORITHM,
    wait_replicas::ALGORITHM,
    semaphore::ALGORITHM,
    semaphore_counter::ALGORITHM,
    latch::ALGORITHM,
    scheduled::ALGORITHM,
];

/// The built-in workloads, as scenarios name them.
pub const WORKLOADS: [&str; 14] = [
    "counter",
    "stock",
    "stock-get-decr",
    "stock-decr",
    "stock-script",
    "stock-segments",
    "check-then-incr",
    "rate-limit",
    "rate-limit-test-first",
    "rate-limit-three-steps",
    "append-log",
    "semaphore",
    "latch",
    "schedule",
];

/// The lock of the catalogue of this name.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}

/// Whether a lock of this name is a user's own: the catalogue has none.
pub fn is_own(name: &str) -> bool {
    find(name).is_none()
}

/// The correct lock of the same family: it queries the same nodes, and waits for replicas, numbers
/// its grants or extends them if the lock does.
pub fn sound(lock: &Algorithm) -> &'static Algorithm {
    let name = match lock {
        Algorithm { name: scheduled::NAME, .. } => scheduled::NAME,
        Algorithm { nodes: Nodes::Quorum, .. } => redlock::ALGORITHM.name,
        Algorithm { waits_for_replicas: true, .. } => wait_replicas::ALGORITHM.name,
        Algorithm { fences: true, .. } => fenced::ALGORITHM.name,
        Algorithm { renews: true, .. } => token_lua_renewed::ALGORITHM.name,
        _ => token_lua::ALGORITHM.name,
    };
    find(name).expect("a lock of the catalogue")
}

/// The locks and workloads that a plan may name: the built-in ones, and the user's own.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    own: Vec<Algorithm>,
    /// The names of the user's own workloads: their code is not the catalogue's concern.
    workloads: Vec<&'static str>,
}

impl Locks {
    /// Adds a lock.
    ///
    /// # Panics
    /// If it has no name, or a lock of this name exists: a scenario could mean either.
    #[must_use]
    #[track_caller]
    pub fn with(mut self, own: Algorithm) -> Locks {
        assert!(
            !own.name.trim().is_empty(),
            "a lock needs a name: Algorithm::lease(\"mine\", ...)"
        );
        assert!(self.find(own.name).is_none(), "there is a lock named '{}' already", own.name);
        self.own.push(own);
        self
    }

    /// Adds the name of a workload.
    ///
    /// # Panics
    /// If a workload of this name exists.
    #[must_use]
    #[track_caller]
    pub fn with_workload(mut self, own: &'static str) -> Locks {
        assert!(!self.workload_names().contains(&own), "there is a workload named '{own}' already");
        assert!(!own.trim().is_empty(), "a workload needs a name: .workload(\"tickets\", ...)");
        self.workloads.push(own);
        self
    }

    /// The names of workloads: the built-in ones, then the user's own.
    pub fn workload_names(&self) -> Vec<&'static str> {
        WORKLOADS.iter().chain(&self.workloads).copied().collect()
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

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::{MILLISECOND, SECOND};

    use super::{ALGORITHMS, Algorithm, Locks, find};
    use crate::lock::algorithm::none::NoLock;
    use crate::lock::config::LockConfig;
    use crate::lock::defaults::{Defaults, LEASE};
    use crate::promise::{Bounded, Work};

    const WORK: Work = Work {
        lasts: 2 * SECOND,
        works: 2 * SECOND,
        reply: 0,
        nodes: 5,
        calls: 0,
        extends: false,
        patience: SECOND,
        fires_within: None,
        arrives: true,
    };

    fn bound(name: &str, what: Bounded) -> Option<u64> {
        let config = LockConfig { ttl: Some(10 * SECOND), ..LockConfig::default() };
        let promise = find(name).expect("a lock of the catalogue").promises(&config, WORK);
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
        assert_eq!(pause("redlock-sequential"), Some(7_648 * MILLISECOND));
        assert_eq!(pause("setnx"), None);
        assert_eq!(pause("redlock-no-validity"), None);
        let held = bound("redlock-no-validity", Bounded::HoldPause);
        assert_eq!(
            held,
            Some(7_848 * MILLISECOND),
            "once it has its grant it is a lease like others"
        );
    }

    /// A promise that counts other time-outs than the lock has would call it buggy.
    #[test]
    fn a_lock_promises_what_its_own_defaults_leave() {
        const SLOW: Algorithm = Algorithm {
            defaults: Defaults { timeout: |_| 2 * SECOND, ..LEASE },
            ..Algorithm::lease("slow", |setting| Box::new(NoLock::new(setting)))
        };
        let config = LockConfig { ttl: Some(10 * SECOND), ..LockConfig::default() };
        let told = LockConfig { timeout: Some(2 * SECOND), ..config.clone() };
        let plain = find("token-lua").expect("a lock of the catalogue");
        assert_eq!(SLOW.promises(&config, WORK), plain.promises(&told, WORK));
        assert_ne!(SLOW.promises(&config, WORK), plain.promises(&config, WORK));
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
