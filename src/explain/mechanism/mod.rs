//! How a violation became possible: read from the history, whatever the faults are named.
//!
//! Each mechanism has one row in [`ROWS`]: its name, and what in the history proves it. If nothing
//! proves any, the result is [`How::Unclear`], which counts as a defect of lockstorm.
//!
//! - [`ending`]: why a key that should have kept others out was gone
//! - [`belief`]: why its holder continued
//! - [`overlap`]: two simultaneous holders
//! - [`alone`]: violations that involve one caller

use serde::{Deserialize, Serialize};

use crate::check::Kind;
use crate::explain::story::Evidence;
use crate::explain::witness::Witness;
use crate::lock::Bounded;

pub mod alone;
pub mod belief;
pub mod ending;
pub mod overlap;

/// How a violation became possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mechanism {
    /// The mechanism.
    pub how: How,
    /// A sentence with callers and nodes.
    pub sentence: String,
    /// The events that prove it.
    pub evidence: Vec<Evidence>,
}

impl Mechanism {
    fn new(how: How, sentence: String, evidence: Vec<Evidence>) -> Mechanism {
        Mechanism { how, sentence, evidence }
    }

    fn unclear() -> Mechanism {
        let sentence = "No known mechanism fits this history: a defect of lockstorm.".to_owned();
        Mechanism::new(How::Unclear, sentence, Vec::new())
    }
}

/// The ways in which violations become possible. [`ROWS`] lists the proof of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is described by its row")]
pub enum How {
    NothingLocked,
    StoodStill,
    Overworked,
    AccessesLate,
    RenewalFailed,
    RenewalLied,
    HolderClock,
    DeadlineTooLate,
    DeadOnArrival,
    NodeClock,
    ReplicaClock,
    NeverReached,
    OldMaster,
    LostInResync,
    Forgotten,
    Removed,
    DeletedByAnother,
    DeletedByOwner,
    Overwritten,
    SameOwner,
    TwoMajorities,
    CheckedTooEarly,
    BlindCommand,
    LeftByDead,
    LeftByRefused,
    LeftByUnknown,
    ReleaseFailed,
    NothingDeleted,
    SetAgain,
    RenewalLate,
    NoLeader,
    ScriptUnknown,
    NoAnswer,
    NotTold,
    CounterForgotten,
    CounterApart,
    WriteInFlight,
    NoGrant,
    ContractBroken,
    Unclear,
}

/// The description of a mechanism.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The mechanism.
    pub how: How,
    /// A short description.
    pub about: &'static str,
    /// What in the history proves it.
    pub proof: &'static str,
}

const fn row(how: How, about: &'static str, proof: &'static str) -> Row {
    Row { how, about, proof }
}

/// Every mechanism.
pub static ROWS: [Row; 40] = [
    row(How::NothingLocked, "nothing is locked", "neither holder has a key on any node"),
    row(
        How::StoodStill,
        "the lease ran out while its holder stood still",
        "the key reached its end by its own time, and the holder's process was halted before that",
    ),
    row(
        How::Overworked,
        "the work outlasted the lease",
        "the key reached its end by its own time, and its holder ran and had not prolonged it",
    ),
    row(
        How::AccessesLate,
        "the holder waited for the resource beyond its lease",
        "an access of its was under way, or reached the resource, when the key was gone",
    ),
    row(
        How::RenewalFailed,
        "a renewal was refused or not answered",
        "the last extend before the lease ended came back as lost or unknown, or never did",
    ),
    row(
        How::RenewalLied,
        "a renewal was told as kept and prolonged nothing",
        "an extend returned as kept, and no key on the node has a later end by it",
    ),
    row(
        How::HolderClock,
        "the holder's clock is behind",
        "its grant is covered when the key has ended by its own time, and its clock was disturbed",
    ),
    row(
        How::DeadlineTooLate,
        "the holder counts on its lease for longer than its key lives",
        "its grant is covered when the key has ended by its own time, and its clock is sound",
    ),
    row(
        How::DeadOnArrival,
        "a grant was taken though its lease was over",
        "the grant is not covered when its acquire returns",
    ),
    row(
        How::NodeClock,
        "a node's clock ended the lease early",
        "the key ended before its time to live had passed on a true clock",
    ),
    row(
        How::ReplicaClock,
        "another node's clock ended the lease early",
        "the same, on a node that got the key from its master",
    ),
    row(
        How::NeverReached,
        "the key never reached the promoted replica",
        "the node was promoted after the grant, and never had its key",
    ),
    row(
        How::OldMaster,
        "two masters served at once",
        "one of the grants came from a node after another had been promoted in its place",
    ),
    row(
        How::LostInResync,
        "a node took over what its master had",
        "the key was lost at a full resynchronisation",
    ),
    row(How::Forgotten, "a node forgot the key at a restart", "the key was lost at a restart"),
    row(How::Removed, "a node removed the key", "the key was evicted, or deleted by no client"),
    row(
        How::DeletedByAnother,
        "another caller deleted the key",
        "the key ended by an operation of another caller",
    ),
    row(
        How::DeletedByOwner,
        "its owner's own command deleted the key",
        "the key ended by an operation of its owner, which believed to hold still",
    ),
    row(
        How::Overwritten,
        "another caller wrote over the key",
        "the key's life ended with another caller's setting it",
    ),
    row(
        How::SameOwner,
        "two callers have the same owner value",
        "the second was granted by a change of the first one's key, or both tokens are equal",
    ),
    row(
        How::TwoMajorities,
        "two sets of nodes granted that share none",
        "no node that granted the second had ever granted the first",
    ),
    row(
        How::CheckedTooEarly,
        "the owner was checked before the command, not with it",
        "the operation read the key in one request and changed it in another",
    ),
    row(
        How::BlindCommand,
        "the command does not ask whose key it is",
        "a plain command of another owner changed the key",
    ),
    row(
        How::LeftByDead,
        "a dead caller's key stayed",
        "its process died before it had given the key back",
    ),
    row(
        How::LeftByRefused,
        "a refused acquire left its key",
        "the acquire that set the key came back as refused",
    ),
    row(
        How::LeftByUnknown,
        "an acquire of which nobody knows left its key",
        "the acquire that set the key came back as unknown, or never did",
    ),
    row(
        How::ReleaseFailed,
        "a release failed",
        "the release came back as unknown or as not its own, or never did",
    ),
    row(
        How::NothingDeleted,
        "a release was told as done and deleted nothing",
        "the release returned as released, and the key lived on",
    ),
    row(
        How::SetAgain,
        "the key came back after its release",
        "the key was set, or put back by a start, after the release had returned",
    ),
    row(
        How::RenewalLate,
        "a renewal took effect after the release",
        "an extend's request was applied after its owner's release had returned",
    ),
    row(How::NoLeader, "no node led", "nodes told of no master from then on"),
    row(
        How::ScriptUnknown,
        "the node refused the command",
        "the operation's last request was answered with an error",
    ),
    row(
        How::NoAnswer,
        "a request was never answered",
        "the operation's last request has no delivered reply",
    ),
    row(
        How::NotTold,
        "the holder ran and was not told",
        "its process was not halted between the loss and the notice",
    ),
    row(
        How::CounterForgotten,
        "the counter of fences was forgotten",
        "a node lost the key of the counter before the smaller number was given",
    ),
    row(
        How::CounterApart,
        "the fence is drawn apart from the grant",
        "the numbers were drawn in another order than the lock was granted in",
    ),
    row(
        How::WriteInFlight,
        "a write arrived after its hold",
        "the access reached the resource after its holder had ended",
    ),
    row(How::NoGrant, "a caller worked without a grant", "the access names no granted acquire"),
    row(How::ContractBroken, "the lock broke its contract", "a breach is in the history"),
    row(How::Unclear, "not known", "nothing that is looked for"),
];

impl How {
    /// Its row.
    pub fn row(self) -> &'static Row {
        let mut rows = ROWS.iter();
        rows.find(|row| row.how == self).expect("every mechanism has a row")
    }

    /// The assumptions that the mechanism may breach: at least one of them.
    pub fn strains(self) -> &'static [Bounded] {
        match self {
            How::StoodStill => &[Bounded::ClientPause],
            How::Overworked => &[Bounded::Work],
            How::AccessesLate | How::WriteInFlight => &[Bounded::AccessDelay],
            How::HolderClock => &[Bounded::ClientClockStep, Bounded::Drift],
            How::NodeClock | How::ReplicaClock => &[Bounded::NodeClockStep, Bounded::Drift],
            How::NeverReached | How::OldMaster | How::LostInResync => &[Bounded::Failover],
            How::Forgotten | How::CounterForgotten => &[Bounded::AmnesiacRestart],
            How::Removed => &[Bounded::KeyRemoval],
            How::LeftByDead => &[Bounded::ClientCrash],
            How::NoLeader => &[Bounded::Leaderless],
            _ => &[],
        }
    }

    /// Its name: `stood-still`.
    pub fn word(self) -> String {
        let word = serde_json::to_value(self).expect("a name is JSON");
        word.as_str().expect("a name is a string").to_owned()
    }
}

/// How the told violation became possible; `None` if nothing is violated.
pub fn mechanism(witness: &Witness<'_>) -> Option<Mechanism> {
    let violation = witness.primary?;
    let found = match violation.kind {
        Kind::DoubleGrant | Kind::StaleHolder => overlap::mechanism(witness, violation),
        Kind::BrokenContract => alone::contract(witness),
        Kind::Corruption => alone::corruption(witness, violation),
        Kind::ForeignRelease | Kind::ForeignExtend => alone::foreign(witness, violation),
        Kind::Leak | Kind::Stuck => alone::left(witness, violation),
        Kind::RenewalAfterRelease => alone::renewal(witness, violation),
        Kind::NeverSettles => alone::unanswered(witness, violation),
        Kind::LateLoss => alone::late(witness, violation),
        Kind::LostEarly => alone::lost(witness, violation),
        Kind::FenceRegress => alone::fence(witness, violation),
        Kind::NotLinearizable => alone::order(witness, violation),
    };
    Some(found.unwrap_or_else(Mechanism::unclear))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ROWS;

    #[test]
    fn every_mechanism_has_one_row_in_order() {
        let hows: BTreeSet<_> = ROWS.iter().map(|row| row.how).collect();
        assert_eq!(hows.len(), ROWS.len());
        assert!(ROWS.is_sorted_by_key(|row| row.how));
    }
}
