//! The ways in which violations become possible, and what in the history proves each. Where nothing
//! proves any, that is said ([`How::Unclear`]), and counts as a defect of ours.

use serde::{Deserialize, Serialize};

use crate::explain::story::Evidence;
use crate::promise::Bounded;

/// How a violation became possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mechanism {
    /// Which of the ways that are known.
    pub how: How,
    /// In words, with who and where.
    pub sentence: String,
    /// The events that prove it.
    pub evidence: Vec<Evidence>,
}

impl Mechanism {
    /// A mechanism.
    pub fn new(how: How, sentence: String, evidence: Vec<Evidence>) -> Mechanism {
        Mechanism { how, sentence, evidence }
    }

    /// What is said where no mechanism is known.
    pub fn unclear() -> Mechanism {
        let sentence = "No known mechanism fits this history: a defect of lockstorm.".to_owned();
        Mechanism::new(How::Unclear, sentence, Vec::new())
    }
}

/// The ways in which violations become possible, each with what in the history proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Nothing is locked: neither holder has a key on any node.
    NothingLocked,
    /// The lease ran out while its holder stood still: the key reached its end by its own time, and
    /// the holder's process was halted before that.
    StoodStill,
    /// The work outlasted the lease: the key reached its end by its own time, and its holder ran
    /// and had not prolonged it.
    Overworked,
    /// The holder waited for the resource beyond its lease: an access of its was under way, or
    /// reached the resource, when the key was gone.
    AccessesLate,
    /// A renewal was refused or not answered: the last extend before the lease ended came back as
    /// lost or unknown, or never did.
    RenewalFailed,
    /// A renewal was told as kept and prolonged nothing: an extend returned as kept, and no key on
    /// the node has a later end by it.
    RenewalLied,
    /// The holder's clock is behind: its grant is covered when the key has ended by its own time,
    /// and its clock was disturbed.
    HolderClock,
    /// The holder counts on its lease for longer than its key lives: its grant is covered when the
    /// key has ended by its own time, and its clock is sound.
    DeadlineTooLate,
    /// A grant was taken though its lease was over: the grant is not covered when its acquire
    /// returns.
    DeadOnArrival,
    /// A node's clock ended the lease early: the key ended before its time to live had passed on a
    /// true clock.
    NodeClock,
    /// Another node's clock ended the lease early: the same, on a node that got the key from its
    /// master.
    ReplicaClock,
    /// The key never reached the promoted replica: the node was promoted after the grant, and never
    /// had its key.
    NeverReached,
    /// Two masters served at once: one of the grants came from a node after another had been
    /// promoted in its place.
    OldMaster,
    /// A node took over what its master had: the key was lost at a full resynchronisation.
    LostInResync,
    /// A node forgot the key at a restart: the key was lost at a restart.
    Forgotten,
    /// A node removed the key: the key was evicted, or deleted by no client.
    Removed,
    /// Another caller deleted the key: the key ended by an operation of another caller.
    DeletedByAnother,
    /// Its owner's own command deleted the key: the key ended by an operation of its owner, which
    /// believed to hold still.
    DeletedByOwner,
    /// Another caller wrote over the key: the key's life ended with another caller's setting it.
    Overwritten,
    /// Two callers have the same owner value: the second was granted by a change of the first one's
    /// key, or both tokens are equal.
    SameOwner,
    /// Two sets of nodes granted that share none: no node that granted the second had ever granted
    /// the first.
    TwoMajorities,
    /// The owner was checked before the command, not with it: the operation read the key in one
    /// request and changed it in another.
    CheckedTooEarly,
    /// The command does not ask whose key it is: a plain command of another owner changed the key.
    BlindCommand,
    /// A dead caller's key stayed: its process died before it had given the key back.
    LeftByDead,
    /// A refused acquire left its key: the acquire that set the key came back as refused.
    LeftByRefused,
    /// An acquire of which nobody knows left its key: the acquire that set the key came back as
    /// unknown, or never did.
    LeftByUnknown,
    /// A release failed: the release came back as unknown or as not its own, or never did.
    ReleaseFailed,
    /// A release was told as done and deleted nothing: the release returned as released, and the
    /// key lived on.
    NothingDeleted,
    /// The key came back after its release: the key was set, or put back by a start, after the
    /// release had returned.
    SetAgain,
    /// The deletion never reached the node that leads: the release deleted the key on another node,
    /// and the key lived on.
    DeleteNeverReached,
    /// A renewal took effect after the release: an extend's request was applied after its owner's
    /// release had returned.
    RenewalLate,
    /// No node led: nodes told of no master from then on.
    NoLeader,
    /// The node refused the command: the operation's last request was answered with an error.
    ScriptUnknown,
    /// A request was never answered: the operation's last request has no delivered reply.
    NoAnswer,
    /// The holder ran and was not told: its process was not halted between the loss and the notice.
    NotTold,
    /// The counter of fences was forgotten: a node lost the key of the counter before the smaller
    /// number was given.
    CounterForgotten,
    /// The counter of fences was deleted or expired: its key ended by a command or by its own time
    /// to live before the smaller number was given.
    CounterGone,
    /// The fence is drawn apart from the grant: the numbers were drawn in another order than the
    /// lock was granted in.
    CounterApart,
    /// A write arrived after its hold: the access reached the resource after its holder had ended.
    WriteInFlight,
    /// A caller worked without a grant: the access names no granted acquire.
    NoGrant,
    /// The lock broke its contract: a breach is in the history.
    ContractBroken,
    /// Not known: nothing that is looked for.
    Unclear,
}

impl How {
    /// The assumptions that what makes it possible breaks, of which one or another is.
    pub fn strains(self) -> &'static [Bounded] {
        match self {
            How::StoodStill => &[Bounded::ClientPause],
            How::Overworked => &[Bounded::Work],
            How::AccessesLate | How::WriteInFlight => &[Bounded::AccessDelay],
            How::HolderClock => &[Bounded::ClientClockStep, Bounded::Drift],
            How::NodeClock | How::ReplicaClock => &[Bounded::NodeClockStep, Bounded::Drift],
            How::NeverReached | How::OldMaster | How::LostInResync | How::DeleteNeverReached => {
                &[Bounded::Failover]
            }
            How::Forgotten | How::CounterForgotten => &[Bounded::AmnesiacRestart],
            How::Removed => &[Bounded::KeyRemoval],
            How::LeftByDead => &[Bounded::ClientCrash],
            How::NoLeader => &[Bounded::Leaderless],
            _ => &[],
        }
    }

    /// The word that stands for it: `stood-still`.
    pub fn word(self) -> String {
        let word = serde_json::to_value(self).expect("a name is JSON");
        word.as_str().expect("a name is a string").to_owned()
    }
}
