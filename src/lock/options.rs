//! The options of a lock, one row each: the values that a key of `[lock]` takes, and the locks that
//! have it. The default of an omitted option is in [`crate::lock::defaults::Defaults`].

use crate::field::{Field, Takes};
use crate::lock::algorithm::{Algorithm, Nodes, redisson, token_get_del};
use crate::lock::catalogue::is_own;

/// An option of a lock.
pub struct LockOption {
    /// Its key, and the values that it takes.
    pub field: Field,
    /// The locks that have it.
    pub of: Group,
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
    has: |lock| repeats(lock) || lock.name == redisson::NAME,
    what: "tries each request once",
    instead: "remove it, or use token-get-del, redlock or redisson",
};

/// Locks that wait before they try again: the retrying ones, and the one that renews.
const PAUSING: Group = Group {
    has: |lock| repeats(lock) || lock.renews,
    what: "does not try again by itself",
    instead: "remove it, or write [workload] retry: how long a client waits after a refusal",
};

fn repeats(lock: &Algorithm) -> bool {
    let is_quorum = lock.nodes == Nodes::Quorum;
    is_quorum || lock.name == token_get_del::ALGORITHM.name || is_own(lock.name)
}

/// Locks that wait for replicas.
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

/// Locks that can omit the comparison with the owner's token.
const COMPARING: Group = Group {
    has: |lock| lock.name != redisson::NAME,
    what: "releases and extends by its field alone",
    instead: "\"own\", or another lock",
};

/// Every option, in the order of a scenario.
pub const OPTIONS: [LockOption; 23] = [
    of(ALL, "algorithm", Takes::Text),
    of(ALL, "key", Takes::Text),
    of(ALL, "ttl", Takes::Length),
    of(ALL, "timeout", Takes::Length),
    of(COUNTING, "quorum", Takes::Count),
    of(COUNTING, "replies", Takes::Word(&["all", "quorum"])),
    of(RETRYING, "tries", Takes::Count),
    of(PAUSING, "retry", Takes::Length),
    of(CHECKING, "needs", Takes::Length),
    of(RENEWING, "renew_every", Takes::Length),
    of(RENEWING, "renew_ttl", Takes::Length),
    of(RENEWING, "cancel_renewal", Takes::Flag),
    of(ALL, "deadline_from", Takes::Word(&["send", "reply"])),
    of(COMPARING, "release", Takes::Word(&["own", "blind"])),
    of(COMPARING, "extend", Takes::Word(&["own", "blind", "revive"])),
    of(ALL, "clock", Takes::Word(&["wall", "monotonic", "boot"])),
    of(ACKNOWLEDGED, "acks", Takes::Count),
    of(ACKNOWLEDGED, "ack_timeout", Takes::Length),
    of(ACKNOWLEDGED, "fsync", Takes::Flag),
    of(ACKNOWLEDGED, "wait", Takes::Word(&["own", "not-on-extend", "other-connection"])),
    of(ALL, "scripts", Takes::Word(&["eval", "evalsha", "evalsha-or-eval"])),
    of(ALL, "discovery", Takes::Word(&["at-connect", "switch-master"])),
    of(QUEUEING, "wait_for", Takes::Length),
];

const fn of(of: Group, key: &'static str, takes: Takes) -> LockOption {
    LockOption { field: Field::new(key, takes), of }
}

/// The rows of `[lock]`.
pub fn fields() -> impl Iterator<Item = &'static Field> + Clone {
    OPTIONS.iter().map(|option| &option.field)
}
