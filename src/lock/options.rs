//! The options of a lock, one row each: the values that a key of `[lock]` takes, and the locks that
//! have it. The default of an omitted option is in [`crate::lock::defaults::Defaults`].

use crate::field::{Field, Takes};
use crate::length;
use crate::lock::algorithm::{
    Algorithm, Nodes, counted_hash, fenced, latch, redisson_fair, redisson_fenced, scheduled,
    semaphore, semaphore_counter, token_get_del, token_lua, token_lua_renewed, wait_replicas,
};
use crate::lock::catalogue::is_own;
use crate::lock::config::LockConfig;
use crate::refusal::Refusal;

/// An option of a lock.
pub struct LockOption {
    /// Its key, and the values that it takes.
    pub field: Field,
    /// The locks that have it.
    pub of: Group,
    /// Its meaning in one line.
    pub about: &'static str,
}

/// A group of locks, and the refusal of their option for any other lock.
pub struct Group {
    /// Whether a lock is in the group.
    pub has: fn(&Algorithm) -> bool,
    /// The refusal for a lock outside the group, after its name.
    pub what: &'static str,
    /// What to write instead.
    pub instead: &'static str,
}

const ALL: Group = Group { has: |_| true, what: "", instead: "" };

/// Locks that need a quorum of nodes.
const COUNTING: Group =
    Group { has: |lock| lock.nodes == Nodes::Quorum, what: "has no quorum", instead: "remove it" };

/// Locks that extend a grant by themselves.
const RENEWING: Group = Group {
    has: |lock| lock.renews,
    what: "does not renew",
    instead: "remove it, or use token-lua-renewed or redisson",
};

/// Locks that release a grant with too little left for the work, and users' locks, which may do so.
const CHECKING: Group = Group {
    has: |lock| lock.nodes == Nodes::Quorum || is_own(lock.name),
    what: "does not check what is left of its lease",
    instead: "remove it, or use redlock",
};

/// Locks that send a request again, and users' locks, which may do so.
const RETRYING: Group = Group {
    has: |lock| repeats(lock) || is_counted(lock),
    what: "tries each request once",
    instead: "remove it, or use token-lua, redlock or redisson",
};

/// Locks that wait before they try again: the retrying ones, and the one that renews.
const PAUSING: Group = Group {
    has: |lock| repeats(lock) || lock.renews,
    what: "does not try again by itself",
    instead: "remove it, or write [workload] retry: how long a client waits after a refusal",
};

/// Locks that draw how long they wait before they try again.
const DRAWING: Group = Group {
    has: |lock| is_of_family(lock) || is_own(lock.name),
    what: "waits equally long before each try",
    instead: "remove it, or use token-lua or redlock",
};

/// Whether it is one of Redisson's locks.
fn is_counted(lock: &Algorithm) -> bool {
    counted_hash::LOCKS.contains(&lock.name)
}

fn repeats(lock: &Algorithm) -> bool {
    is_of_family(lock)
        || lock.nodes == Nodes::Quorum
        || lock.name == token_get_del::ALGORITHM.name
        || is_own(lock.name)
}

/// Locks that wait for replicas, or can do so.
const SYNCING: Group =
    Group { has: |lock| lock.waits_for_replicas || is_counted(lock), ..ACKNOWLEDGED };

/// Locks that always wait for replicas.
const ACKNOWLEDGED: Group = Group {
    has: |lock| lock.waits_for_replicas,
    what: "does not wait for replicas",
    instead: "remove it, or use wait-replicas",
};

/// Locks whose acquire waits for its turn.
const QUEUEING: Group = Group {
    has: |lock| lock.waits_for_turn,
    what: "does not wait for its turn",
    instead: "remove it, or use redisson",
};

/// Locks with a queue whose waiters have deadlines.
const DUE: Group = Group {
    has: |lock| lock.name == redisson_fair::ALGORITHM.name,
    what: "has no queue with deadlines",
    instead: "remove it, or use redisson-fair",
};

/// Locks that set one key to their own token, on one node or on several.
const OWNING: Group = Group {
    has: |lock| is_of_family(lock) && !lock.fences,
    what: "does not set a key to a token of its own",
    instead: "remove it, or use token-lua or redlock",
};

/// Locks of the token family and the quorum family, whose client may send a request again.
const OF_FAMILY: Group = Group {
    has: is_of_family,
    what: "is neither of the family of token-lua nor of that of redlock",
    instead: "remove it, or use token-lua or redlock",
};

/// Locks of the token family: an acquire of theirs may end without an answer.
const ON_ONE_NODE: Group = Group {
    has: |lock| is_of_family(lock) && lock.nodes == Nodes::First,
    what: "releases by itself what an acquire without a reply may have left, or has only one way \
           to end such an acquire",
    instead: "remove it, or use token-lua",
};

/// The same locks, for a mutex that threads of one process share.
const LOCAL: Group = Group { what: "takes no mutex of its process", ..ON_ONE_NODE };

/// Locks that renew and report the loss of a grant.
const REPORTING: Group = Group {
    has: |lock| lock.name == token_lua_renewed::ALGORITHM.name,
    what: "reports no loss that it could keep to itself",
    instead: "remove it, or use token-lua-renewed",
};

fn is_of_family(lock: &Algorithm) -> bool {
    const ON_ONE_NODE: [&str; 5] = [
        token_lua::ALGORITHM.name,
        token_lua::JEDIS_UTIL.name,
        token_lua_renewed::ALGORITHM.name,
        fenced::ALGORITHM.name,
        wait_replicas::ALGORITHM.name,
    ];
    lock.nodes == Nodes::Quorum && !is_own(lock.name) || ON_ONE_NODE.contains(&lock.name)
}

/// Locks that keep a released key.
const KEEPING: Group = Group {
    has: |lock| lock.name == scheduled::NAME || is_own(lock.name),
    what: "keeps no key that is released",
    instead: "remove it, or use scheduled",
};

/// Locks whose release can omit the comparison with the owner's token.
const COMPARING: Group = Group {
    has: |lock| extends_its_own(lock) || lock.name == token_get_del::ALGORITHM.name,
    what: "has one way to release",
    instead: "remove it, or use token-lua or redlock",
};

/// Locks whose extend can do so.
const EXTENDING: Group = Group {
    has: extends_its_own,
    what: "has one way to extend, or none",
    instead: "remove it, or use token-lua or redlock",
};

fn extends_its_own(lock: &Algorithm) -> bool {
    is_of_family(lock) || is_own(lock.name) || lock.name == scheduled::NAME
}

/// Locks with several permits.
const PERMITTING: Group = Group {
    has: has_permits,
    what: "has one holder at a time",
    instead: "remove it, or use semaphore or semaphore-counter",
};

/// Locks whose permits have deadlines.
const RECLAIMING: Group = Group {
    has: |lock| lock.name == semaphore::NAME,
    what: "reclaims no permits",
    instead: "remove it, or use semaphore",
};

/// Latches.
const LATCHING: Group = Group {
    has: |lock| lock.name == latch::NAME,
    what: "is no latch",
    instead: "remove it, or use latch",
};

/// Locks whose callers may read the counter of fences themselves.
const NUMBERING: Group = Group {
    has: |lock| lock.name == redisson_fenced::NAME,
    what: "has no counter that its callers read",
    instead: "remove it, or use redisson-fenced",
};

fn has_permits(lock: &Algorithm) -> bool {
    [semaphore::NAME, semaphore_counter::NAME].contains(&lock.name)
}

const TOKENS: [&str; 6] = ["try", "acquisition", "thread", "thread-id", "process", "constant"];

/// Every option, in the order of a scenario.
pub const OPTIONS: [LockOption; 45] = [
    of(ALL, "algorithm", Takes::Text, "the lock of the catalogue"),
    of(
        ALL,
        "library",
        Takes::Text,
        "the client library whose options these are; without `algorithm`, its preset",
    ),
    of(ALL, "key", Takes::Text, "the key in Redis"),
    of(ALL, "ttl", Takes::Length, "time to live of the key"),
    of(ALL, "timeout", Takes::Length, "time-out of one request"),
    of(KEEPING, "at_least", Takes::Length, "how long a key stays at least, released or not"),
    of(COUNTING, "quorum", Takes::Count, "how many nodes must grant"),
    of(
        COUNTING,
        "replies",
        Takes::Word(&["all", "quorum"]),
        "whether it waits for all replies, or for those that decide",
    ),
    of(
        COUNTING,
        "order",
        Takes::Word(&["parallel", "sequential"]),
        "whether nodes are asked at the same time or in turn",
    ),
    of(
        COUNTING,
        "quorum_of",
        Takes::Word(&["all", "connected"]),
        "whether the quorum is one of all nodes, or of those that were reached at first",
    ),
    of(RETRYING, "tries", Takes::Count, "number of tries of one acquire"),
    of(PAUSING, "retry", Takes::Length, "the longest back-off between two tries"),
    of(DRAWING, "retry_from", Takes::Length, "the shortest back-off between two tries"),
    of(
        OF_FAMILY,
        "resend",
        Takes::Count,
        "how often the client sends a request again that had no reply",
    ),
    of(
        ON_ONE_NODE,
        "no_reply",
        Takes::Word(&["token", "nothing"]),
        "what an acquire without a reply leaves its caller: the token to release with, or nothing",
    ),
    of(OWNING, "token", Takes::Word(&TOKENS), "which acquires have the same owner value"),
    of(
        OWNING,
        "acquire",
        Takes::Word(&["absent", "absent-or-own"]),
        "whether an acquire is granted a key with its own owner value",
    ),
    of(OWNING, "unit", Takes::Word(&["ms", "s"]), "the unit in which the time to live is sent"),
    of(
        OF_FAMILY,
        "drift",
        Takes::Length,
        "what is deducted from the lease for clocks with different rates",
    ),
    of(
        OF_FAMILY,
        "validity",
        Takes::Flag,
        "whether a grant that is over before its caller has it is refused",
    ),
    of(
        OF_FAMILY,
        "failed_try",
        Takes::Word(&["keep", "release", "release-at-end"]),
        "whether a refused try deletes its keys, or the acquire does after its last one",
    ),
    of(
        OF_FAMILY,
        "failed_extend",
        Takes::Word(&["keep", "release"]),
        "whether an extend that failed deletes the keys",
    ),
    of(
        CHECKING,
        "needs",
        Takes::Length,
        "how much of the lease the work needs; with less, a grant is refused",
    ),
    of(RENEWING, "renew_every", Takes::Length, "the interval of renewals"),
    of(RENEWING, "renew_ttl", Takes::Length, "the time to live that a renewal sets"),
    of(
        RENEWING,
        "cancel_renewal",
        Takes::Flag,
        "whether a release drops a renewal that is under way",
    ),
    of(REPORTING, "report_loss", Takes::Flag, "whether the holder is told that the lock is lost"),
    of(
        ALL,
        "deadline_from",
        Takes::Word(&["send", "reply"]),
        "whether a lease counts from before the request, or from its reply",
    ),
    of(
        COMPARING,
        "release",
        Takes::Word(&["own", "blind"]),
        "whether a release compares the owner value",
    ),
    of(
        EXTENDING,
        "extend",
        Takes::Word(&["own", "blind", "revive"]),
        "whether an extend compares the owner value, and what it does with a missing key",
    ),
    of(
        ALL,
        "clock",
        Takes::Word(&["wall", "monotonic", "boot"]),
        "the clock of its host that the client reads",
    ),
    of(SYNCING, "acks", Takes::Count, "how many replicas must acknowledge a grant"),
    of(SYNCING, "ack_timeout", Takes::Length, "how long it waits for them"),
    of(ACKNOWLEDGED, "fsync", Takes::Flag, "whether the node's own disk must have the grant"),
    of(
        ACKNOWLEDGED,
        "wait",
        Takes::Word(&["own", "not-on-extend", "other-connection"]),
        "when, and on which connection, it waits for replicas",
    ),
    of(
        ALL,
        "scripts",
        Takes::Word(&["eval", "evalsha", "evalsha-or-eval"]),
        "how scripts are sent",
    ),
    of(
        ALL,
        "discovery",
        Takes::Word(&["at-connect", "switch-master"]),
        "how the client follows a master that Sentinels watch",
    ),
    of(QUEUEING, "wait_for", Takes::Length, "how long an acquire waits for its turn"),
    of(
        DUE,
        "queue_wait",
        Takes::Length,
        "how long a waiter keeps its place at the head of a queue",
    ),
    of(PERMITTING, "permits", Takes::Count, "how many callers may hold the lock at once"),
    of(
        RECLAIMING,
        "reclaim_by",
        Takes::Word(&["node", "client"]),
        "whose clock says that the deadline of a permit has passed",
    ),
    of(LATCHING, "parties", Takes::Count, "how many parties a latch waits for"),
    of(
        LATCHING,
        "count",
        Takes::Word(&["names", "decr"]),
        "whether a latch counts the names of parties, or what is left",
    ),
    of(
        NUMBERING,
        "fence_from",
        Takes::Word(&["grant", "counter"]),
        "whether a caller has its fence from its grant, or reads the counter afterwards",
    ),
    of(
        LOCAL,
        "local_lock",
        Takes::Flag,
        "whether an acquire takes a mutex of its process before it asks a node",
    ),
];

const fn of(of: Group, key: &'static str, takes: Takes, about: &'static str) -> LockOption {
    LockOption { field: Field::new(key, takes), of, about }
}

/// A configuration with an option as a command line has it: the value as in `[lock]`, without
/// quotes.
///
/// # Errors
/// If there is no such option, or it does not take the value.
pub fn set(config: &LockConfig, key: &str, value: &str) -> Result<LockConfig, Refusal> {
    let known =
        fields().map(|field| field.key).filter(|key| !["algorithm", "library"].contains(key));
    let known: Vec<&str> = known.collect();
    if ["algorithm", "library"].contains(&key) {
        return Err(Refusal::new(format!("'{key}' is not an option of one lock"), "--lock NAME"));
    }
    let field = fields().find(|field| field.key == key && known.contains(&key));
    let field = field.ok_or_else(|| Refusal::choice(key, "option", &known))?;
    let no = |instead: &str| {
        let what = format!("'{key}' cannot be '{value}'");
        Refusal::new(what, instead)
    };
    let value = match field.takes {
        Takes::Text => value.into(),
        Takes::Word(words) if words.contains(&value) => value.into(),
        Takes::Word(words) => return Err(Refusal::choice(value, key, words)),
        Takes::Flag => value.parse::<bool>().map_err(|_| no("true or false"))?.into(),
        Takes::Count => value.parse::<u32>().map_err(|_| no("a whole number, like 3"))?.into(),
        Takes::Number => value.parse::<i64>().map_err(|_| no("a whole number, like 3"))?.into(),
        Takes::Length => length::read(value)?.into(),
    };
    let mut all = serde_json::to_value(config).expect("options are plain data");
    all[key] = value;
    Ok(serde_json::from_value(all).expect("the rows are those of the type"))
}

/// The rows of `[lock]`.
pub fn fields() -> impl Iterator<Item = &'static Field> + Clone {
    OPTIONS.iter().map(|option| &option.field)
}
