//! One life of a key on a node: from the request that created it to its end.

use std::collections::BTreeSet;

use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::{Connection, KeyName, Request};
use serde::Serialize;

use crate::custody::asker::Asker;

/// How much a lease is allowed to be off because clocks differ and milliseconds are rounded.
const ROUNDING: Nanos = 2 * MILLISECOND;
/// The share of a lease that clocks may drift apart.
const DRIFT: Nanos = 100;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The node.
    pub node: String,
    /// The key.
    pub key: KeyName,
    /// The value that says whose it is, where it is known.
    pub token: Option<Vec<u8>>,
    /// Who created it; `None`: it was there when the node started.
    pub by: Option<Asker>,
    /// When, in nanoseconds of true time.
    pub from: Nanos,
    /// Until when its lease runs, if it ends; by true time and the length that was asked for.
    pub lease_until: Option<Nanos>,
    /// The length that was asked for last.
    pub ttl: Option<Nanos>,
    /// Whether its creator has been answered.
    pub told: Told,
    /// Whether its owner has given it up, here or where it was copied to.
    pub is_released: bool,
    /// Whether the connection of its creator has ended.
    pub is_alone: bool,
    /// How often others have asked for the key in vain.
    pub refused: u64,
    /// When and how it ended.
    pub end: Option<(Nanos, End)>,
}

/// Whether the creator of a key knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// The reply is not written yet.
    Pending,
    /// The reply was written.
    Yes,
    /// The connection ended before any reply was written.
    Never,
}

/// How a key's life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// A request removed it that carries the token or came from the creator's connection.
    Released,
    /// A request removed it, and nobody can say whose that was.
    Removed,
    /// A request of somebody else removed it.
    ForeignRelease,
    /// Another value was put in its place.
    Overwritten,
    /// Its time had passed on the node's clock.
    Expired,
    /// The node ran out of memory.
    Evicted,
    /// Every key was dropped.
    Flushed,
    /// It was not there after the node's start.
    LostAtRestart,
    /// It was not there after the node had followed another master.
    LostAtFailover,
}

impl End {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            End::Released => "released",
            End::Removed => "removed by who knows whom",
            End::ForeignRelease => "released by another",
            End::Overwritten => "overwritten",
            End::Expired => "expired",
            End::Evicted => "evicted",
            End::Flushed => "flushed",
            End::LostAtRestart => "lost at a restart",
            End::LostAtFailover => "lost at a failover",
        }
    }
}

impl Incarnation {
    /// The request that created it.
    pub fn birth(&self) -> Option<Request> {
        self.by.as_ref().map(|by| by.request)
    }

    /// The connection that it was created on.
    pub fn connection(&self) -> Option<Connection> {
        self.birth().map(|request| request.connection)
    }

    /// How much of its lease is left for certain at a true time; `None` if it has no end.
    pub fn left(&self, at: Nanos) -> Option<Nanos> {
        let unsure = ROUNDING + self.ttl.unwrap_or(0) / DRIFT;
        self.lease_until.map(|until| until.saturating_sub(at).saturating_sub(unsure))
    }

    /// Whether its lease runs for certain at a true time.
    pub fn runs(&self, at: Nanos) -> bool {
        self.left(at).is_none_or(|left| left > 0)
    }

    /// Gives it another lease: so long from now on, or for ever.
    pub fn prolong(&mut self, at: Nanos, ttl: Option<Nanos>) {
        self.ttl = ttl;
        self.lease_until = ttl.map(|ttl| at.saturating_add(ttl));
    }
}

/// Tokens that were seen under a key, the oldest forgotten first.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    seen: Vec<Vec<u8>>,
}

impl Tokens {
    /// The most that are kept.
    const MOST: usize = 16;

    /// Notes a token.
    pub fn note(&mut self, token: &[u8]) {
        if self.seen.iter().any(|seen| seen == token) {
            return;
        }
        if self.seen.len() == Tokens::MOST {
            self.seen.remove(0);
        }
        self.seen.push(token.to_vec());
    }

    /// Those that were seen, but for one.
    pub fn others(&self, than: &[u8]) -> BTreeSet<&[u8]> {
        self.seen.iter().map(|token| &token[..]).filter(|token| *token != than).collect()
    }
}
