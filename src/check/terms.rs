//! What a history is judged by.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::ledger::site::Site;
use crate::promise::Model;

/// What a history is judged by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The lock's key.
    pub lock_key: String,
    /// How many may hold at once.
    pub holders: u32,
    /// Whether the lock tells a running caller of a loss.
    pub tells_loss: bool,
    /// The model of its acquires and releases.
    pub model: Model,
    /// Time to live that the lock was asked for.
    pub ttl: Option<Nanos>,
    /// The longest time to live that any key of the lock can have.
    pub longest_ttl: Nanos,
    /// What the resource must keep.
    pub invariant: Invariant,
    /// Whether two callers, the probe not counted, must have wanted the lock at once.
    pub contends: bool,
    /// The faults of the plan, by number: each must have struck something.
    pub faults: Vec<u32>,
    /// Whether callers take the lock again while they hold it.
    pub reenters: bool,
    /// What the ledger holds the history against.
    pub site: Site,
    /// How many grants the same plan gives without its faults, if that was tried.
    pub grants_without_faults: Option<u32>,
    /// Whether chance drew them, so that one that strikes something is enough: see
    /// [`idle`](crate::check::idle).
    #[serde(default)]
    pub is_drawn: bool,
}

impl Terms {
    /// Whether one node decides: what it answers is true of the lock.
    pub fn asks_one_node(&self) -> bool {
        self.site.asked <= 1
    }
}

/// What a guarded resource must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invariant {
    /// Nothing.
    None,
    /// Each write is the value before it plus one: no update is lost.
    Counter,
    /// Each write is the value before it minus one, from `items` on, and never below zero.
    Stock {
        /// How many there are to sell.
        items: i64,
    },
    /// No entry of an earlier grant follows one of a later grant.
    Ledger,
}
