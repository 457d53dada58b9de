//! Received state of other nodes: their ids, their slots, and the nodes that they report as
//! failing.
//!
//! `clusterProcessPacket`: the higher config epoch wins a slot; a majority of the masters that
//! serve slots decides about a failure.

use lockstorm_platform::time::Ms;

use bytes::Bytes;

use crate::cluster::message::{Header, Message, MessageKind, Rumour};
use crate::cluster::peer::{ClusterNode, ClusterRole, Health, Id};
use crate::cluster::slots::SlotSet;
use crate::cluster::{Cluster, ClusterAction, ClusterMoment};

/// A failure report is valid for this many node timeouts.
const ACCUSATION_LASTS: Ms = 2;
/// After this many node timeouts a failed master with slots that replies again is accepted, if no
/// replica has taken its slots.
const PARDON_AFTER: Ms = 2;
/// Maximum clock difference between nodes for times in gossip.
const CLOCKS: Ms = 500;

impl Cluster {
    /// Processes a message; `line` is this node's own connection, if the message came on one. The
    /// returned reply goes back on the same connection.
    pub fn take(
        &mut self,
        moment: ClusterMoment,
        line: Option<u64>,
        message: &Message,
    ) -> Option<Bytes> {
        self.set_moment(moment);
        self.counted.entry(message.kind.word()).or_default()[1] += 1;
        let answer = self.hear(line, message);
        if self.doubts {
            self.update_state();
        }
        answer
    }

    fn hear(&mut self, line: Option<u64>, message: &Message) -> Option<Bytes> {
        let Message { head, kind } = message;
        let is_known = self.nodes.get(&head.id).is_some_and(|peer| !peer.is_stranger());
        // Before the message itself is processed: votes compare with the highest epoch seen.
        if is_known {
            self.hear_head(head);
        }
        match kind {
            MessageKind::Ping(rumours) | MessageKind::Meet(rumours) => {
                if !is_known && matches!(kind, MessageKind::Meet(_)) {
                    self.meet(head.address, false);
                }
                // As in Redis, the reply states what this node knew before it processes the
                // message.
                let pong = Message { head: self.head(), kind: MessageKind::Pong(self.rumours()) };
                self.counted.entry(pong.kind.word()).or_default()[0] += 1;
                if is_known {
                    self.hear_of_itself(head, rumours);
                }
                return Some(pong.encode());
            }
            MessageKind::Pong(rumours) => {
                let is_right = line.is_none_or(|line| self.hear_pong(line, head, is_known));
                if is_known && is_right {
                    self.hear_of_itself(head, rumours);
                }
            }
            _ if !is_known => {}
            MessageKind::Fail(id) => self.fail(id),
            MessageKind::AuthRequest { force } => self.vote(head, *force),
            MessageKind::AuthAck => self.take_vote(head),
            MessageKind::Update { id, epoch, slots } => self.take_update(id, *epoch, slots),
            MessageKind::FailoverStart => self.begin_handing_over(&head.id),
            MessageKind::Publish { channel, message, shard } => {
                let (channel, message, shard) = (channel.clone(), message.clone(), *shard);
                self.actions.push(ClusterAction::Publish { channel, message, shard });
            }
        }
        None
    }

    fn hear_head(&mut self, head: &Header) {
        let now = self.moment.now;
        self.current_epoch = self.current_epoch.max(head.current_epoch);
        let Some(peer) = self.nodes.get_mut(&head.id) else { return };
        peer.heard_at = now;
        peer.offset = head.offset;
        if head.config_epoch > peer.config_epoch {
            peer.config_epoch = head.config_epoch;
            self.unsaved = true;
        }
        self.hear_of_pause(head);
    }

    /// Processes a PONG on an own connection: the sender's identity and liveness. False if the
    /// sender is not the expected node.
    fn hear_pong(&mut self, line: u64, head: &Header, is_known: bool) -> bool {
        let Some(id) = self.at(line) else { return true };
        if self.nodes[&id].is_stranger() {
            if is_known {
                self.remove(&id);
                return false;
            }
            self.introduce(&id, head);
        } else if id != head.id {
            self.remove(&id);
            return false;
        }
        let now = self.moment.now;
        let Some(peer) = self.nodes.get_mut(&head.id) else { return false };
        peer.answered_at = now;
        peer.heard_at = now;
        peer.pinged_at = 0;
        match peer.health {
            Health::Up => {}
            Health::Suspect => {
                peer.health = Health::Up;
                self.change();
            }
            Health::Failed(since) => self.pardon(&head.id, since),
        }
        true
    }

    /// Replaces a provisional id at the end of a handshake.
    fn introduce(&mut self, id: &Id, head: &Header) {
        let Some(mut peer) = self.nodes.remove(id) else { return };
        peer.id = head.id.clone();
        peer.part = head.master.clone().map_or(ClusterRole::Master, ClusterRole::Replica);
        self.nodes.insert(peer.id.clone(), peer);
        self.change();
    }

    /// Accepts a failed node that replies again: `clearNodeFailureIfNeeded`.
    fn pardon(&mut self, id: &Id, since: Ms) {
        let late = self.moment.now - since > self.rules.node_timeout * PARDON_AFTER;
        let Some(peer) = self.nodes.get_mut(id) else { return };
        if !peer.decides() || late {
            peer.health = Health::Up;
            self.change();
        }
    }

    /// Takes a sender's own state from a PING or PONG: its role, its slots, its gossip.
    fn hear_of_itself(&mut self, head: &Header, rumours: &[Rumour]) {
        self.hear_of_role(head);
        self.hear_of_slots(head);
        self.part_epochs(head);
        let decides = self.nodes.get(&head.id).is_some_and(ClusterNode::is_master);
        rumours.iter().for_each(|rumour| self.hear_rumour(head, decides, rumour));
    }

    fn hear_of_role(&mut self, head: &Header) {
        let Some(peer) = self.nodes.get_mut(&head.id) else { return };
        let part = head.master.clone().map_or(ClusterRole::Master, ClusterRole::Replica);
        if peer.address != head.address || peer.part != part {
            // A replica serves no slots: those in its messages are its master's.
            if part != ClusterRole::Master {
                peer.slots = SlotSet::default();
            }
            peer.address = head.address;
            peer.part = part;
            self.change();
        }
    }

    /// Takes over slots that a master claims with a higher epoch, and sends an update to a node
    /// that claims slots which have a new owner.
    fn hear_of_slots(&mut self, head: &Header) {
        let claimant = head.master.as_ref().unwrap_or(&head.id);
        if self.nodes.get(claimant).is_none_or(|peer| peer.slots == head.slots) {
            return;
        }
        if head.master.is_none() {
            self.take_slots(&head.id, head.config_epoch, &head.slots);
        }
        let newer = |peer: &&ClusterNode| {
            let is_other = peer.id != head.id;
            is_other && peer.config_epoch > head.config_epoch && peer.slots.meets(&head.slots)
        };
        let right = self.nodes.values().find(newer);
        if let Some(right) = right {
            let (id, epoch, slots) = (right.id.clone(), right.config_epoch, right.slots.clone());
            self.send(&head.id, MessageKind::Update { id, epoch, slots });
        }
    }

    /// `clusterUpdateSlotsConfigWith`. A node that loses the last slots of its own, or of its
    /// master, becomes a replica of the new owner.
    pub fn take_slots(&mut self, by: &Id, epoch: u64, slots: &SlotSet) {
        if *by == self.me {
            return;
        }
        let own = self.own_master().map_or(&self.me, |master| &master.id).clone();
        let keep = |peer: &&ClusterNode| peer.id == *by || peer.config_epoch >= epoch;
        let kept = self.nodes.values().filter(keep).map(|peer| &peer.slots);
        let mut taken = kept.fold(slots.clone(), |taken, kept| taken.without(kept));
        // A slot under import changes its owner only by SETSLOT.
        self.importing.keys().for_each(|slot| taken.remove(*slot));
        if taken.is_empty() {
            return;
        }
        // Computed before the slots move.
        let lost = self.myself().slots.common(&taken);
        let was_own = self.nodes[&own].slots.meets(&taken);
        for peer in self.nodes.values_mut() {
            let is_taker = peer.id == *by;
            peer.slots =
                if is_taker { peer.slots.with(&taken) } else { peer.slots.without(&taken) };
        }
        self.change();
        if was_own && self.nodes[&own].slots.is_empty() {
            self.follow(by);
        } else if !lost.is_empty() {
            self.actions.push(ClusterAction::Clear(lost));
        }
    }

    fn take_update(&mut self, id: &Id, epoch: u64, slots: &SlotSet) {
        let Some(peer) = self.nodes.get_mut(id).filter(|peer| peer.config_epoch < epoch) else {
            return;
        };
        if peer.master().is_some() {
            peer.part = ClusterRole::Master;
        }
        peer.config_epoch = epoch;
        self.take_slots(id, epoch, slots);
        self.unsaved = true;
    }

    /// Two masters with one epoch: the one with the smaller id takes a new one.
    fn part_epochs(&mut self, head: &Header) {
        let own = self.myself();
        let both = own.is_master() && head.master.is_none();
        if !both || head.config_epoch != own.config_epoch || head.id <= self.me {
            return;
        }
        self.current_epoch += 1;
        let epoch = self.current_epoch;
        self.myself_mut().config_epoch = epoch;
        self.unsaved = true;
    }

    fn hear_rumour(&mut self, head: &Header, decides: bool, rumour: &Rumour) {
        if rumour.id == self.me {
            return;
        }
        let now = self.moment.now;
        let Some(peer) = self.nodes.get_mut(&rumour.id) else {
            if !self.is_forgotten(&rumour.id) {
                let Rumour { id, address, part, .. } = rumour;
                let peer = ClusterNode::new(id.clone(), *address, part.clone(), now);
                self.nodes.insert(id.clone(), peer);
                self.unsaved = true;
            }
            return;
        };
        match (decides, rumour.fails) {
            (true, true) => {
                peer.accusers.insert(head.id.clone(), now);
                self.judge(&rumour.id);
            }
            (true, false) => {
                peer.accusers.remove(&head.id);
            }
            (false, _) => {}
        }
        let quiet = self.accusers(&rumour.id) == 0;
        let Some(peer) = self.nodes.get_mut(&rumour.id) else { return };
        let calm = quiet && peer.health == Health::Up && peer.pinged_at == 0;
        let at = rumour.answered_at;
        if !rumour.fails && calm && at <= now + CLOCKS && at > peer.answered_at {
            peer.answered_at = at;
        }
    }

    /// How many masters have recently reported a node as failing.
    pub fn accusers(&mut self, id: &Id) -> usize {
        let since = self.moment.now - self.rules.node_timeout * ACCUSATION_LASTS;
        let Some(peer) = self.nodes.get_mut(id) else { return 0 };
        peer.accusers.retain(|_, at| *at >= since);
        peer.accusers.len()
    }

    /// If a majority of the masters reports as failing a node that this one suspects, marks it as
    /// failed and broadcasts that (`markNodeAsFailingIfNeeded`).
    fn judge(&mut self, id: &Id) {
        let says = usize::from(self.myself().is_master());
        let suspects = self.nodes.get(id).is_some_and(|peer| peer.health == Health::Suspect);
        if suspects && self.accusers(id) + says >= self.majority() {
            self.fail(id);
            self.broadcast(&MessageKind::Fail(id.clone()));
        }
    }

    fn fail(&mut self, id: &Id) {
        let now = self.moment.now;
        let others = self.nodes.get_mut(id).filter(|peer| peer.id != self.me);
        if let Some(peer) = others.filter(|peer| !peer.has_failed()) {
            peer.health = Health::Failed(now);
            if peer.is_master() {
                self.failed.push(peer.address);
            }
            self.change();
        }
    }
}
