//! The persistent state: `nodes.conf`, in the lines of CLUSTER NODES.

use std::net::SocketAddrV4;

use crate::cluster::peer::{ClusterNode, ClusterRole, Health, Id};
use crate::cluster::slots::SlotSet;
use crate::cluster::{Cluster, ClusterMoment, Member, Rules};

/// The name of the file.
pub const FILE: &str = "nodes.conf";

/// The initial file of a node in this cluster that has not run yet.
pub fn first(own: SocketAddrV4, members: &[Member]) -> String {
    let mut cluster = Cluster::new(own, Rules::default(), ClusterMoment::default());
    cluster.set_up(members);
    cluster.write_file()
}

impl Cluster {
    /// The text of the file.
    pub(crate) fn write_file(&self) -> String {
        let (epoch, vote) = (self.current_epoch, self.last_vote_epoch);
        format!("{}vars currentEpoch {epoch} lastVoteEpoch {vote}\n", self.lines())
    }

    /// Restores the state from a file. Invalid lines are ignored: the file is the node's own.
    pub(crate) fn read_file(&mut self, text: &str) {
        let own = self.myself().clone();
        self.nodes.clear();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["vars", _, epoch, _, vote] = &words[..] {
                self.current_epoch = epoch.parse().unwrap_or(0);
                self.last_vote_epoch = vote.parse().unwrap_or(0);
            } else if let Some(peer) = self.read_peer(&words) {
                if words[2].starts_with("myself") {
                    self.me = peer.id.clone();
                    self.read_moving(&words[8..]);
                }
                self.nodes.insert(peer.id.clone(), peer);
            }
        }
        self.nodes.entry(self.me.clone()).or_insert(own);
        self.size = self.nodes.values().filter(|peer| peer.decides()).count();
    }

    fn read_peer(&self, words: &[&str]) -> Option<ClusterNode> {
        let (&[id, address, flags, master, _, _, epoch, _], slots) = words.split_at_checked(8)?
        else {
            return None;
        };
        let now = self.moment.now;
        let has = |flag: &str| flags.split(',').any(|word| word == flag);
        let part = match master {
            _ if has("handshake") => return None,
            "-" => ClusterRole::Master,
            master => ClusterRole::Replica(master.into()),
        };
        let address = address.split('@').next()?.parse().ok()?;
        let mut peer = ClusterNode::new(Id::from(id), address, part, now);
        peer.config_epoch = epoch.parse().ok()?;
        let plain: Vec<&str> =
            slots.iter().filter(|word| !word.starts_with('[')).copied().collect();
        peer.slots = plain.join(" ").parse::<SlotSet>().ok()?;
        peer.health = match (has("fail"), has("fail?")) {
            (true, _) => Health::Failed(now),
            (_, true) => Health::Suspect,
            _ => Health::Up,
        };
        Some(peer)
    }

    fn read_moving(&mut self, slots: &[&str]) {
        for word in slots.iter().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']')) {
            let (text, way) = match word.split_once("->-") {
                Some(parts) => (parts, &mut self.migrating),
                None => match word.split_once("-<-") {
                    Some(parts) => (parts, &mut self.importing),
                    None => continue,
                },
            };
            if let Ok(slot) = text.0.parse() {
                way.insert(slot, text.1.into());
            }
        }
    }
}
