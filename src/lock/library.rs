//! Client libraries as people install them: each is a lock of the catalogue with options. A row
//! says where it is known from, and of no library more than was seen.

use crate::lock::config::LockConfig;
use crate::lock::options;

/// A version of a client library.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Its name, as its users know it.
    pub name: &'static str,
    /// The version.
    pub version: &'static str,
    /// The lock of the catalogue that it has.
    pub lock: &'static str,
    /// Its options, where they differ from those of the lock: as in `[lock]`, without quotes.
    pub options: &'static [(&'static str, &'static str)],
    /// Where its behaviour is known from.
    pub known: KnownFrom,
    /// What the row leaves out.
    pub note: &'static str,
}

/// Where the behaviour of a library is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownFrom {
    /// Its source at that commit was read.
    Source(&'static str),
    /// It was run, and its requests were recorded.
    Wire,
}

impl Library {
    /// A configuration with its options.
    ///
    /// # Panics
    /// If the row has an option that no lock has: a test goes through all rows.
    pub fn of(&self, plain: LockConfig) -> LockConfig {
        let (algorithm, library) = (self.lock.to_owned(), self.title());
        let plain = LockConfig { algorithm, library, ..plain };
        self.options.iter().fold(plain, |config, (key, value)| {
            let set = options::set(&config, key, value);
            set.unwrap_or_else(|no| panic!("{}: {key} = {value}: {no:?}", self.title()))
        })
    }

    /// Which of its options a configuration has in another way.
    pub fn changed(&self, config: &LockConfig) -> Vec<&'static str> {
        let json = |config: &LockConfig| serde_json::to_value(config).expect("plain data");
        let (own, given) = (json(&self.of(config.clone())), json(config));
        let keys = self.options.iter().map(|(key, _)| *key);
        keys.filter(|key| own.get(key) != given.get(key)).collect()
    }

    /// Its name and its version.
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

/// The library of this name, with its version (`redis-py 8.0.0`) or without: then the newest.
pub fn find(name: &str) -> Option<&'static Library> {
    let all = || LIBRARIES.iter();
    all().find(|library| library.title() == name).or_else(|| all().rfind(|l| l.name == name))
}

/// What could be meant by a name that is not known: the versions of that library, or all libraries.
pub fn names(name: &str) -> Vec<String> {
    let name = name.split(' ').next().unwrap_or(name);
    let is_known = LIBRARIES.iter().any(|library| library.name == name);
    match is_known {
        true => LIBRARIES.iter().filter(|l| l.name == name).map(Library::title).collect(),
        false => {
            let mut names: Vec<String> = LIBRARIES.iter().map(|l| l.name.to_owned()).collect();
            // The versions of a library follow each other.
            names.dedup();
            names
        }
    }
}

/// Every library, the versions of each in order.
pub const LIBRARIES: [Library; 25] = [
    Library {
        name: "redis-py",
        version: "8.1.0",
        lock: "token-lua",
        options: &[
            ("token", "acquisition"),
            ("tries", "10"),
            ("retry_from", "100ms"),
            ("retry", "100ms"),
            ("resend", "1"),
            ("no_reply", "nothing"),
            ("validity", "false"),
        ],
        known: KnownFrom::Wire,
        note: "how long an acquire tries is up to the caller; its client sends a request again \
               up to 10 times; by default its key has no time to live",
    },
    Library {
        name: "python-redis-lock",
        version: "4.0.1",
        lock: "token-lua",
        options: &[("token", "thread"), ("unit", "s"), ("resend", "1"), ("validity", "false")],
        known: KnownFrom::Wire,
        note: "its GET before the SET and its waiting in BLPOP are left out; its client sends a \
               request again up to 10 times",
    },
    Library {
        name: "bsm-redislock",
        version: "76760bd",
        lock: "token-lua",
        options: &[
            ("token", "acquisition"),
            ("acquire", "absent-or-own"),
            ("no_reply", "nothing"),
            ("validity", "false"),
        ],
        known: KnownFrom::Source("76760bd"),
        note: "several keys at once are left out",
    },
    Library {
        name: "shedlock",
        version: "2495b1406",
        lock: "token-lua",
        options: &[
            ("token", "acquisition"),
            ("clock", "wall"),
            ("release", "blind"),
            ("extend", "blind"),
            ("no_reply", "nothing"),
            ("validity", "false"),
        ],
        known: KnownFrom::Source("2495b1406"),
        note: "as it is by default; the least time for which a lock is kept is left out",
    },
    Library {
        name: "shedlock-safe-update",
        version: "2495b1406",
        lock: "token-lua",
        options: &[
            ("token", "acquisition"),
            ("clock", "wall"),
            ("no_reply", "nothing"),
            ("validity", "false"),
        ],
        known: KnownFrom::Source("2495b1406"),
        note: "with safeUpdate(true)",
    },
    Library {
        name: "laravel",
        version: "bd71b45fbb",
        lock: "token-lua",
        options: &[
            ("token", "thread"),
            ("unit", "s"),
            ("tries", "10"),
            ("retry_from", "250ms"),
            ("retry", "250ms"),
            ("no_reply", "nothing"),
            ("validity", "false"),
        ],
        known: KnownFrom::Source("bd71b45fbb"),
        note: "the cache lock with a lease; how long it blocks is up to the caller",
    },
    Library {
        name: "php-lock",
        version: "3e64b5e",
        lock: "token-lua",
        options: &[
            ("tries", "10"),
            ("retry_from", "10ms"),
            ("retry", "500ms"),
            ("clock", "wall"),
            ("no_reply", "nothing"),
            ("validity", "false"),
        ],
        known: KnownFrom::Source("3e64b5e"),
        note: "RedisMutex; its back-off grows from try to try",
    },
    Library {
        name: "redis-semaphore-mutex",
        version: "5.8.0",
        lock: "token-lua-renewed",
        options: &[
            ("token", "thread"),
            ("tries", "10"),
            ("retry_from", "10ms"),
            ("retry", "10ms"),
            ("resend", "1"),
            ("no_reply", "nothing"),
            ("validity", "false"),
            ("clock", "wall"),
        ],
        known: KnownFrom::Wire,
        note: "it renews every 0.8 of the lease, here every 2/3; it tries for 10 s",
    },
    Library {
        name: "redis-semaphore-redlock",
        version: "5.8.0",
        lock: "redlock",
        options: &[
            ("token", "thread"),
            ("tries", "10"),
            ("retry_from", "10ms"),
            ("retry", "10ms"),
            ("resend", "1"),
            ("validity", "false"),
            ("failed_extend", "release"),
            ("clock", "wall"),
        ],
        known: KnownFrom::Wire,
        note: "it renews every 0.8 of the lease: let callers extend; on a minority it revives its \
               key",
    },
    Library {
        name: "antirez-redlock-rb",
        version: "2af803d",
        lock: "redlock-sequential",
        options: &[("token", "acquisition"), ("clock", "wall")],
        known: KnownFrom::Source("2af803d"),
        note: "its time-out is that of the Ruby client",
    },
    Library {
        name: "redlock-rb",
        version: "f176e57",
        lock: "redlock-sequential",
        options: &[
            ("acquire", "absent-or-own"),
            ("timeout", "100ms"),
            ("tries", "4"),
            ("retry_from", "200ms"),
            ("retry", "250ms"),
            ("extend", "revive"),
            ("failed_extend", "release"),
        ],
        known: KnownFrom::Source("f176e57"),
        note: "extend_only_if_locked, which revives nothing, is not its default",
    },
    Library {
        name: "redlock-py",
        version: "1.0.8",
        lock: "redlock-sequential",
        options: &[
            ("token", "acquisition"),
            ("retry_from", "200ms"),
            ("retry", "200ms"),
            ("resend", "1"),
            ("clock", "wall"),
        ],
        known: KnownFrom::Wire,
        note: "its client sends a request again up to 10 times",
    },
    Library {
        name: "node-redlock",
        version: "4.2.0",
        lock: "redlock",
        options: &[
            ("token", "acquisition"),
            ("tries", "11"),
            ("retry_from", "100ms"),
            ("retry", "300ms"),
            ("resend", "1"),
            ("failed_extend", "release"),
            ("clock", "wall"),
        ],
        known: KnownFrom::Wire,
        note: "its client has no time-out, here that of redlock",
    },
    Library {
        name: "node-redlock",
        version: "5.0.0-beta.2",
        lock: "redlock",
        options: &[
            ("token", "acquisition"),
            ("replies", "quorum"),
            ("tries", "11"),
            ("retry_from", "100ms"),
            ("retry", "300ms"),
            ("resend", "1"),
            ("validity", "false"),
            ("failed_try", "release-at-end"),
            ("clock", "wall"),
        ],
        known: KnownFrom::Wire,
        note: "its client has no time-out, here that of redlock",
    },
    Library {
        name: "sesamecare-redlock",
        version: "1.4.0",
        lock: "redlock",
        options: &[
            ("token", "acquisition"),
            ("replies", "quorum"),
            ("tries", "11"),
            ("retry_from", "100ms"),
            ("retry", "300ms"),
            ("resend", "1"),
            ("validity", "false"),
            ("failed_try", "release-at-end"),
            ("clock", "wall"),
        ],
        known: KnownFrom::Wire,
        note: "as node-redlock 5",
    },
    Library {
        name: "redsync",
        version: "4",
        lock: "redlock",
        options: &[
            ("token", "acquisition"),
            ("tries", "32"),
            ("retry_from", "50ms"),
            ("retry", "250ms"),
        ],
        known: KnownFrom::Source("5560bd2"),
        note: "it deducts 1 % for drift, and not the 2 ms",
    },
    Library {
        name: "rslock",
        version: "0.10.0",
        lock: "redlock",
        options: &[("token", "acquisition"), ("failed_extend", "release")],
        known: KnownFrom::Wire,
        note: "its time-out is 500 ms, here that of redlock",
    },
    Library {
        name: "pottery",
        version: "3.0.1",
        lock: "redlock",
        options: &[("replies", "quorum"), ("tries", "10"), ("resend", "1")],
        known: KnownFrom::Wire,
        note: "it extends without a check of validity, and three times at most",
    },
    Library {
        name: "aioredlock",
        version: "0.7.3",
        lock: "redlock",
        options: &[
            ("token", "acquisition"),
            ("acquire", "absent-or-own"),
            ("retry_from", "100ms"),
            ("retry", "300ms"),
            ("failed_try", "release-at-end"),
            ("extend", "revive"),
            ("failed_extend", "release"),
        ],
        known: KnownFrom::Wire,
        note: "its watchdog is left out",
    },
    Library {
        name: "redlock-net",
        version: "dcfe373",
        lock: "redlock",
        options: &[("token", "acquisition"), ("retry", "400ms"), ("extend", "revive")],
        known: KnownFrom::Source("dcfe373"),
        note: "its timer is left out: let callers extend",
    },
    Library {
        name: "distributed-lock",
        version: "3da3eaf",
        lock: "redlock",
        options: &[
            ("replies", "quorum"),
            ("tries", "10"),
            ("retry_from", "10ms"),
            ("retry", "800ms"),
        ],
        known: KnownFrom::Source("3da3eaf"),
        note: "that it releases a late acquire when it arrives is left out",
    },
    Library {
        name: "redisson",
        version: "66863978b",
        lock: "redisson",
        options: &[],
        known: KnownFrom::Source("66863978b"),
        note: "RLock, without the wait for replicas",
    },
    Library {
        name: "redisson-fenced-lock",
        version: "66863978b",
        lock: "redisson-fenced",
        options: &[],
        known: KnownFrom::Source("66863978b"),
        note: "RFencedLock with lockAndGetToken, without the wait for replicas; getToken is \
               fence_from = \"counter\"; left out: a key without an expiry counts as a grant",
    },
    Library {
        name: "spring-integration",
        version: "f369e899dd",
        lock: "token-lua",
        options: &[
            ("token", "process"),
            ("acquire", "absent-or-own"),
            ("tries", "10"),
            ("retry_from", "100ms"),
            ("retry", "100ms"),
            ("clock", "wall"),
            ("no_reply", "nothing"),
            ("validity", "false"),
            ("local_lock", "true"),
        ],
        known: KnownFrom::Source("f369e899dd"),
        note: "RedisLockRegistry without a scheduler, SPIN_LOCK; how long it tries is up to the \
               caller",
    },
    Library {
        name: "spring-integration-renewed",
        version: "f369e899dd",
        lock: "token-lua-renewed",
        options: &[
            ("token", "process"),
            ("acquire", "absent-or-own"),
            ("tries", "10"),
            ("retry_from", "100ms"),
            ("retry", "100ms"),
            ("clock", "wall"),
            ("no_reply", "nothing"),
            ("validity", "false"),
            ("report_loss", "false"),
            ("local_lock", "true"),
        ],
        known: KnownFrom::Source("f369e899dd"),
        note: "with a scheduler for renewals, SPIN_LOCK; it renews every third of the lease, here \
               every 2/3, and ends with the first renewal that fails",
    },
];

#[cfg(test)]
mod tests {
    use super::{LIBRARIES, find};
    use crate::lock::catalogue;
    use crate::lock::config::LockConfig;

    #[test]
    fn every_library_is_a_lock_with_options_that_it_has() {
        for library in LIBRARIES {
            let lock = catalogue::find(library.lock).expect("a lock of the catalogue");
            let config = library.of(LockConfig::default());
            assert_eq!(config.algorithm, lock.name);
            assert_eq!(find(&library.title()).map(|l| l.version), Some(library.version));
        }
    }

    #[test]
    fn what_differs_from_a_library_is_named() {
        let redsync = find("redsync").expect("a library");
        let own = redsync.of(LockConfig::default());
        assert!(redsync.changed(&own).is_empty());
        assert_eq!(redsync.changed(&LockConfig { tries: Some(3), ..own }), ["tries"]);
    }

    #[test]
    fn the_newest_version_is_meant_where_none_is_named() {
        let newest = find("node-redlock").map(|library| library.version);
        assert_eq!(newest, Some("5.0.0-beta.2"));
        assert!(find("node-redlock 4.2.0").is_some_and(|library| library.version == "4.2.0"));
        assert!(find("redis-py 1.0").is_none());
    }
}
