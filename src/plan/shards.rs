//! The masters of a cluster: who has which slots, and who follows whom.

use lockstorm_platform::time::{Nanos, SECOND};
use lockstorm_redis::cluster::slots::SLOTS;
use serde::{Deserialize, Serialize};

/// The slots of a cluster: each master has an equal share, and all nodes know the shares from the
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shards {
    /// The number of masters: `n1` has the first slots.
    pub masters: u32,
    /// The time without a reply after which a node is suspected: `cluster-node-timeout`, ns.
    pub node_timeout: Nanos,
}

impl Shards {
    /// The default of `cluster-node-timeout`.
    pub const NODE_TIMEOUT: Nanos = 15 * SECOND;

    /// See [`Topology::master_of`].
    pub fn master_of(&self, nth: u32) -> Option<u32> {
        in_turn(nth, self.masters)
    }

    /// The first and the last slot of the nth node, which must be a master.
    pub fn slots_of(&self, nth: u32) -> (u16, u16) {
        let from = |nth: u32| u32::from(SLOTS) * nth / self.masters;
        let slot = |slot: u32| u16::try_from(slot).unwrap_or(SLOTS - 1);
        (slot(from(nth - 1)), slot(from(nth) - 1))
    }
}

/// The master of the nth node, if replicas come after all masters and follow them in turn.
pub fn in_turn(nth: u32, masters: u32) -> Option<u32> {
    (nth > masters).then(|| (nth - 1) % masters.max(1) + 1)
}

#[cfg(test)]
mod tests {
    use super::Shards;

    #[test]
    fn masters_share_the_slots_evenly_and_replicas_follow_them_in_turn() {
        let shards = Shards { masters: 3, node_timeout: Shards::NODE_TIMEOUT };
        let slots = [1, 2, 3].map(|nth| shards.slots_of(nth));
        assert_eq!(slots, [(0, 5460), (5461, 10921), (10922, 16383)]);
        let masters = [1, 3, 4, 5, 6, 7, 9].map(|nth| shards.master_of(nth));
        assert_eq!(masters, [None, None, Some(1), Some(2), Some(3), Some(1), Some(3)]);
        let one = Shards { masters: 1, ..shards };
        assert_eq!((one.slots_of(1), one.master_of(2)), ((0, 16383), Some(1)));
    }
}
