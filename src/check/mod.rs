//! Verdicts: a history and its terms go in, what was violated comes out, with a witness.
//!
//! One file a verdict. Specs stand apart from searches. Nothing here sees a world.

pub mod availability;
pub mod case;
pub mod contract;
pub mod corruption;
pub mod counts;
pub mod fence;
pub mod foreign;
pub mod idle;
pub mod judge;
pub mod late_loss;
pub mod leak;
pub mod linear;
pub mod liveness;
pub mod lost_early;
pub mod nearest_miss;
pub mod overlap;
pub mod renewal;
pub mod signature;

use lockstorm_platform::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

use crate::check::availability::Availability;
use crate::check::nearest_miss::NearestMiss;
use crate::history::{Missed, OpId};
use crate::ledger::Site;
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
    /// Whether chance drew them, so that one that strikes something is enough: see [`idle`].
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

/// The answer. `Unknown` is never shown as a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every check held, and something was tested.
    Holds,
    /// At least one check failed; in the order of [`Kind`], then of time.
    Violated(Vec<Violation>),
    /// Nothing can be said, and why.
    Unknown(String),
}

/// What was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The lock did what its contract with the lab forbids.
    BrokenContract,
    /// More holders than allowed, all covered, or with a grant that was dead on arrival.
    DoubleGrant,
    /// More holders than allowed, at least one past its deadline.
    StaleHolder,
    /// The resource's invariant failed.
    Corruption,
    /// A release or an overwrite hit another's key.
    ForeignRelease,
    /// An extend prolonged another's key.
    ForeignExtend,
    /// A key that nobody owns made an acquire fail.
    Leak,
    /// A renewal took effect after its owner's release had returned, or set the key again.
    RenewalAfterRelease,
    /// After the heal the probe was not granted in time.
    Stuck,
    /// An operation was still pending at the end.
    NeverSettles,
    /// The caller was told too late that it lost the lock.
    LateLoss,
    /// The key of a covered hold went before its lease had ended, and nobody else got in.
    LostEarly,
    /// A fence is not greater than that of an earlier grant.
    FenceRegress,
    /// No legal order under the declared model.
    NotLinearizable,
}

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Kind; 14] = [
        Kind::BrokenContract,
        Kind::DoubleGrant,
        Kind::StaleHolder,
        Kind::Corruption,
        Kind::ForeignRelease,
        Kind::ForeignExtend,
        Kind::Leak,
        Kind::RenewalAfterRelease,
        Kind::Stuck,
        Kind::NeverSettles,
        Kind::LateLoss,
        Kind::LostEarly,
        Kind::FenceRegress,
        Kind::NotLinearizable,
    ];

    /// The word that stands for the kind in scenarios and reports.
    pub fn word(self) -> &'static str {
        match self {
            Kind::BrokenContract => "broken-contract",
            Kind::DoubleGrant => "double-grant",
            Kind::StaleHolder => "stale-holder",
            Kind::Corruption => "corruption",
            Kind::ForeignRelease => "foreign-release",
            Kind::ForeignExtend => "foreign-extend",
            Kind::Leak => "leak",
            Kind::RenewalAfterRelease => "renewal-after-release",
            Kind::Stuck => "stuck",
            Kind::NeverSettles => "never-settles",
            Kind::LateLoss => "late-loss",
            Kind::LostEarly => "lost-early",
            Kind::FenceRegress => "fence-regress",
            Kind::NotLinearizable => "not-linearizable",
        }
    }
}

/// One violation with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// What was violated.
    pub kind: Kind,
    /// The operations that show it, the earliest first.
    pub ops: Vec<OpId>,
    /// Indices into the history's `keys` that show it.
    pub keys: Vec<usize>,
    /// Indices into the history's `accesses` that show it.
    pub accesses: Vec<usize>,
    /// From when on it is visible.
    pub from: Instant,
    /// Until when; the same as `from` for what happens in one instant.
    pub to: Instant,
    /// For corruption: where it came from.
    pub cause: Option<Cause>,
    /// How late a loss was told, in nanoseconds; for `late-loss`.
    pub late: Option<Nanos>,
    /// For `not-linearizable` of a lock: the turn of each grant, the earliest acquire first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
}

/// One grant's turn at the lock: when it must have begun, and when it can be over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The acquire.
    pub grant: OpId,
    /// By when the caller certainly had the lock.
    pub had_by: Instant,
    /// The operation whose return shows that: the acquire, or the first that proves it.
    pub shown_by: OpId,
    /// From when on the lock can be free of the grant; `None` if it never can, or if what the
    /// caller was answered fits into no turn at all.
    pub free_from: Option<Instant>,
    /// What lets the turn end then.
    pub end: TurnEnd,
}

/// What lets a grant's turn at a lock end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnEnd {
    /// This release, which returned as released.
    Released(OpId),
    /// This release, of which nobody knows: from its call on it may have taken effect.
    MayBeReleased(OpId),
    /// Its lease, as this operation was granted it.
    Lease(OpId),
    /// Nothing.
    Never,
    /// The grant's own operations contradict each other.
    Contradiction,
}

impl Violation {
    /// A violation of that kind from an instant to another, without evidence yet.
    pub fn new(kind: Kind, from: Instant, to: Instant) -> Violation {
        let (ops, keys, accesses) = (Vec::new(), Vec::new(), Vec::new());
        let turns = Vec::new();
        Violation { kind, ops, keys, accesses, from, to, cause: None, late: None, turns }
    }
}

/// Where a corruption came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Two holds overlapped.
    Overlap,
    /// A write arrived after its holder had released, lost the lock or died.
    InFlight,
    /// The caller worked without a grant.
    Caller,
    /// None of these.
    None,
}

/// How much was tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Acquires that were granted, the probe's not counted.
    pub grants: u32,
    /// Acquires during which another caller held or wanted the lock.
    pub contended: u32,
    /// Acquires that were refused.
    pub refused: u32,
    /// Acquires whose outcome is unknown.
    pub unknown: u32,
    /// Faults that struck.
    pub struck: u32,
    /// Faults that struck while somebody held the lock.
    pub struck_in_hold: u32,
    /// Accesses that reached the resource.
    pub accesses: u32,
    /// Messages between any hosts that were lost or cut off, if that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// Grants of the same plan without its faults, if that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants_without_faults: Option<u32>,
}

/// All that the checks have to say about one history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// How much was tested.
    pub counts: Counts,
    /// The nearest miss in nanoseconds, where a hold wrote to the resource and a lease can end.
    /// Negative: another could have been let in before the write.
    pub nearest_miss: Option<i64>,
    /// The same with what it was.
    #[serde(default)]
    pub nearest: Option<NearestMiss>,
    /// How well callers were served.
    #[serde(default)]
    pub availability: Availability,
}
