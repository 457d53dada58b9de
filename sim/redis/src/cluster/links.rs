//! Connections to the other nodes, pings, failure detection: `clusterCron`.

use std::net::SocketAddrV4;

use lockstorm_platform::time::Ms;

use bytes::Bytes;

use crate::cluster::message::{Message, MessageKind};
use crate::cluster::peer::{BusLink, ClusterNode, ClusterRole, Health, Id};
use crate::cluster::slots::SlotSet;
use crate::cluster::{BUS, Cluster, ClusterAction, ClusterMoment, name_of};

/// Ticks between pings to the node, of five, with the oldest PONG: once a second.
const PING_EACH: u64 = 10;
const MIN_HANDSHAKE: Ms = 1_000;
/// How long a forgotten node is not added again.
const FORGOTTEN_FOR: Ms = 60_000;

impl Cluster {
    /// Must be called ten times a second.
    pub fn tick(&mut self, moment: ClusterMoment) {
        self.set_moment(moment);
        self.ticks += 1;
        self.open_links();
        if self.ticks.is_multiple_of(PING_EACH) {
            self.ping_one_of_five();
        }
        self.others().iter().for_each(|id| self.look_at(id));
        self.end_manual_if_late();
        self.run_for_master();
        if !self.is_up || self.doubts {
            self.update_state();
        }
    }

    /// Updates the state of its node.
    pub fn set_moment(&mut self, moment: ClusterMoment) {
        self.moment = moment;
    }

    /// Opens missing connections. Nodes whose handshake times out are removed.
    fn open_links(&mut self) {
        let now = self.moment.now;
        let patience = self.rules.node_timeout.max(MIN_HANDSHAKE);
        for id in self.others() {
            let peer = &self.nodes[&id];
            if peer.is_stranger() && now - peer.known_since > patience {
                self.remove(&id);
            } else if peer.link.is_none() {
                self.last_line += 1;
                let link = BusLink { line: self.last_line, since: now };
                let port = peer.address.port().wrapping_add(BUS);
                let bus = SocketAddrV4::new(*peer.address.ip(), port);
                self.actions.push(ClusterAction::Open(link.line, bus));
                self.peer_mut(&id, |peer| peer.link = Some(link));
            }
        }
    }

    /// A connection was opened. A PING that was pending before stays pending.
    pub fn opened(&mut self, moment: ClusterMoment, line: u64) {
        self.set_moment(moment);
        let Some(id) = self.at(line) else { return };
        let waited_since = self.nodes[&id].pinged_at;
        self.ping(&id);
        // A reconnect must not restart the measurement of the node's silence.
        if waited_since > 0 {
            self.peer_mut(&id, |peer| peer.pinged_at = waited_since);
        }
        let stranger = |peer: &mut ClusterNode| {
            if peer.is_stranger() {
                peer.part = ClusterRole::Stranger { meets: false };
            }
        };
        self.peer_mut(&id, stranger);
    }

    /// A connection was closed, or could not be opened.
    pub fn lost(&mut self, line: u64) {
        if let Some(id) = self.at(line) {
            self.peer_mut(&id, |peer| peer.link = None);
        }
    }

    /// The node at the other end of a connection.
    pub fn at(&self, line: u64) -> Option<Id> {
        let there = |peer: &&ClusterNode| peer.link.is_some_and(|link| link.line == line);
        self.nodes.values().find(there).map(|peer| peer.id.clone())
    }

    /// Changes a node's entry, if it is known.
    pub fn peer_mut(&mut self, id: &Id, change: impl FnOnce(&mut ClusterNode)) {
        if let Some(peer) = self.nodes.get_mut(id) {
            change(peer);
        }
    }

    /// Sends a message to a node, if there is a connection to it.
    pub fn send(&mut self, to: &Id, kind: MessageKind) {
        let Some(link) = self.nodes.get(to).and_then(|peer| peer.link) else { return };
        self.counted.entry(kind.word()).or_default()[0] += 1;
        let message = Message { head: self.head(), kind };
        self.actions.push(ClusterAction::Send(link.line, message.encode()));
    }

    /// Sends a message to every known node.
    pub fn broadcast(&mut self, kind: &MessageKind) {
        for id in self.others() {
            if !self.nodes[&id].is_stranger() {
                self.send(&id, kind.clone());
            }
        }
    }

    /// Forwards what was published here: to all nodes, or to those of the own shard.
    pub fn spread(&mut self, channel: &Bytes, message: &Bytes, shard: bool) {
        let [channel, message] = [channel, message].map(|bytes| Bytes::copy_from_slice(bytes));
        let kind = MessageKind::Publish { channel, message, shard };
        if !shard {
            return self.broadcast(&kind);
        }
        let master = self.myself().master().unwrap_or(&self.me).clone();
        for id in self.others() {
            if id == master || self.nodes[&id].master() == Some(&master) {
                self.send(&id, kind.clone());
            }
        }
    }

    fn ping(&mut self, id: &Id) {
        let Some(peer) = self.nodes.get(id) else { return };
        let rumours = self.rumours();
        let meets = peer.part == ClusterRole::Stranger { meets: true };
        self.send(id, if meets { MessageKind::Meet(rumours) } else { MessageKind::Ping(rumours) });
        let now = self.moment.now;
        self.peer_mut(id, |peer| peer.pinged_at = now);
    }

    /// Pings the node with the oldest PONG, of five chosen at random.
    fn ping_one_of_five(&mut self) {
        let all: Vec<&ClusterNode> = self.nodes.values().collect();
        let pick = |nth: u32| {
            let drawn = self.moment.chance.rotate_right(nth * 12) % (all.len() as u64);
            all[usize::try_from(drawn).unwrap_or(0)]
        };
        let fits = |peer: &&ClusterNode| {
            peer.link.is_some() && peer.pinged_at == 0 && peer.id != self.me && !peer.is_stranger()
        };
        let longest = (0..5).map(pick).filter(fits).min_by_key(|peer| peer.answered_at);
        if let Some(id) = longest.map(|peer| peer.id.clone()) {
            self.ping(&id);
        }
    }

    /// Reopens a silent connection, pings a node that was silent for half the node timeout,
    /// suspects one that was silent for all of it.
    fn look_at(&mut self, id: &Id) {
        let (now, timeout) = (self.moment.now, self.rules.node_timeout);
        let Some(peer) = self.nodes.get(id).filter(|peer| !peer.is_stranger()) else { return };
        let (waited, silent) = (now - peer.pinged_at, now - peer.heard_at);
        let waits = peer.pinged_at > 0;
        if let Some(link) = peer.link {
            let is_dead = waits && waited > timeout / 2 && silent > timeout / 2;
            // The node may be alive and only this connection stuck: a new one may get through.
            if now - link.since > timeout && is_dead {
                self.actions.push(ClusterAction::Close(link.line));
                self.peer_mut(id, |peer| peer.link = None);
            } else if self.hands_over_to(id) || (!waits && now - peer.answered_at > timeout / 2) {
                return self.ping(id);
            }
        }
        let suspect = |peer: &mut ClusterNode| peer.health = Health::Suspect;
        let answers = self.nodes[id].health == Health::Up;
        if waits && waited.min(silent) > timeout && answers {
            self.peer_mut(id, suspect);
            self.doubts = true;
        }
    }

    /// Adds a node in handshake: CLUSTER MEET, or a received MEET.
    pub fn meet(&mut self, address: SocketAddrV4, meets: bool) {
        let stands_for = |peer: &ClusterNode| peer.is_stranger() && peer.address == address;
        if self.nodes.values().any(stands_for) {
            return;
        }
        let drawn = self.moment.chance.rotate_left(u32::from(address.port()) % 64);
        let id = drawn_name(address, drawn);
        let part = ClusterRole::Stranger { meets };
        self.nodes.insert(id.clone(), ClusterNode::new(id, address, part, self.moment.now));
        self.unsaved = true;
    }

    /// Removes a node, its slots and its failure reports.
    pub fn remove(&mut self, id: &Id) {
        debug_assert!(*id != self.me, "a node never removes itself");
        let Some(gone) = self.nodes.remove(id) else { return };
        if let Some(link) = gone.link {
            self.actions.push(ClusterAction::Close(link.line));
        }
        self.migrating.retain(|_, to| to != id);
        self.importing.retain(|_, from| from != id);
        for peer in self.nodes.values_mut() {
            peer.accusers.remove(id);
        }
        self.change();
    }

    /// Removes a node and does not add it again for a while: CLUSTER FORGET.
    pub fn forget(&mut self, id: &Id) {
        self.remove(id);
        self.forgotten.insert(id.clone(), self.moment.now + FORGOTTEN_FOR);
    }

    /// Whether a node must not be added.
    pub fn is_forgotten(&self, id: &Id) -> bool {
        self.forgotten.get(id).is_some_and(|until| *until > self.moment.now)
    }
}

impl Cluster {
    /// Removes all slots of the node.
    pub fn lose_slots(&mut self) {
        let me = self.me.clone();
        self.peer_mut(&me, |own: &mut ClusterNode| own.slots = SlotSet::default());
        self.unsaved = true;
    }

    /// CLUSTER RESET: becomes a master without slots or known nodes; a hard reset also takes a new
    /// id.
    pub fn start_anew(&mut self, hard: bool) {
        self.end_manual();
        for id in self.others() {
            self.remove(&id);
        }
        self.migrating.clear();
        self.importing.clear();
        let Some(mut own) = self.nodes.remove(&self.me) else { return };
        own.slots = SlotSet::default();
        own.part = ClusterRole::Master;
        if hard {
            (self.current_epoch, self.last_vote_epoch, own.config_epoch) = (0, 0, 0);
            own.id = drawn_name(own.address, self.moment.chance);
            self.me = own.id.clone();
        }
        self.nodes.insert(self.me.clone(), own);
        self.change();
        self.update_state();
    }
}

/// A random id: of a node in handshake, or after a hard reset.
pub fn drawn_name(address: SocketAddrV4, drawn: u64) -> Id {
    let own = name_of(address);
    format!("{drawn:016x}{}", &own[16..]).as_str().into()
}
