//! Whether the cluster is up, and the text of CLUSTER NODES and INFO.

use std::fmt::Write;

use lockstorm_platform::time::Ms;

use crate::cluster::peer::{ClusterNode, ClusterRole, Health};
use crate::cluster::slots::SLOTS;
use crate::cluster::{BUS, Cluster};

/// A master that has just started serves no requests for this long, so that it can learn meanwhile
/// that its slots have a new owner.
const WRITABLE_DELAY: Ms = 2_000;
/// A master that returns from a minority waits for one node timeout, within these bounds.
const REJOIN: (Ms, Ms) = (500, 5_000);

impl Cluster {
    /// Recomputes whether the cluster is up: every slot is served by a node that has not failed,
    /// and this node reaches a majority of the masters (`clusterUpdateState`).
    pub fn update_state(&mut self) {
        let now = self.moment.now;
        let is_master = self.myself().is_master();
        self.doubts = false;
        if is_master && !self.is_up && now - self.started_at < WRITABLE_DELAY {
            self.doubts = true;
            return;
        }
        let deciding = || self.nodes.values().filter(|peer| peer.decides());
        let reached = deciding().filter(|peer| peer.health == Health::Up).count();
        let served: usize =
            self.nodes.values().filter(|p| !p.has_failed()).map(|p| p.slots.len()).sum();
        // Before `majority`, which is computed from it.
        self.size = deciding().count();
        let has_majority = reached >= self.majority();
        if !has_majority {
            self.in_minority_at = now;
        }
        let covers = !self.rules.full_coverage || served == usize::from(SLOTS);
        let is_up = has_majority && covers;
        let rejoin = self.rules.node_timeout.clamp(REJOIN.0, REJOIN.1);
        let waits = is_up && is_master && now - self.in_minority_at < rejoin;
        if is_up != self.is_up && !waits {
            self.is_up = is_up;
        }
    }

    /// The line of CLUSTER NODES for a node, without its end.
    pub fn line(&self, peer: &ClusterNode) -> String {
        let ClusterNode { id, address, pinged_at, answered_at, .. } = peer;
        let speaks_of = peer.master().and_then(|master| self.nodes.get(master));
        let master = speaks_of.map_or("-", |master| &master.id);
        let epoch = speaks_of.unwrap_or(peer).config_epoch;
        let is_linked = peer.link.is_some() || *id == self.me;
        let link = if is_linked { "connected" } else { "disconnected" };
        let bus = address.port().wrapping_add(BUS);
        let mut line = format!(
            "{id} {address}@{bus} {} {master} {pinged_at} {answered_at} {epoch} {link}",
            self.flags(peer)
        );
        if !peer.slots.is_empty() {
            let _ = write!(line, " {}", peer.slots);
        }
        if *id == self.me {
            let moving = |(slot, to)| format!(" [{slot}->-{to}]");
            line.extend(self.migrating.iter().map(moving));
            let coming = |(slot, from)| format!(" [{slot}-<-{from}]");
            line.extend(self.importing.iter().map(coming));
        }
        line
    }

    fn flags(&self, peer: &ClusterNode) -> String {
        let myself = (peer.id == self.me).then_some("myself");
        let part = match &peer.part {
            ClusterRole::Stranger { .. } => "handshake",
            ClusterRole::Master => "master",
            ClusterRole::Replica(_) => "slave",
        };
        let health = match peer.health {
            Health::Up => None,
            Health::Suspect => Some("fail?"),
            Health::Failed(_) => Some("fail"),
        };
        let words: Vec<&str> = myself.into_iter().chain([part]).chain(health).collect();
        words.join(",")
    }

    /// CLUSTER NODES.
    pub fn lines(&self) -> String {
        self.nodes.values().map(|peer| self.line(peer) + "\n").collect()
    }

    /// CLUSTER INFO.
    pub fn info(&self) -> String {
        let slots = |fits: fn(&Health) -> bool| -> usize {
            let peers = self.nodes.values().filter(|peer| fits(&peer.health));
            peers.map(|peer| peer.slots.len()).sum()
        };
        let state = if self.is_up { "ok" } else { "fail" };
        let speaks_of = self.own_master().unwrap_or(self.myself());
        let mut text = format!(
            "cluster_state:{state}\r\ncluster_slots_assigned:{}\r\ncluster_slots_ok:{}\r\n\
             cluster_slots_pfail:{}\r\ncluster_slots_fail:{}\r\ncluster_known_nodes:{}\r\n\
             cluster_size:{}\r\ncluster_current_epoch:{}\r\ncluster_my_epoch:{}\r\n",
            slots(|_| true),
            slots(|health| *health == Health::Up),
            slots(|health| *health == Health::Suspect),
            slots(|health| matches!(health, Health::Failed(_))),
            self.nodes.len(),
            self.size,
            self.current_epoch,
            speaks_of.config_epoch,
        );
        for (nth, way) in ["sent", "received"].into_iter().enumerate() {
            let mut sum = 0;
            for kind in KINDS {
                let count = self.counted.get(kind).map_or(0, |counts| counts[nth]);
                sum += count;
                if count > 0 {
                    let _ = write!(text, "cluster_stats_messages_{kind}_{way}:{count}\r\n");
                }
            }
            let _ = write!(text, "cluster_stats_messages_{way}:{sum}\r\n");
        }
        text.push_str("total_cluster_links_buffer_limit_exceeded:0\r\n");
        text
    }
}

/// Types of messages in the order of CLUSTER INFO.
const KINDS: [&str; 10] = [
    "ping",
    "pong",
    "meet",
    "fail",
    "publish",
    "auth-req",
    "auth-ack",
    "update",
    "mfstart",
    "publishshard",
];
