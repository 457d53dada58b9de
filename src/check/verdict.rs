//! The results of checks: a verdict, and each violation with its evidence.

use lockstorm_platform::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

use crate::history::OpId;

/// The verdict. `Unknown` is never shown as a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every check held, and something was tested.
    Holds,
    /// At least one check failed; ordered by [`Kind`], then by time.
    Violated(Vec<Violation>),
    /// No verdict is possible, for this reason.
    Unknown(String),
}

/// The kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The lock did something that its contract with the harness forbids.
    BrokenContract,
    /// More holders than allowed, with too many covered at once or a grant that was dead on
    /// arrival.
    DoubleGrant,
    /// More holders than allowed, at least one of them past its deadline.
    StaleHolder,
    /// The resource's invariant failed.
    Corruption,
    /// A release or an overwrite removed the key of another caller's grant.
    ForeignRelease,
    /// An extend extended the key of another caller's grant.
    ForeignExtend,
    /// A key without an owner made an acquire fail.
    Leak,
    /// A renewal took effect after its owner's release had returned, or it set the key again.
    RenewalAfterRelease,
    /// After the heal the probe was not granted the lock in time.
    Stuck,
    /// An operation was still pending at the end.
    NeverSettles,
    /// The caller was notified too late that it had lost the lock.
    LateLoss,
    /// The key of a covered hold was lost before its lease had expired, and no other caller
    /// acquired the lock.
    LostEarly,
    /// A fence is not greater than that of an earlier grant.
    FenceRegress,
    /// No legal order under the declared model.
    NotLinearizable,
    /// The lock was granted to an acquire while an earlier one stood in the queue and waited.
    Overtaken,
    /// A check of one's own found something.
    OwnCheck,
}

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Kind; 16] = [
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
        Kind::Overtaken,
        Kind::OwnCheck,
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
            Kind::Overtaken => "overtaken",
            Kind::OwnCheck => "own-check",
        }
    }
}

/// One violation with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The kind.
    pub kind: Kind,
    /// The operations that prove it, the earliest first.
    pub ops: Vec<OpId>,
    /// Indices into the history's `keys` that prove it.
    pub keys: Vec<usize>,
    /// Indices into the history's `accesses` that prove it.
    pub accesses: Vec<usize>,
    /// The first instant at which it is visible.
    pub from: Instant,
    /// The last instant; equal to `from` for a violation of one instant.
    pub to: Instant,
    /// For `corruption`: its cause.
    pub cause: Option<Cause>,
    /// For `late-loss`: the delay of the notification, ns.
    pub late: Option<Nanos>,
    /// For `not-linearizable` of a lock: the turn of each grant, the earliest acquire first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// Of a lock that takes groups of keys: the key that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// For `own-check`: the check and its sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnFinding>,
}

/// What a check of one's own says of a violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnFinding {
    /// The name under which the check was added.
    pub check: String,
    /// What it found, as a sentence without a full stop.
    pub sentence: String,
}

impl Violation {
    /// A violation of that kind between two instants, without evidence yet.
    pub fn new(kind: Kind, from: Instant, to: Instant) -> Violation {
        let (ops, keys, accesses) = (Vec::new(), Vec::new(), Vec::new());
        let (turns, key, own) = (Vec::new(), None, None);
        Violation { kind, ops, keys, accesses, from, to, cause: None, late: None, turns, key, own }
    }

    /// A violation that a check of one's own found between two instants, in a sentence without a
    /// full stop. Its evidence is added by the check: at least one operation, access or key change.
    pub fn own(sentence: impl Into<String>, from: Instant, to: Instant) -> Violation {
        let (check, sentence) = (String::new(), sentence.into());
        let own = Some(OwnFinding { check, sentence });
        Violation { own, ..Violation::new(Kind::OwnCheck, from, to) }
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
    /// A second run of a period, after the first one.
    Again,
    /// The access was sent without a grant.
    Caller,
    /// What the resource compares lets one more through than it may.
    Test,
    /// Nothing set the end of a counter.
    Endless,
    /// A caller took an empty segment for an empty stock.
    OneSegment,
    /// None of these.
    None,
}

/// One grant's turn at the lock: when it must have begun, and when it can end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The acquire.
    pub grant: OpId,
    /// The instant by which the caller certainly had the lock.
    pub had_by: Instant,
    /// The operation whose return proves that: the acquire, or the first that proves it.
    pub shown_by: OpId,
    /// The earliest instant at which the lock can be free of the grant; `None` if it never can, or
    /// if the replies to the caller fit into no turn.
    pub free_from: Option<Instant>,
    /// What ends the turn at that instant.
    pub end: TurnEnd,
}

/// What can end a grant's turn at a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnEnd {
    /// This release, which returned as released.
    Released(OpId),
    /// This release with an unknown outcome: it may have taken effect at any time from its call on.
    MayBeReleased(OpId),
    /// The end of the lease that this operation was granted.
    Lease(OpId),
    /// Nothing.
    Never,
    /// The grant's own operations contradict each other.
    Contradiction,
}
