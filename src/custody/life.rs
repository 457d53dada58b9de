//! One life of a key on a node, from the request that created it to its end.

use std::collections::BTreeSet;

use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::{Connection, KeyName, Request};
use serde::Serialize;

use crate::custody::requester::Requester;

/// The tolerance of a lease for differing clocks and rounding to milliseconds.
const ROUNDING: Nanos = 2 * MILLISECOND;
/// The share of a lease (one in `DRIFT`) that clocks may drift apart.
const DRIFT: Nanos = 100;

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustodyLife {
    /// The node.
    pub node: String,
    /// The key.
    pub key: KeyName,
    /// The value that identifies the owner, if known.
    pub token: Option<Vec<u8>>,
    /// The request that created it; `None` if it existed when the node started.
    pub by: Option<Requester>,
    /// The creation, in nanoseconds of true time.
    pub from: Nanos,
    /// The end of its lease, if it has one, according to true time and the requested length.
    pub lease_until: Option<Nanos>,
    /// The last requested length.
    pub ttl: Option<Nanos>,
    /// Whether its creator has received the reply.
    pub reply: ReplyState,
    /// Whether its owner has released it, here or on another node with a copy.
    pub is_released: bool,
    /// Whether the connection of its creator has closed.
    pub is_alone: bool,
    /// How often other clients have failed to take the key.
    pub refused: u64,
    /// When and how it ended.
    pub end: Option<(Nanos, CustodyEnd)>,
}

/// Whether the creator of a key has received the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyState {
    /// The reply is not written yet.
    Pending,
    /// The reply was written.
    Yes,
    /// The connection closed before a reply was written.
    Never,
}

/// How a key's life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CustodyEnd {
    /// A request removed it and carries the token, or came from the creator's connection.
    Released,
    /// A request removed it, and its sender is unknown.
    Removed,
    /// A request of another client removed it.
    ForeignRelease,
    /// Another value replaced it.
    Overwritten,
    /// Its time to live had passed on the node's clock.
    Expired,
    /// The node ran out of memory.
    Evicted,
    /// A flush dropped every key.
    Flushed,
    /// The key did not exist after the node's start.
    LostAtRestart,
    /// The key did not exist after the node had followed another master.
    LostAtFailover,
}

impl CustodyEnd {
    /// The end in words.
    pub fn words(self) -> &'static str {
        match self {
            CustodyEnd::Released => "released",
            CustodyEnd::Removed => "removed by an unknown client",
            CustodyEnd::ForeignRelease => "released by another",
            CustodyEnd::Overwritten => "overwritten",
            CustodyEnd::Expired => "expired",
            CustodyEnd::Evicted => "evicted",
            CustodyEnd::Flushed => "flushed",
            CustodyEnd::LostAtRestart => "lost at a restart",
            CustodyEnd::LostAtFailover => "lost at a failover",
        }
    }
}

impl CustodyLife {
    /// The request that created it.
    pub fn birth(&self) -> Option<Request> {
        self.by.as_ref().map(|by| by.request)
    }

    /// The connection that it was created on.
    pub fn connection(&self) -> Option<Connection> {
        self.birth().map(|request| request.connection)
    }

    /// How much of its lease is certainly left at a true time; `None` if it never expires.
    pub fn left(&self, at: Nanos) -> Option<Nanos> {
        let unsure = ROUNDING + self.ttl.unwrap_or(0) / DRIFT;
        self.lease_until.map(|until| until.saturating_sub(at).saturating_sub(unsure))
    }

    /// Whether its lease certainly runs at a true time.
    pub fn runs(&self, at: Nanos) -> bool {
        self.left(at).is_none_or(|left| left > 0)
    }

    /// Renews the lease: it lasts `ttl` from `at`, or has no expiry.
    pub fn prolong(&mut self, at: Nanos, ttl: Option<Nanos>) {
        self.ttl = ttl;
        self.lease_until = ttl.map(|ttl| at.saturating_add(ttl));
    }
}

/// Tokens observed under a key; the oldest are dropped first.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    seen: Vec<Vec<u8>>,
}

impl Tokens {
    /// The maximum number that is kept.
    const MAX: usize = 16;

    /// Records a token.
    pub fn note(&mut self, token: &[u8]) {
        if self.seen.iter().any(|seen| seen == token) {
            return;
        }
        if self.seen.len() == Tokens::MAX {
            self.seen.remove(0);
        }
        self.seen.push(token.to_vec());
    }

    /// The observed tokens except one.
    pub fn others(&self, than: &[u8]) -> BTreeSet<&[u8]> {
        self.seen.iter().map(|token| &token[..]).filter(|token| *token != than).collect()
    }
}
