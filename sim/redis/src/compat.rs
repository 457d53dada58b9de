//! Which server a node emulates, and how these servers differ.
//!
//! [`DIVERGENCES`] is the whole list: code refers to its entries by name, `lockstorm list compat`
//! prints it. Whatever is not in it behaves as in Redis 7.0.15, even where another server is known
//! or thought to differ.

use serde::{Deserialize, Serialize};

use crate::compat::Difference as D;

/// A server that a node can emulate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compat {
    /// Redis 7.0.15, the reference.
    #[default]
    #[serde(rename = "redis-7.0")]
    Redis70,
    /// Redis 8.2.3.
    #[serde(rename = "redis-8.2")]
    Redis82,
    /// Redis 8.4, according to its documentation.
    #[serde(rename = "redis-8.4")]
    Redis84,
    /// Valkey 8.0.1.
    #[serde(rename = "valkey-8.0")]
    Valkey80,
    /// Valkey 9.0.0.
    #[serde(rename = "valkey-9.0")]
    Valkey90,
}

impl Compat {
    /// The names of servers.
    pub const WORDS: [(&str, Compat); 5] = [
        ("redis-7.0", Compat::Redis70),
        ("redis-8.2", Compat::Redis82),
        ("redis-8.4", Compat::Redis84),
        ("valkey-8.0", Compat::Valkey80),
        ("valkey-9.0", Compat::Valkey90),
    ];

    /// Its name in scenarios.
    pub fn word(self) -> &'static str {
        Compat::WORDS[self as usize].0
    }

    /// Whether it differs from Redis 7.0.15 in this point.
    pub fn has(self, difference: Difference) -> bool {
        let holds = DIVERGENCES[difference as usize].holds;
        holds.iter().any(|(compat, _)| *compat == self)
    }

    /// The server name that it reports in HELLO and INFO.
    pub(crate) fn server(self) -> &'static str {
        match self {
            Compat::Redis70 | Compat::Redis82 | Compat::Redis84 => "redis",
            Compat::Valkey80 | Compat::Valkey90 => "valkey",
        }
    }

    /// The version that it reports.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Compat::Redis70 => "7.0.15",
            Compat::Redis82 => "8.2.3",
            Compat::Redis84 => "8.4.0",
            Compat::Valkey80 => "8.0.1",
            Compat::Valkey90 => "9.0.0",
        }
    }
}

/// Why a divergence is believed to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// This server was run and showed it.
    Ran(&'static str),
    /// This document states it; no server was run.
    Document(&'static str),
    /// A previous version of this server was run and showed it; the current one was not checked.
    Before(&'static str),
}

/// One difference between servers and Redis 7.0.15.
#[derive(Clone, Copy, Debug)]
pub struct Divergence {
    /// The name by which code refers to it.
    pub difference: Difference,
    /// The behaviour.
    pub what: &'static str,
    /// Which servers have it, and the evidence.
    pub holds: &'static [(Compat, Evidence)],
}

/// The names of [`DIVERGENCES`], in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The time within scripts.
    TimeStandsStillInScripts,
    /// Which commands scripts may call.
    ScriptsMayWait,
    /// Error texts about scripts.
    TextsOfValkey,
    /// One more error text about scripts.
    RefusesByItsName,
    /// MULTI and WATCH within MULTI.
    NestedMultiBreaks,
    /// The error text for them.
    NamesRefusedCommand,
    /// UNSUBSCRIBE without a subscription.
    NothingToUnsubscribe,
    /// How expiry is propagated.
    ExpiryIsUnlink,
    /// SET with an expiry time in the past.
    PastEndCreatesNothing,
    /// EXPIRE with an expiry time in the past.
    PastEndIsExpiry,
    /// Push messages to the connection that runs a command.
    PushesStandBehind,
    /// Error texts of ACL.
    NamesUser,
    /// The names in HELLO and INFO: [`Compat::server`] and [`Compat::version`].
    Names,
    /// The module that HELLO reports.
    VectorSets,
    /// CLIENT SETINFO.
    ClientSetInfo,
    /// SET .. IFEQ.
    SetIfEqual,
    /// SET .. IFNE, IFDEQ, IFDNE.
    SetIfOther,
    /// DELIFEQ.
    DelIfEq,
    /// DELEX.
    DelEx,
    /// DIGEST.
    Digest,
    /// WAITAOF.
    WaitAof,
    /// What counts as synced.
    WrittenIsSynced,
}

const R82: (Compat, Evidence) = (Compat::Redis82, Evidence::Ran("redis-server 8.2.3"));
const R84: (Compat, Evidence) = (Compat::Redis84, Evidence::Before("redis-server 8.2.3"));
const V80: (Compat, Evidence) = (Compat::Valkey80, Evidence::Ran("valkey-server 8.0.1"));
const V90: (Compat, Evidence) = (Compat::Valkey90, Evidence::Ran("valkey-server 9.0.0"));
const SUITE: (Compat, Evidence) =
    (Compat::Redis84, Evidence::Document("tests/unit/type/string.tcl of Redis 8.4"));

/// Every divergence that is modelled, in the order of [`Difference`].
pub static DIVERGENCES: [Divergence; 22] = [
    Divergence {
        difference: D::TimeStandsStillInScripts,
        what: "In a script TIME, PTTL and the expiry times that it sets count from its start, not \
               from the moment of the call",
        holds: &[R82, R84, V80, V90],
    },
    Divergence {
        difference: D::ScriptsMayWait,
        what: "A script may call WAIT and blocking pops: they answer at once as if their time \
               were over",
        holds: &[R82, R84, V80, V90],
    },
    Divergence {
        difference: D::TextsOfValkey,
        what: "NOSCRIPT does not suggest EVAL; an unknown command or a wrong number of words \
               in a script, and WAIT on a replica, are refused without the name Redis",
        holds: &[V80, V90],
    },
    Divergence {
        difference: D::RefusesByItsName,
        what: "What a script may not call is refused as a Valkey command",
        holds: &[V90],
    },
    Divergence {
        difference: D::NestedMultiBreaks,
        what: "MULTI or WATCH inside MULTI is refused as not allowed there, and EXEC refuses then",
        holds: &[V80, V90],
    },
    Divergence {
        difference: D::NamesRefusedCommand,
        what: "That refusal names the command",
        holds: &[V90],
    },
    Divergence {
        difference: D::NothingToUnsubscribe,
        what: "UNSUBSCRIBE, PUNSUBSCRIBE and SUNSUBSCRIBE fail with NOSUB without a subscription",
        holds: &[V80],
    },
    Divergence {
        difference: D::ExpiryIsUnlink,
        what: "Keys that expire, are evicted or get an expiry time in the past are propagated as \
               UNLINK, not as DEL (lazyfree-lazy-expire and -eviction are on)",
        holds: &[V80, V90],
    },
    Divergence {
        difference: D::PastEndCreatesNothing,
        what: "SET with an end in the past deletes the key without an event that it was set",
        holds: &[V80, V90],
    },
    Divergence {
        difference: D::PastEndIsExpiry,
        what: "EXPIRE or GETEX with an end in the past reports the key as expired, not as del",
        holds: &[V90],
    },
    Divergence {
        difference: D::PushesStandBehind,
        what: "Messages that are pushed to a connection while its own command runs follow the \
               reply (of all of EXEC, of the whole script)",
        holds: &[R82, R84, V80, V90],
    },
    Divergence {
        difference: D::NamesUser,
        what: "NOPERM names the user, or no more than a key or a channel; in scripts it is an ACL \
               failure",
        holds: &[R82, R84, V80, V90],
    },
    Divergence {
        difference: D::Names,
        what: "HELLO and INFO report the server's own name and version",
        holds: &[R82, R84, V80, V90],
    },
    Divergence {
        difference: D::VectorSets,
        what: "HELLO lists a module vectorset, whose commands no node has",
        holds: &[R82, R84],
    },
    Divergence {
        difference: D::ClientSetInfo,
        what: "CLIENT SETINFO; CLIENT LIST and INFO show lib-name, lib-ver and watch",
        holds: &[R82, R84, V80, V90],
    },
    Divergence {
        difference: D::SetIfEqual,
        what: "SET .. IFEQ: sets if the string equals the given one; Valkey propagates it \
               unchanged or, with an expiry time, as SET .. PXAT",
        holds: &[SUITE, V90],
    },
    Divergence {
        difference: D::SetIfOther,
        what: "SET .. IFNE, IFDEQ, IFDNE: by another string, by a digest",
        holds: &[SUITE],
    },
    Divergence {
        difference: D::DelIfEq,
        what: "DELIFEQ: deletes if the string equals the given one, propagated as DEL",
        holds: &[V90],
    },
    Divergence {
        difference: D::DelEx,
        what: "DELEX .. IFEQ, IFNE, IFDEQ, IFDNE: deletes on a condition, propagated as DEL",
        holds: &[SUITE],
    },
    Divergence {
        difference: D::Digest,
        what: "DIGEST: the XXH3 of a string in 16 hexadecimal digits",
        holds: &[SUITE],
    },
    Divergence {
        difference: D::WaitAof,
        what: "WAITAOF, for which replicas report what they synced (REPLCONF ACK .. FACK), and \
               a node without replicas counts each command that goes into its append-only file \
               as a byte of history; a time-out that no clock can hold is refused",
        holds: &[R82, R84, V80, V90],
    },
    Divergence {
        difference: D::WrittenIsSynced,
        what: "Under appendfsync everysec WAITAOF counts what the node has written to its file, \
               not what it has synced: a loss of power may lose writes acknowledged like this",
        holds: &[V80, V90],
    },
];

#[cfg(test)]
mod tests {
    use super::{Compat, DIVERGENCES};

    #[test]
    fn words_and_divergences_stand_in_their_order() {
        assert!(Compat::WORDS.iter().all(|(word, compat)| compat.word() == *word));
        let places = DIVERGENCES.iter().map(|row| row.difference as usize);
        assert!(places.eq(0..DIVERGENCES.len()));
        assert!(DIVERGENCES.iter().all(|row| !Compat::Redis70.has(row.difference)));
    }
}
