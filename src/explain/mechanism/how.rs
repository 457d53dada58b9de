//! The mechanisms by which violations become possible, and what in the history proves each. If
//! nothing proves any, the report says so ([`How::Unclear`]); that counts as a defect of lockstorm.

use serde::{Deserialize, Serialize};

use crate::explain::evidence::Evidence;
use crate::promise::Bounded;

/// How a violation became possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mechanism {
    /// The mechanism.
    pub how: How,
    /// In words, with the callers and nodes.
    pub sentence: String,
    /// The events that prove it.
    pub evidence: Vec<Evidence>,
}

impl Mechanism {
    /// A mechanism.
    pub fn new(how: How, sentence: String, evidence: Vec<Evidence>) -> Mechanism {
        Mechanism { how, sentence, evidence }
    }

    /// The result if no known mechanism is proven.
    pub fn unclear() -> Mechanism {
        let sentence = "No known mechanism fits this history: a defect of lockstorm.".to_owned();
        Mechanism::new(How::Unclear, sentence, Vec::new())
    }
}

/// The known mechanisms, each with what in the history proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Nothing is locked: neither holder has a key on any node.
    NothingLocked,
    /// The lease expired while its holder was halted: the key expired at its own time, and the
    /// holder's process was halted before that.
    StoodStill,
    /// The work outlasted the lease: the key expired at its own time, and until then its holder ran
    /// and worked for as long as the lease lasted, without halts and late accesses.
    Overworked,
    /// The holder waited for the resource beyond its lease: an access took longer than undisturbed
    /// ones, and without that delay the work would have fitted into the lease.
    AccessesLate,
    /// A renewal was refused or got no reply: the last extend before the lease ended returned as
    /// lost or unknown, or never returned.
    RenewalFailed,
    /// A lock that renews its leases stopped, or came too late: no renewal was sent in the lease
    /// that ran out, nothing halted its holder, and the lock permits work of any length.
    RenewalNotSent,
    /// A renewal was reported as kept and extended nothing: an extend returned as kept, and no key
    /// on the node has a later expiry because of it.
    RenewalLied,
    /// The holder's clock is behind: its grant is covered when the key has expired at its own time,
    /// and its clock was disturbed; or another caller, which removes what is over by its own clock,
    /// removed the key before its time.
    HolderClock,
    /// The holder relies on its lease for longer than its key lives: its grant is covered when the
    /// key has expired at its own time, and its clock is undisturbed; or a renewal that came after
    /// a newer one set the end of the key back.
    DeadlineTooLate,
    /// A grant was accepted although its lease was over: the grant is not covered when its acquire
    /// returns.
    DeadOnArrival,
    /// A node's clock ended the lease early: the key expired, or was removed as one whose time was
    /// over, before its time to live had passed on a true clock.
    NodeClock,
    /// Another node's clock ended the lease early: the same, on a node that received the key from
    /// its master.
    ReplicaClock,
    /// The key, or its last renewal, never reached the promoted replica: the node was promoted
    /// after the grant or the renewal, and never had it.
    NeverReached,
    /// Two masters served at once: one of the grants came from a node after another had been
    /// promoted in its place.
    OldMaster,
    /// A node adopted the data of its master: the key was lost in a full resynchronisation.
    LostInResync,
    /// A node forgot the key: the key was lost at a restart.
    Forgotten,
    /// A node removed the key: the key was evicted, or deleted by no client.
    Removed,
    /// Another caller deleted the key: the key ended by an operation of another caller.
    DeletedByAnother,
    /// Its owner's own command deleted the key: the key ended by an operation of its owner, which
    /// still believed that it held the lock.
    DeletedByOwner,
    /// Its owner's own command left the key too little time: an operation of its caller gave it an
    /// earlier expiry, while another entry or the lease of its owner still counted on it.
    ShortenedByOwner,
    /// Another caller overwrote the key: the key's life ended when another caller set it.
    Overwritten,
    /// Two callers have the same owner value: the second was granted the lock by a change of the
    /// first one's key, or both tokens are equal.
    SameOwner,
    /// A release handed the lock on too early: the release of one entry of a tenure set the key for
    /// another caller while another entry was still held.
    HandedOnEarly,
    /// More callers were let in than may hold the lock: the key that the others share admitted one
    /// more.
    TooMany,
    /// The two grants come from disjoint sets of nodes: no node that granted the second had ever
    /// granted the first, or the first still had its key on a quorum of other nodes.
    TwoMajorities,
    /// The owner was checked before the command, not by it: the operation read the key in one
    /// request and changed it in another.
    CheckedTooEarly,
    /// The command does not check the owner: a plain command of another owner changed the key.
    BlindCommand,
    /// A dead caller's key stayed: its process died before it had released the key.
    LeftByDead,
    /// A refused acquire left its key: the acquire that set the key returned as refused.
    LeftByRefused,
    /// An acquire with an unknown outcome left its key: the acquire that set the key returned as
    /// unknown, or never returned.
    LeftByUnknown,
    /// A release failed: it returned as unknown or not mine, never returned, or was never called.
    ReleaseFailed,
    /// A release was reported as done and deleted nothing: it returned as released, and the key
    /// still existed.
    NothingDeleted,
    /// The key was there again after its end: a command set it after its release had returned, or a
    /// start or a resynchronisation restored it.
    SetAgain,
    /// The deletion never reached the node that leads: the release deleted the key on another node,
    /// and the key lived on.
    DeleteNeverReached,
    /// A renewal took effect after the release: an extend's request was applied after its owner's
    /// release had returned.
    RenewalLate,
    /// Too few nodes were masters: fewer than a quorum led until the violation ended, or a node
    /// without a rival replied that it serves no client.
    NoLeader,
    /// Replicas lacked what callers had written: a master still reported this when the margin that
    /// the probe has after the heal had passed.
    NoReplica,
    /// A place in the queue stayed at its head: its acquire had returned, or its process had died
    /// or was halted, and the lock was free.
    LeftInQueue,
    /// The queue was passed: an acquire got the lock while one ahead of it in the queue waited.
    QueueSkipped,
    /// A waiter gave up its place in the queue: an operation of its own caller moved the place, and
    /// an acquire that had come later got the lock first.
    PlaceGivenUp,
    /// A grant of a group covers a key that its acquire never set on any node.
    PartOnly,
    /// Acquires of groups wait for each other: each is pending and has a key that another of them
    /// wants, at the violation or until one of those keys expires.
    Deadlock,
    /// The lock's own state lets nobody in: the probe's acquires were answered without an error and
    /// refused, and no caller's key was there.
    StateStays,
    /// The lease is too short: an acquire knew of a quorum of its keys and gave them back itself,
    /// since too little time was left of the lease.
    LeaseTooShort,
    /// The node did not know the script: the reply to the operation's last request was NOSCRIPT.
    ScriptUnknown,
    /// The node rejected the command: the reply to the operation's last request was another error,
    /// or the probe's last operation that got a reply got an error.
    Rejected,
    /// A request got no reply: no reply to the operation's last request was delivered, or too few
    /// nodes replied in time.
    NoAnswer,
    /// The holder ran and was not notified: its process was not halted between the loss and the
    /// notice, or nothing else explains the loss.
    NotNotified,
    /// The counter of fences was lost: before the smaller number was given, the node lost the
    /// counter, started with an earlier value of it, or was promoted without the larger number.
    CounterForgotten,
    /// The counter of fences was deleted or expired: its key ended by a command or by its own time
    /// to live before the smaller number was given.
    CounterGone,
    /// The fence is given separately from the grant: the order of the numbers differs from the
    /// order of the grants.
    CounterApart,
    /// A party was counted twice at a latch: a count-down that took effect and had no answer was
    /// sent again, and took effect again.
    CountedTwice,
    /// A write arrived after its hold: the access reached the resource after the hold had ended.
    WriteInFlight,
    /// A job ran again in its period: the lock was free again when another instance fired for it,
    /// and nothing but its own time or its owner's release had ended the first key.
    RanAgain,
    /// A caller worked without a grant: the access belongs to no granted acquire.
    NoGrant,
    /// A caller worked on after its hold: the access was sent after the hold had ended.
    WorkedOn,
    /// A caller released what it was refused: the release names an acquire that was refused.
    ReleasedRefused,
    /// A caller took an empty segment for an empty stock: its buyer was turned away while the
    /// resource had items in others.
    OneSegment,
    /// What is compared is the count before the request: at the limit one more passes, and no other
    /// caller came between.
    ComparedTooEarly,
    /// The end of a counter is set apart from its beginning: what began it was applied, and no end
    /// was set after it.
    EndSetApart,
    /// The lock broke its contract: a breach is in the history.
    ContractBroken,
    /// A check of one's own found it: the check names events that exist.
    OwnCheck,
    /// Unknown: none of the known mechanisms is proven.
    Unclear,
}

impl How {
    /// The assumptions of which this mechanism breaches at least one.
    pub fn may_breach(self) -> &'static [Bounded] {
        match self {
            How::StoodStill => &[Bounded::ClientPause, Bounded::HoldPause],
            How::Overworked | How::LeaseTooShort => &[Bounded::Work],
            How::AccessesLate | How::WriteInFlight => &[Bounded::AccessDelay],
            // A suspended host's monotonic clock stands still as well.
            How::HolderClock => &[
                Bounded::ClientClockStep,
                Bounded::Skew,
                Bounded::Drift,
                Bounded::ClientPause,
                Bounded::HoldPause,
            ],
            How::NodeClock | How::ReplicaClock => {
                &[Bounded::NodeClockStep, Bounded::Skew, Bounded::Drift]
            }
            How::NeverReached | How::OldMaster | How::LostInResync | How::DeleteNeverReached => {
                &[Bounded::Failover]
            }
            // A request that is on its way for long comes when the key of the first run is gone.
            How::RanAgain => &[
                Bounded::Skew,
                Bounded::ClientPause,
                Bounded::ClientClockStep,
                Bounded::Drift,
                Bounded::Work,
            ],
            How::Forgotten => &[Bounded::AmnesiacRestart],
            How::CounterForgotten => &[Bounded::AmnesiacRestart, Bounded::Failover],
            How::Removed => &[Bounded::KeyRemoval],
            How::LeftByDead => &[Bounded::ClientCrash],
            // Who leaves the queue may ask a master that is one no more.
            How::LeftInQueue => &[Bounded::ClientCrash, Bounded::Failover],
            How::NoLeader => &[Bounded::Leaderless],
            How::NoReplica => &[Bounded::Unreplicated],
            How::NoGrant | How::WorkedOn | How::ReleasedRefused | How::OneSegment => {
                &[Bounded::Misuse]
            }
            _ => &[],
        }
    }

    /// Its name: `stood-still`.
    pub fn word(self) -> String {
        let word = serde_json::to_value(self).expect("a name is JSON");
        word.as_str().expect("a name is a string").to_owned()
    }
}
