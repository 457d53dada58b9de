//! The terms by which a history is judged: values of the plan and of the lock's promise.

use lockstorm_platform::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::ledger::site::Site;
use crate::promise::Model;

/// The terms by which a history is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The lock's key.
    pub lock_key: String,
    /// The maximum number of concurrent holders.
    pub holders: u32,
    /// Whether the lock notifies a running caller of a loss.
    pub reports_loss: bool,
    /// The model that acquires and releases must follow.
    pub model: Model,
    /// The requested time to live, ns.
    pub ttl: Option<Nanos>,
    /// The maximum time to live that any key of the lock can have, ns.
    pub longest_ttl: Nanos,
    /// How long a released key may still keep others out: see [`Promise::kept`].
    ///
    /// [`Promise::kept`]: crate::promise::Promise::kept
    #[serde(default, skip_serializing_if = "is_default")]
    pub kept: Nanos,
    /// The invariant of the guarded resource.
    pub invariant: Invariant,
    /// Whether the run tests nothing unless two callers other than the probe want the lock at once.
    pub contends: bool,
    /// The faults of the plan, by number: each must have struck something.
    pub faults: Vec<u32>,
    /// Whether callers acquire the lock again while they hold it.
    pub reenters: bool,
    /// The environment against which the ledger compares the history.
    pub site: Site,
    /// The number of grants of the same plan without its faults, if that was run.
    pub grants_without_faults: Option<u32>,
    /// Whether the faults were drawn, so that one that strikes something is enough: see
    /// [`idle`](crate::check::idle).
    #[serde(default)]
    pub is_drawn: bool,
    /// The key of the queue in which waiters stand, if the lock promises to serve them in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Whether each grant carries a fence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fences: bool,
    /// The keys of which callers acquire groups, or those of segments: each is judged as a lock of
    /// its own. Empty if there is only the lock's key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The items of the segments of a stock, each guarded by the key at its place in `keys`. Empty
    /// if the stock is in one piece.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<i64>,
}

impl Terms {
    /// The terms of each key of a group or of a segment; none if there is only the lock's key.
    pub fn each_key(&self) -> Vec<Terms> {
        let invariant = |place: usize| match self.segments.get(place) {
            Some(items) => Invariant::Segment { nth: place as u32 + 1, items: *items },
            None => self.invariant,
        };
        let of = |(place, key): (usize, &String)| Terms {
            lock_key: key.clone(),
            invariant: invariant(place),
            keys: Vec::new(),
            segments: Vec::new(),
            ..self.clone()
        };
        self.keys.iter().enumerate().map(of).collect()
    }

    /// Whether one node decides, so that its reply is true of the whole lock.
    pub fn queries_one_node(&self) -> bool {
        self.site.queried <= 1
    }
}

/// The invariant of a guarded resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invariant {
    /// Nothing.
    None,
    /// Each write is the previous value plus one: no update is lost.
    Counter,
    /// Each write is the previous value minus one, starting at `items`, and never below zero.
    Stock {
        /// The number of items for sale.
        items: i64,
    },
    /// As `Stock`, of one segment; and nobody is turned away in it while any segment has items.
    Segment {
        /// The number of the segment, from 1.
        nth: u32,
        /// The number of items for sale in it.
        items: i64,
    },
    /// The result of each addition is within these bounds.
    Within {
        /// The smallest; `None` for any.
        least: Option<i64>,
        /// The largest; `None` for any.
        most: Option<i64>,
    },
    /// No more than so many items are sold: a buyer has one if it was told that so many are left,
    /// and gives back what was taken below zero.
    Taken {
        /// The number of items for sale.
        items: i64,
    },
    /// No more than so many requests pass in the life of a counter.
    Passed {
        /// The limit.
        most: i64,
        /// After which time the counter must have ended, ns; `None` if the addition that begins its
        /// life sets the end too.
        ends: Option<Nanos>,
    },
    /// No entry of an earlier grant follows one of a later grant.
    AppendLog,
    /// No caller goes on before so many parties have counted down.
    Latch {
        /// The number of parties.
        parties: u32,
    },
    /// No more tenures than this have begun to write their entries without having ended.
    Inside {
        /// The number of tenures that may be inside at once.
        most: u32,
    },
    /// Each write registers a period: none is registered twice.
    Schedule,
}
