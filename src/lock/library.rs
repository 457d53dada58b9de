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
        false => LIBRARIES.iter().map(|library| library.name.to_owned()).collect(),
    }
}

/// Every library, the versions of each in order.
pub const LIBRARIES: [Library; 15] = [
    Library {
        name: "redis-py",
        version: "8.0.0",
        lock: "token-lua",
        options: &[
            ("token", "acquisition"),
            ("tries", "10"),
            ("retry_from", "100ms"),
            ("retry", "100ms"),
            ("resend", "10"),
            ("validity", "false"),
        ],
        known: KnownFrom::Source("34817ce2"),
        note: "by default its key has no time to live at all; it tells no caller how long a grant \
               is good; how long an acquire waits is up to the caller",
    },
    Library {
        name: "bsm-redislock",
        version: "76760bd",
        lock: "token-lua",
        options: &[("token", "acquisition"), ("acquire", "absent-or-own"), ("validity", "false")],
        known: KnownFrom::Source("76760bd"),
        note: "several keys at once are not modelled",
    },
    Library {
        name: "shedlock",
        version: "2495b1406",
        lock: "token-lua",
        options: &[
            ("clock", "wall"),
            ("release", "blind"),
            ("extend", "blind"),
            ("validity", "false"),
        ],
        known: KnownFrom::Source("2495b1406"),
        note: "as it is by default; the least time that a lock is kept is not modelled",
    },
    Library {
        name: "shedlock-safe-update",
        version: "2495b1406",
        lock: "token-lua",
        options: &[("clock", "wall"), ("validity", "false")],
        known: KnownFrom::Source("2495b1406"),
        note: "with safeUpdate(true)",
    },
    Library {
        name: "antirez-redlock-rb",
        version: "2af803d",
        lock: "redlock-sequential",
        options: &[("token", "acquisition"), ("clock", "wall")],
        known: KnownFrom::Source("2af803d"),
        note: "its time-out is that of the Ruby client, 5 s",
    },
    Library {
        name: "redlock-rb",
        version: "f176e57",
        lock: "redlock-sequential",
        options: &[
            ("token", "acquisition"),
            ("acquire", "absent-or-own"),
            ("timeout", "100ms"),
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
        version: "42ef491",
        lock: "redlock-sequential",
        options: &[
            ("token", "acquisition"),
            ("retry_from", "200ms"),
            ("retry", "200ms"),
            ("clock", "wall"),
        ],
        known: KnownFrom::Source("42ef491"),
        note: "it raises an error if a node was down, though it has the lock: not modelled",
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
            ("validity", "false"),
            ("failed_try", "keep"),
            ("clock", "wall"),
        ],
        known: KnownFrom::Source("afe5cf9"),
        note: "it releases once after its last try: not modelled; its client has no time-out",
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
        version: "0.7.3",
        lock: "redlock",
        options: &[("token", "acquisition"), ("failed_extend", "release")],
        known: KnownFrom::Source("e5d7583"),
        note: "its client has no time-out",
    },
    Library {
        name: "pottery",
        version: "e2f4042",
        lock: "redlock",
        options: &[("replies", "quorum"), ("tries", "10")],
        known: KnownFrom::Source("e2f4042"),
        note: "that it extends without a check of validity, three times at most, is not modelled",
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
            ("extend", "revive"),
            ("failed_extend", "release"),
        ],
        known: KnownFrom::Source("685d1b5"),
        note: "its watchdog is not modelled",
    },
    Library {
        name: "redlock-net",
        version: "dcfe373",
        lock: "redlock",
        options: &[("retry", "400ms"), ("extend", "revive")],
        known: KnownFrom::Source("dcfe373"),
        note: "its timer is not modelled: let callers extend",
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
        note: "that it releases a late acquire when it arrives is not modelled",
    },
    Library {
        name: "redisson",
        version: "66863978b",
        lock: "redisson",
        options: &[],
        known: KnownFrom::Source("66863978b"),
        note: "without the wait for replicas",
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
    fn the_newest_version_is_meant_where_none_is_named() {
        assert!(find("redis-py").is_some_and(|library| library.lock == "token-lua"));
        assert!(find("redis-py 1.0").is_none());
    }
}
