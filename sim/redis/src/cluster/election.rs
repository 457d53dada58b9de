//! A replica replaces its master: it requests the masters' votes, after a failure or by command.

use lockstorm_platform::time::Ms;

use crate::cluster::candidacy::{Election, Manual};
use crate::cluster::message::{Header, MessageKind};
use crate::cluster::peer::{ClusterNode, ClusterRole, Id};
use crate::cluster::{Cluster, ClusterAction};

/// Delay of a replica's vote request, so that the failure is known everywhere by then.
const DELAY: Ms = 500;
/// A random delay below this is added.
const DRAWN: u64 = 500;
/// This delay is added per replica with a larger offset.
const RANK: Ms = 1_000;
/// `repl-ping-replica-period`: maximum silence of a healthy master on the replication link.
const QUIET: Ms = 10_000;
/// An election times out after two node timeouts, but at least this long.
const MIN_PATIENCE: Ms = 2_000;
/// Timeout of a manual failover.
const MANUAL: Ms = 5_000;

/// The option of CLUSTER FAILOVER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// None: the master agrees and waits for its replica.
    Agreed,
    /// FORCE: without the master's agreement.
    Forced,
    /// TAKEOVER: without any votes.
    Alone,
}

impl Cluster {
    /// A replica's steps towards replacing its master, at each tick and each vote:
    /// `clusterHandleSlaveFailover`.
    pub fn run_for_master(&mut self) {
        self.start_if_caught_up();
        let Some(master) = self.own_master() else { return };
        let is_manual = self.manual.until > 0 && self.manual.may_start;
        let wanted = master.has_failed() && !self.rules.no_failover && self.is_fresh();
        if master.slots.is_empty() || !(wanted || is_manual) {
            return;
        }
        let (now, patience) = (self.moment.now, (self.rules.node_timeout * 2).max(MIN_PATIENCE));
        let age = now - self.election.at;
        if age > patience * 2 {
            return self.plan_election(is_manual);
        }
        let rank = self.rank();
        let election = &mut self.election;
        // A replica with a larger offset has reported meanwhile: its vote request must come first.
        if election.requested_in.is_none() && !is_manual && rank > election.rank {
            election.at += RANK * Ms::try_from(rank - election.rank).unwrap_or(0);
            election.rank = rank;
        }
        if now < self.election.at || age > patience {
            return;
        }
        match self.election.requested_in {
            None => self.request_votes(is_manual),
            Some(epoch) if self.election.votes >= self.majority() => {
                // With the epoch of its election its claim to the slots wins over the old master's.
                let own = self.myself_mut();
                own.config_epoch = own.config_epoch.max(epoch);
                self.take_masters_place();
            }
            Some(_) => {}
        }
    }

    /// Whether the replica's data is recent enough: `cluster-replica-validity-factor`. The age in
    /// seconds counts since the master was last heard, or since a lost link went down.
    fn is_fresh(&self) -> bool {
        let timeout = self.rules.node_timeout;
        let age = self.moment.now / 1_000 * 1_000 - self.moment.heard_at;
        let age = if age > timeout { age - timeout } else { age };
        self.rules.validity_factor == 0 || age <= QUIET + timeout * self.rules.validity_factor
    }

    /// Schedules the vote request, and sends the replica's offset to the other replicas.
    fn plan_election(&mut self, is_manual: bool) {
        let drawn = Ms::try_from(self.moment.chance % DRAWN).unwrap_or(0);
        let rank = if is_manual { 0 } else { self.rank() };
        let delay = DELAY + drawn + RANK * Ms::try_from(rank).unwrap_or(0);
        let at = self.moment.now + if is_manual { 0 } else { delay };
        self.election = Election { at, rank, requested_in: None, votes: 0 };
        let Some(master) = self.myself().master().cloned() else { return };
        let is_other = |peer: &&ClusterNode| peer.id != self.me;
        let rivals: Vec<Id> =
            self.replicas(&master).filter(is_other).map(|peer| peer.id.clone()).collect();
        for rival in rivals {
            let rumours = self.rumours();
            self.send(&rival, MessageKind::Pong(rumours));
        }
        if is_manual {
            self.run_for_master();
        }
    }

    /// How many replicas of the same master have a larger offset.
    fn rank(&self) -> u64 {
        let Some(master) = self.myself().master() else { return 0 };
        let ahead = |peer: &&ClusterNode| peer.id != self.me && peer.offset > self.moment.offset;
        self.replicas(master).filter(ahead).count() as u64
    }

    fn request_votes(&mut self, force: bool) {
        // The new epoch is in the file before the request leaves, because `carry_out` saves first.
        self.current_epoch += 1;
        self.election.requested_in = Some(self.current_epoch);
        self.broadcast(&MessageKind::AuthRequest { force });
        self.change();
    }

    /// Takes a master's vote.
    pub fn take_vote(&mut self, head: &Header) {
        let decides = self.nodes.get(&head.id).is_some_and(ClusterNode::decides);
        if decides && self.election.requested_in.is_some_and(|epoch| head.current_epoch >= epoch) {
            self.election.votes += 1;
            self.run_for_master();
        }
    }

    /// Votes for a replica, at most once per epoch, and once per failed master in two node
    /// timeouts, and never if it knows older config epochs of the slots
    /// (`clusterSendFailoverAuthIfNeeded`).
    pub fn vote(&mut self, head: &Header, force: bool) {
        let now = self.moment.now;
        let voted = self.last_vote_epoch == self.current_epoch;
        if !self.myself().decides() || head.current_epoch < self.current_epoch || voted {
            return;
        }
        let master = self.nodes.get(&head.id).and_then(ClusterNode::master);
        let Some(master) = master.and_then(|master| self.nodes.get(master)) else { return };
        let late = self.rules.node_timeout * 2;
        if (!master.has_failed() && !force) || now - master.voted_at < late {
            return;
        }
        let newer = |peer: &ClusterNode| {
            peer.config_epoch > head.config_epoch && peer.slots.meets(&head.slots)
        };
        if self.nodes.values().any(newer) {
            return;
        }
        debug_assert_eq!(
            head.current_epoch, self.current_epoch,
            "a vote is cast in the candidate's epoch"
        );
        debug_assert_ne!(self.last_vote_epoch, self.current_epoch, "one vote an epoch");
        let id = master.id.clone();
        self.peer_mut(&id, |master| master.voted_at = now);
        self.last_vote_epoch = self.current_epoch;
        // Saved before the vote leaves: a restarted master must not vote twice in an epoch.
        self.unsaved = true;
        self.send(&head.id, MessageKind::AuthAck);
    }

    /// Makes the replica master of all its master's slots (`clusterFailoverReplaceYourMaster`).
    fn take_masters_place(&mut self) {
        let Some(master) = self.own_master().map(|master| master.id.clone()) else { return };
        self.myself_mut().part = ClusterRole::Master;
        self.actions.push(ClusterAction::Follow(None));
        let slots = self.nodes.get_mut(&master).map(|peer| std::mem::take(&mut peer.slots));
        self.myself_mut().slots = slots.unwrap_or_default();
        self.change();
        self.update_state();
        // To all nodes at once: each redirects to the new owner as soon as this arrives.
        let rumours = self.rumours();
        self.broadcast(&MessageKind::Pong(rumours));
        self.end_manual();
    }

    /// CLUSTER FAILOVER on a replica whose master is known.
    pub fn fail_over(&mut self, urgency: Urgency) {
        self.end_manual();
        self.manual.until = self.moment.now + MANUAL;
        match urgency {
            Urgency::Alone => {
                self.bump_epoch();
                self.take_masters_place();
            }
            Urgency::Forced => {
                self.manual.may_start = true;
                self.election = Election::default();
            }
            Urgency::Agreed => {
                self.election = Election::default();
                if let Some(master) = self.myself().master().cloned() {
                    self.send(&master, MessageKind::FailoverStart);
                }
            }
        }
    }

    /// Takes a new epoch for the node's slots without agreement, unless only it has the highest
    /// one; whether it did.
    pub fn bump_epoch(&mut self) -> bool {
        let own = self.myself().config_epoch;
        let highest = self.nodes.values().map(|peer| peer.config_epoch).max().unwrap_or(0);
        if own != 0 && own == highest {
            return false;
        }
        self.current_epoch += 1;
        let epoch = self.current_epoch;
        self.myself_mut().config_epoch = epoch;
        self.unsaved = true;
        true
    }

    /// At the master: pauses writes, because a replica is about to take over.
    pub fn begin_handing_over(&mut self, replica: &Id) {
        let is_own = self.nodes.get(replica).is_some_and(|peer| peer.master() == Some(&self.me));
        if !is_own {
            return;
        }
        self.end_manual();
        let until = self.moment.now + MANUAL;
        self.manual = Manual { until, replica: Some(replica.clone()), ..Manual::default() };
        // As in Redis, the pause lasts twice as long as the attempt (`CLUSTER_MF_PAUSE_MULT`).
        self.actions.push(ClusterAction::Pause(Some(until + MANUAL)));
    }

    /// Whether the node has paused writes for a replica.
    pub fn is_paused(&self) -> bool {
        self.manual.replica.is_some()
    }

    /// Whether it has paused for this one, which it then pings continuously.
    pub fn hands_over_to(&self, id: &Id) -> bool {
        self.myself().is_master() && self.manual.replica.as_ref() == Some(id)
    }

    /// At the replica: the master has paused and reports its offset.
    pub fn hear_of_pause(&mut self, head: &Header) {
        let is_master = self.myself().master() == Some(&head.id);
        if self.manual.until > 0 && is_master && head.paused && self.manual.offset.is_none() {
            self.manual.offset = Some(head.offset);
            self.run_for_master();
        }
    }

    fn start_if_caught_up(&mut self) {
        let manual = &mut self.manual;
        if manual.until > 0 && manual.offset == Some(self.moment.offset) {
            manual.may_start = true;
        }
    }

    /// Aborts a manual failover at its deadline.
    pub fn end_manual_if_late(&mut self) {
        if self.manual.until > 0 && self.manual.until < self.moment.now {
            self.end_manual();
        }
    }

    /// Ends a manual failover.
    pub fn end_manual(&mut self) {
        if self.manual.replica.is_some() {
            self.actions.push(ClusterAction::Pause(None));
        }
        self.manual = Manual::default();
    }
}
