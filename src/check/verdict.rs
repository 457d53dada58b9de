//! What checks answer: a verdict, and each violation with its evidence.

use lockstorm_platform::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

use crate::history::OpId;

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
