//! Random faults on clusters: nodes are cut off, return, restart, take over by command. Invariants
//! are checked all the time; after the faults all nodes have to agree.

use std::collections::BTreeMap;

use lockstorm_platform::time::Ms;

use crate::cluster::Cluster;
use crate::cluster::election::Urgency;
use crate::cluster::peer::Id;
use crate::cluster::slots::SLOTS;
use crate::cluster::stage::{RULES, Stage, address};

const ROUNDS: usize = 30;
/// Maximum time until a cluster agrees again.
const CALM: Ms = 60_000;

/// Random numbers: SplitMix64.
struct StormDice(u64);

impl StormDice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).expect("below the bound")
    }
}

/// Applies the next random fault or command.
fn strike(stage: &mut Stage, dice: &mut StormDice) {
    let n = dice.below(stage.nodes.len());
    match dice.below(8) {
        0..=2 => drop(stage.cut.insert(n)),
        3..=5 => drop(stage.cut.remove(&n)),
        6 => start_anew(stage, n),
        _ if stage.is_master(n) => {}
        _ => {
            let urgency = [Urgency::Agreed, Urgency::Forced][dice.below(2)];
            stage.nodes[n].fail_over(urgency);
            stage.settle(n);
        }
    }
}

/// Restarts the process of a node with the contents of its file.
fn start_anew(stage: &mut Stage, n: usize) {
    let text = stage.nodes[n].write_file();
    let mut node = Cluster::new(address(n), RULES, stage.moment(n));
    node.read_file(&text);
    stage.nodes[n] = node;
    stage.lines[n].clear();
}

/// Two masters that serve slots with one epoch could never settle a conflict; a revoked vote could
/// make two such masters.
fn nothing_impossible(stage: &Stage, votes: &mut [u64], seed: u64) {
    let mut epochs: BTreeMap<u64, &Id> = BTreeMap::new();
    for (n, node) in stage.nodes.iter().enumerate() {
        let own = node.myself();
        assert!(node.last_vote_epoch >= votes[n], "seed {seed}: {n} forgot a vote");
        votes[n] = node.last_vote_epoch;
        assert!(node.current_epoch >= own.config_epoch, "seed {seed}: {n} has an epoch of its own");
        if own.decides() {
            let other = epochs.insert(own.config_epoch, &own.id);
            assert_eq!(other, None, "seed {seed}: two masters of epoch {}", own.config_epoch);
        }
        let served: usize = node.nodes.values().map(|peer| peer.slots.len()).sum();
        assert!(served <= usize::from(SLOTS), "seed {seed}: {n} knows two owners of a slot");
    }
}

/// The owners of all slots, as a node sees them.
fn view(node: &Cluster) -> Vec<(Id, String, u64)> {
    let masters = node.nodes.values().filter(|peer| peer.decides());
    masters.map(|peer| (peer.id.clone(), peer.slots.to_string(), peer.config_epoch)).collect()
}

#[test]
fn no_storm_makes_two_masters_of_one_epoch_and_all_agree_behind_it() {
    for seed in 1..=30 {
        let mut dice = StormDice(seed);
        let mut stage = Stage::new(&[0, 1, 2, 1]);
        let mut votes = vec![0; stage.nodes.len()];
        for _ in 0..ROUNDS {
            strike(&mut stage, &mut dice);
            for _ in 0..=dice.below(25) {
                stage.pass(100);
                nothing_impossible(&stage, &mut votes, seed);
            }
        }
        stage.cut.clear();
        stage.pass(CALM);
        nothing_impossible(&stage, &mut votes, seed);
        for (n, node) in stage.nodes.iter().enumerate() {
            assert!(node.is_up, "seed {seed}: {n} is down");
            assert_eq!(view(node), view(&stage.nodes[0]), "seed {seed}: {n} sees it otherwise");
        }
    }
}
