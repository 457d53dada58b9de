//! Verdicts: a history and its terms go in; the violations come out, with their evidence.
//!
//! One file per verdict. Specifications are separate from searches. Nothing here sees a world.

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
use crate::lock::Model;

/// The terms by which a history is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The lock's key.
    pub lock_key: String,
    /// How many callers may hold at once.
    pub holders: u32,
    /// Whether the lock notifies a running caller of a loss.
    pub tells_loss: bool,
    /// The model of its acquires and releases.
    pub model: Model,
    /// The requested time to live.
    pub ttl: Option<Nanos>,
    /// The maximum time to live of any key of the lock.
    pub longest_ttl: Nanos,
    /// The invariant of the resource.
    pub invariant: Invariant,
    /// Whether two callers, not counting the probe, must have wanted the lock at the same time.
    pub contends: bool,
    /// The faults of the plan, by number: each must have struck something.
    pub faults: Vec<u32>,
    /// Whether callers take the lock again while they hold it.
    pub reenters: bool,
    /// The bounds against which the ledger checks the history.
    pub site: Site,
    /// How many grants the same plan gives without its faults, if that was run.
    pub grants_without_faults: Option<u32>,
    /// Whether the faults were drawn, so that one that strikes something is enough: see [`idle`].
    #[serde(default)]
    pub is_drawn: bool,
}

impl Terms {
    /// Whether a single node decides: its reply holds for the lock.
    pub fn asks_one_node(&self) -> bool {
        self.site.asked <= 1
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
    /// Each write is the previous value minus one, starting from `items`, and never below zero.
    Stock {
        /// The number of items to sell.
        items: i64,
    },
    /// No entry of an earlier grant follows one of a later grant.
    Ledger,
}

/// The verdict. `Unknown` is never shown as a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every check held, and something was tested.
    Holds,
    /// At least one check failed; ordered by [`Kind`], then by time.
    Violated(Vec<Violation>),
    /// No verdict is possible, and why.
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
    /// More holders than allowed, at least one of them past its deadline.
    StaleHolder,
    /// The resource's invariant failed.
    Corruption,
    /// A release or an overwrite hit another caller's key.
    ForeignRelease,
    /// An extend extended another caller's key.
    ForeignExtend,
    /// A key without an owner made an acquire fail.
    Leak,
    /// A renewal took effect after its owner's release had returned, or set the key again.
    RenewalAfterRelease,
    /// After the heal the probe was not granted in time.
    Stuck,
    /// An operation was still pending at the end.
    NeverSettles,
    /// The caller was notified too late that it had lost the lock.
    LateLoss,
    /// The key of a covered hold was lost before its lease expired, and no other caller got in.
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

    /// The name of the kind in scenarios and reports.
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
    /// The operations that prove it, the earliest first.
    pub ops: Vec<OpId>,
    /// Indices into the history's `keys` that prove it.
    pub keys: Vec<usize>,
    /// Indices into the history's `accesses` that prove it.
    pub accesses: Vec<usize>,
    /// When it becomes visible.
    pub from: Instant,
    /// When it ends; the same as `from` for an instantaneous violation.
    pub to: Instant,
    /// For corruption: its cause.
    pub cause: Option<Cause>,
    /// How late a loss was reported, in nanoseconds; for `late-loss`.
    pub late: Option<Nanos>,
    /// For `not-linearizable` of a lock: the turn of each grant, the earliest acquire first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
}

/// One grant's turn at the lock: when it must have begun, and when it can end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The acquire.
    pub grant: OpId,
    /// When the caller certainly had the lock.
    pub had_by: Instant,
    /// The operation whose return proves that: the acquire, or the first that proves it.
    pub shown_by: OpId,
    /// When the lock can first be free of the grant; `None` if it never can, or if the outcomes
    /// that the caller received fit into no turn at all.
    pub free_from: Option<Instant>,
    /// What allows the turn to end then.
    pub end: TurnEnd,
}

/// What allows a grant's turn at a lock to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnEnd {
    /// This release, which returned as released.
    Released(OpId),
    /// This release, whose outcome is unknown: it may have taken effect from its call on.
    MayBeReleased(OpId),
    /// Its lease, as granted by this operation.
    Lease(OpId),
    /// Nothing.
    Never,
    /// The grant's own operations contradict each other.
    Contradiction,
}

impl Violation {
    /// A violation of this kind between two instants, without evidence yet.
    pub fn new(kind: Kind, from: Instant, to: Instant) -> Violation {
        let (ops, keys, accesses) = (Vec::new(), Vec::new(), Vec::new());
        let turns = Vec::new();
        Violation { kind, ops, keys, accesses, from, to, cause: None, late: None, turns }
    }
}

/// The cause of a corruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Two holds overlapped.
    Overlap,
    /// A write arrived after its holder had released the lock, lost it or died.
    InFlight,
    /// The caller wrote without a grant.
    Caller,
    /// None of these.
    None,
}

/// How much was tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Acquires that were granted, not counting the probe's.
    pub grants: u32,
    /// Acquires during which another caller held or wanted the lock.
    pub contended: u32,
    /// Acquires that were refused.
    pub refused: u32,
    /// Acquires whose outcome is unknown.
    pub unknown: u32,
    /// Faults that struck.
    pub struck: u32,
    /// Faults that struck while a caller held the lock.
    pub struck_in_hold: u32,
    /// Accesses that reached the resource.
    pub accesses: u32,
    /// Messages between any hosts that were lost or cut off, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// Grants of the same plan without its faults, if that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants_without_faults: Option<u32>,
}

/// The result of all checks over one history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// How much was tested.
    pub counts: Counts,
    /// The nearest miss in nanoseconds, if a hold wrote to the resource and a lease can expire.
    /// Negative: another caller could have acquired the lock before the write.
    pub nearest_miss: Option<i64>,
    /// The nearest miss in detail.
    #[serde(default)]
    pub nearest: Option<NearestMiss>,
    /// How well callers were served.
    #[serde(default)]
    pub availability: Availability,
}
