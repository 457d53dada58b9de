//! How the Sentinels of a plan start: like those of a deployment that has been running for long.
//!
//! Sentinels find each other and their master's replicas within seconds, and write them to their
//! files. A run is short and begins in the middle of a deployment's life, so its Sentinels know all
//! that from the start: a master that dies in the first second is failed over like any other.

use std::net::SocketAddrV4;

use lockstorm_platform::rng::{Chance, Purpose};
use lockstorm_platform::time::MILLISECOND;
use lockstorm_redis::sentinel::SentinelConfig;
use lockstorm_redis::sentinel::known::Known;

use crate::plan::Sentinels;
use crate::run::contacts::WATCHED;

/// The deployment around a Sentinel.
pub struct Surroundings<'a> {
    /// The nodes; the first is the master, the others are its replicas.
    pub nodes: &'a [SocketAddrV4],
    /// The Sentinels, `s1` first.
    pub sentinels: &'a [SocketAddrV4],
    /// The draws of the run; the ids are made of them.
    pub chance: &'a Chance,
}

impl Surroundings<'_> {
    /// What the `n`th Sentinel, counted from 1, has in its file.
    pub fn known_to(&self, n: u32) -> Known {
        let all = || (1..).zip(self.sentinels.iter().copied());
        let others = all().filter(|(nth, _)| *nth != n);
        Known {
            id: self.id(n),
            replicas: self.nodes[1..].to_vec(),
            sentinels: others.map(|(nth, at)| (self.id(nth), at)).collect(),
        }
    }

    /// The configuration of the `n`th Sentinel, counted from 1.
    pub fn config(&self, terms: &Sentinels, n: u32) -> SentinelConfig {
        SentinelConfig {
            port: self.sentinels[n as usize - 1].port(),
            master_name: WATCHED.to_owned(),
            master: self.nodes[0],
            quorum: terms.quorum,
            down_after_ms: terms.down_after / MILLISECOND,
            failover_timeout_ms: terms.failover_timeout / MILLISECOND,
            parallel_syncs: terms.parallel_syncs,
            known: Some(self.known_to(n)),
        }
    }

    /// The id of the `n`th Sentinel. Ids are drawn for the deployment and not by each process when
    /// it starts, because the other Sentinels already know them.
    fn id(&self, n: u32) -> String {
        let mut draws = self.chance.draws(Purpose::Server, &format!("s{n}"));
        let mut id: String = (0..3).map(|ordinal| format!("{:016x}", draws.at(ordinal))).collect();
        id.truncate(40);
        id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use lockstorm_platform::rng::Chance;

    use super::Surroundings;
    use crate::run::address::{node_address, sentinel_address};

    #[test]
    fn every_sentinel_knows_the_replicas_and_the_ids_of_the_others() {
        let nodes: Vec<_> = (1..=3).map(node_address).collect();
        let sentinels: Vec<_> = (1..=3).map(sentinel_address).collect();
        let chance = Chance::new(7, BTreeMap::new());
        let around = Surroundings { nodes: &nodes, sentinels: &sentinels, chance: &chance };
        let known = [1, 2, 3].map(|n| around.known_to(n));
        for (own, at) in known.iter().zip(&sentinels) {
            assert_eq!((own.id.len(), &own.replicas[..]), (40, &nodes[1..]));
            assert!(own.sentinels.iter().all(|(id, other)| id != &own.id && other != at));
            let met: BTreeSet<&String> = own.sentinels.iter().map(|(id, _)| id).collect();
            assert_eq!(met.len(), 2);
            assert!(met.iter().all(|id| known.iter().any(|other| other.id == **id)));
        }
        let other = Chance::new(8, BTreeMap::new());
        let elsewhere = Surroundings { chance: &other, ..around };
        assert_ne!(known[0].id, elsewhere.known_to(1).id, "ids are of the seed");
    }
}
