//! The part of a node that only a cluster node has.

use std::net::SocketAddrV4;

use lockstorm_platform::trace::KeyChange;

use crate::cluster::slots::{SlotSet, of_key};
use crate::cluster::{Cluster, ClusterMoment, Rules};
use crate::keyspace::Key;
use crate::node::Node;
use crate::settings;
use lockstorm_platform::time::Ms;

impl Node {
    /// Joins the node, which serves at `own`, to the cluster of its configuration, or to that of
    /// its file.
    pub fn begin_cluster(&mut self, own: SocketAddrV4, file: &str) {
        let Some(config) = self.config.cluster.clone() else { return };
        let settings = [
            ("cluster-enabled", "yes".to_owned()),
            ("cluster-node-timeout", config.node_timeout_ms.to_string()),
        ];
        for (name, value) in settings {
            if let Some(parameter) = settings::find(name.as_bytes()) {
                self.settings.set(parameter, value);
            }
        }
        let moment = self.cluster_moment();
        let mut cluster = Cluster::new(own, Rules::of(&self.settings), moment);
        match file {
            "" => cluster.set_up(&config.members),
            file => cluster.read_file(file),
        }
        // The cluster decides the role, whatever the configuration contains.
        self.peers.master = cluster.own_master().map(|master| master.address);
        self.cluster = Some(Box::new(cluster));
    }

    /// The node's cluster state, after it received the node's own state.
    pub fn cluster_now(&mut self) -> Option<&mut Cluster> {
        self.cluster.as_ref()?;
        let moment = self.cluster_moment();
        let cluster = self.cluster.as_mut()?;
        cluster.set_moment(moment);
        Some(cluster)
    }

    fn cluster_moment(&mut self) -> ClusterMoment {
        let ms = |ms: u64| Ms::try_from(ms).unwrap_or(Ms::MAX / 4);
        let down_since_s = self.peers.link.down_since_s.unwrap_or(0);
        let heard_s = if self.peers.is_linked() { self.peers.link.heard_s } else { down_since_s };
        ClusterMoment {
            now: ms(self.clock.now_ms),
            offset: self.history.offset,
            heard_at: ms(heard_s.saturating_mul(1_000)),
            chance: self.dice.draw(usize::MAX) as u64,
        }
    }

    /// Deletes the keys of slots that another node has taken. A master does so and propagates the
    /// deletions.
    pub fn clear_slots(&mut self, slots: &SlotSet) {
        let keys = self.keyspace.db(0).iter().map(|(key, _)| Key::clone(key));
        let gone: Vec<Key> = keys.filter(|key| slots.contains(of_key(key))).collect();
        for key in gone {
            self.drop_key(0, &key, KeyChange::Deleted, true);
        }
    }
}
