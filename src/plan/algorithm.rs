//! What a plan has to know of each lock in order to refuse a set-up that makes no sense.

/// A lock's name and what its `[lock]` table may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// Its name in scenarios and on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Whether its key has a time to live: it must be given one, or may not have one.
    pub ttl: Ttl,
    /// Whether it asks many independent nodes.
    pub asks_many: bool,
    /// Whether it prolongs a grant by itself.
    pub renews: bool,
    /// Whether its grants carry an increasing number.
    pub fences: bool,
}

/// Whether the key of a lock ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// It never ends.
    Never,
    /// After whole milliseconds.
    Milliseconds,
    /// After whole seconds: the command takes no less.
    Seconds,
}

const fn one(name: &'static str, about: &'static str, ttl: Ttl) -> Algorithm {
    Algorithm { name, about, ttl, asks_many: false, renews: false, fences: false }
}

/// Every lock that a scenario may name.
pub const ALGORITHMS: [Algorithm; 11] = [
    one("none", "no lock at all", Ttl::Never),
    one("check-then-set", "GET, then SET if it was free: two steps", Ttl::Never),
    one("setnx", "SETNX, released by DEL; no end of its own", Ttl::Never),
    one("setnx-expire", "SETNX, then EXPIRE: two steps", Ttl::Seconds),
    one("px-constant", "SET NX PX with the same value for everybody, DEL", Ttl::Milliseconds),
    one("token-get-del", "SET NX EX with a token; GET, compare, DEL in two steps", Ttl::Seconds),
    one("token-lua", "SET NX PX with a token; compare and delete in Lua", Ttl::Milliseconds),
    Algorithm {
        renews: true,
        ..one("token-lua-renewed", "token-lua, prolonged while its process runs", Ttl::Milliseconds)
    },
    Algorithm {
        asks_many: true,
        ..one("redlock", "token-lua on a majority of nodes, validity checked", Ttl::Milliseconds)
    },
    Algorithm {
        asks_many: true,
        ..one("redlock-no-validity", "redlock without the elapsed check", Ttl::Milliseconds)
    },
    Algorithm {
        fences: true,
        ..one("fenced", "token-lua with an increasing number in each grant", Ttl::Milliseconds)
    },
];

/// The lock with this name.
pub fn named(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
}
