//! Redis Cluster: one node's view of the others, and its reactions.
//!
//! A value without a machine. It receives the time ([`Cluster::tick`], ten times a second) and the
//! messages of the bus ([`Cluster::take`]). It leaves requests to the outside in
//! [`Cluster::actions`], which `process/cluster` carries out. The rules are those of Redis 7.0's
//! `cluster.c`. Simplifications: messages have their own format (`message`), their gossip covers
//! some nodes in turn and not by chance, and replicas do not migrate to masters without replicas.
//!
//! - `slots`: keys to slots, sets of slots
//! - `message`: the messages between nodes, and their bytes
//! - `links`: connections to the other nodes, pings, failure detection
//! - `gossip`: the received state of other nodes: roles, slots, failures
//! - `peer`: one node, as another one knows it
//! - `election`: vote requests of a replica, and votes; `candidacy`: the state of such an attempt
//! - `view`: whether the cluster is up, and the text of CLUSTER NODES
//! - `file`: what survives the process
//!
//! CLUSTER and related commands are in `command/cluster`, redirects in `permission/redirect`, tasks
//! in `process/cluster`.

pub(crate) mod candidacy;
pub(crate) mod election;
pub mod file;
pub(crate) mod gossip;
pub(crate) mod links;
pub(crate) mod message;
pub(crate) mod peer;
pub mod slots;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use bytes::Bytes;

use lockstorm_platform::time::Ms;

use crate::cluster::candidacy::{Election, Manual};
use crate::cluster::peer::{ClusterNode, ClusterRole, Id};
use crate::cluster::slots::SlotSet;
use crate::digest::sha1_hex;
use crate::settings::Settings;

/// Distance of the bus port from the client port.
pub const BUS: u16 = 10_000;

/// The initial cluster of a node: as if the node had been in it for a long time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// All nodes, the node itself included; empty for a node that is alone.
    pub members: Vec<Member>,
    /// `cluster-node-timeout`, ms.
    pub node_timeout_ms: u64,
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        ClusterConfig { members: Vec::new(), node_timeout_ms: 15_000 }
    }
}

/// A node in the initial cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its client address; its bus port is [`BUS`] above.
    pub address: SocketAddrV4,
    /// The master that it follows.
    pub master: Option<SocketAddrV4>,
    /// The slots that it serves, if it is a master.
    pub slots: SlotSet,
}

/// The cluster settings of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// `cluster-node-timeout`.
    pub(crate) node_timeout: Ms,
    /// `cluster-replica-validity-factor`.
    pub(crate) validity_factor: Ms,
    /// `cluster-require-full-coverage`.
    pub(crate) full_coverage: bool,
    /// `cluster-allow-reads-when-down`.
    pub(crate) reads_when_down: bool,
    /// `cluster-replica-no-failover`.
    pub(crate) no_failover: bool,
}

impl Rules {
    /// The rules in these settings. Cached until CONFIG SET, because the lookup is slow.
    pub(crate) fn of(settings: &Settings) -> Rules {
        Rules {
            node_timeout: settings.number("cluster-node-timeout"),
            validity_factor: settings.number("cluster-replica-validity-factor"),
            full_coverage: settings.is_on("cluster-require-full-coverage"),
            reads_when_down: settings.is_on("cluster-allow-reads-when-down"),
            no_failover: settings.is_on("cluster-replica-no-failover"),
        }
    }
}

/// A request of the cluster to the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterAction {
    /// Open a connection to this address and give it this number.
    Open(u64, SocketAddrV4),
    /// Send bytes on a connection.
    Send(u64, Bytes),
    /// Close a connection.
    Close(u64),
    /// Follow a master, or none.
    Follow(Option<SocketAddrV4>),
    /// Delete the keys of slots that another node has taken.
    Clear(SlotSet),
    /// Pause writes until then, in Unix milliseconds, or unpause them.
    Pause(Option<Ms>),
    /// Deliver to subscribers here what was published on another node.
    Publish {
        /// The channel.
        channel: Bytes,
        /// The message.
        message: Bytes,
        /// Whether it is a shard channel.
        shard: bool,
    },
}

/// The state of its node that the cluster needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterMoment {
    /// The time.
    pub now: Ms,
    /// The node's replication offset.
    pub(crate) offset: u64,
    /// When its master was last heard over the replication link that is up, or when that link went
    /// down, in whole seconds; 0 if there never was one.
    pub(crate) heard_at: Ms,
    /// A draw for random choices.
    pub(crate) chance: u64,
}

/// The state of a cluster, as one node has it.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The id of the node itself.
    pub(crate) me: Id,
    /// All nodes, itself included.
    pub(crate) nodes: BTreeMap<Id, ClusterNode>,
    /// Slots that migrate to another master.
    pub(crate) migrating: BTreeMap<u16, Id>,
    /// Slots that are imported from another master.
    pub(crate) importing: BTreeMap<u16, Id>,
    /// The highest epoch that was seen.
    pub(crate) current_epoch: u64,
    /// The epoch in which it last voted.
    pub(crate) last_vote_epoch: u64,
    /// Whether the cluster is up.
    pub(crate) is_up: bool,
    /// How many masters serve slots.
    pub(crate) size: usize,
    /// The rules in the settings.
    pub(crate) rules: Rules,
    /// Messages by type: sent, received.
    pub(crate) counted: BTreeMap<&'static str, [u64; 2]>,
    /// Whether the file is older than the state.
    pub(crate) unsaved: bool,
    /// Pending actions, in order.
    pub(crate) actions: Vec<ClusterAction>,
    /// Masters that have failed, until they are recorded.
    pub(crate) failed: Vec<SocketAddrV4>,
    /// The last state of its node.
    pub moment: ClusterMoment,
    /// Whether [`Cluster::is_up`] must be recomputed.
    doubts: bool,
    started_at: Ms,
    /// When it last found itself in a minority of masters.
    in_minority_at: Ms,
    ticks: u64,
    election: Election,
    manual: Manual,
    /// Nodes that must not be added again, and until when: CLUSTER FORGET.
    forgotten: BTreeMap<Id, Ms>,
    last_line: u64,
}

impl Cluster {
    /// A node that is alone, at this address.
    pub(crate) fn new(address: SocketAddrV4, rules: Rules, moment: ClusterMoment) -> Cluster {
        let me = name_of(address);
        let own = ClusterNode::new(me.clone(), address, ClusterRole::Master, moment.now);
        Cluster {
            nodes: [(me.clone(), own)].into(),
            me,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            current_epoch: 0,
            last_vote_epoch: 0,
            is_up: false,
            size: 1,
            rules,
            counted: BTreeMap::new(),
            unsaved: false,
            actions: Vec::new(),
            failed: Vec::new(),
            moment,
            doubts: true,
            started_at: moment.now,
            in_minority_at: 0,
            ticks: 0,
            election: Election::default(),
            manual: Manual::default(),
            forgotten: BTreeMap::new(),
            last_line: 0,
        }
    }

    /// Adds all initial nodes, and marks the cluster as up.
    pub(crate) fn set_up(&mut self, members: &[Member]) {
        let now = self.moment.now;
        for (epoch, member) in (1..).zip(members) {
            let id = name_of(member.address);
            let part =
                member.master.map_or(ClusterRole::Master, |m| ClusterRole::Replica(name_of(m)));
            let known = |part| ClusterNode::new(id.clone(), member.address, part, now);
            let peer = self.nodes.entry(id.clone()).or_insert_with(|| known(part.clone()));
            peer.part = part;
            peer.slots = member.slots.clone();
            peer.answered_at = now;
            peer.heard_at = now;
            // Each master has an epoch of its own: of two claims to a slot the higher one wins.
            if peer.decides() {
                peer.config_epoch = epoch;
                self.current_epoch = self.current_epoch.max(epoch);
            }
        }
        self.size = self.nodes.values().filter(|peer| peer.decides()).count().max(1);
        self.is_up = !members.is_empty();
        self.unsaved = true;
    }

    /// The node itself.
    pub(crate) fn myself(&self) -> &ClusterNode {
        &self.nodes[&self.me]
    }

    fn myself_mut(&mut self) -> &mut ClusterNode {
        self.nodes.get_mut(&self.me).expect("a node knows itself")
    }

    /// The master that the node follows, if it is a replica.
    pub(crate) fn own_master(&self) -> Option<&ClusterNode> {
        self.nodes.get(self.myself().master()?)
    }

    /// The node that serves a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&ClusterNode> {
        let own = self.myself();
        // Its own claim comes first: another node may still be listed with a slot that it has lost.
        if own.slots.contains(slot) {
            return Some(own);
        }
        self.nodes.values().find(|peer| peer.slots.contains(slot))
    }

    /// The replicas of a node.
    pub(crate) fn replicas<'a>(&'a self, master: &'a Id) -> impl Iterator<Item = &'a ClusterNode> {
        self.nodes.values().filter(move |peer| peer.master() == Some(master))
    }

    /// The ids of all other nodes.
    fn others(&self) -> Vec<Id> {
        self.nodes.keys().filter(|id| **id != self.me).cloned().collect()
    }

    /// How many masters are a majority.
    pub(crate) fn majority(&self) -> usize {
        self.size / 2 + 1
    }

    /// Makes the node follow another one (`clusterSetMaster`).
    pub(crate) fn follow(&mut self, master: &Id) {
        debug_assert!(*master != self.me, "a node never follows itself");
        if self.myself().is_master() {
            // A replica serves no slots, so it has none to migrate.
            self.migrating.clear();
            self.importing.clear();
        }
        self.myself_mut().part = ClusterRole::Replica(master.clone());
        self.actions.push(ClusterAction::Follow(self.nodes.get(master).map(|peer| peer.address)));
        self.end_manual();
        self.change();
    }

    /// Assigns a slot to a node, whatever its previous owner.
    pub(crate) fn assign(&mut self, slot: u16, to: Option<&Id>) {
        // Of all nodes: a view that is behind may list two owners.
        for peer in self.nodes.values_mut().filter(|peer| peer.slots.contains(slot)) {
            peer.slots.remove(slot);
        }
        if let Some(peer) = to.and_then(|id| self.nodes.get_mut(id)) {
            peer.slots.insert(slot);
        }
        self.change();
    }

    /// Whether there are pending actions or an unsaved file.
    pub(crate) fn wants_something(&self) -> bool {
        self.unsaved || !self.actions.is_empty()
    }

    /// Marks a change that must be saved and that may affect whether the cluster is up.
    fn change(&mut self) {
        self.unsaved = true;
        self.doubts = true;
    }
}

/// The id of the initial node at this address: derived without chance, so that all initial nodes
/// know it.
pub(crate) fn name_of(address: SocketAddrV4) -> Id {
    String::from_utf8_lossy(&sha1_hex(address.to_string().as_bytes())).as_ref().into()
}
