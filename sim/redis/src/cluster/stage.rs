//! Test bench: nodes that exchange messages without a network. A message arrives when it is sent,
//! unless the link is cut.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use lockstorm_platform::time::Ms;

use bytes::{Bytes, BytesMut};

use crate::cluster::message::Message;
use crate::cluster::peer::ClusterNode;
use crate::cluster::slots::SlotSet;
use crate::cluster::{BUS, Cluster, ClusterAction, ClusterMoment, Member, Rules, name_of};
use crate::frame::request::RequestReader;

/// `cluster-node-timeout` of the tests.
pub(crate) const TIMEOUT: Ms = 2_000;
/// The settings of all nodes.
pub(crate) const RULES: Rules = Rules {
    node_timeout: TIMEOUT,
    validity_factor: 10,
    full_coverage: true,
    reads_when_down: false,
    no_failover: false,
};

/// The client address of the nth node.
pub(crate) fn address(n: usize) -> SocketAddrV4 {
    let last = u8::try_from(n + 1).expect("few nodes");
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), 6379)
}

/// Three masters 0, 1, 2 and the given replicas, by their masters' numbers.
pub(crate) struct Stage {
    pub(crate) now: Ms,
    pub(crate) nodes: Vec<Cluster>,
    /// Each node's replication offset, and since when its replication link is silent, if it is.
    pub(crate) streams: Vec<(u64, Option<Ms>)>,
    /// Nodes that are cut off from all others.
    pub(crate) cut: BTreeSet<usize>,
    /// The node at the end of each node's connections.
    pub(crate) lines: Vec<Vec<(u64, usize)>>,
    /// Actions for each node itself.
    pub(crate) deeds: Vec<Vec<ClusterAction>>,
}

fn members(replicas: &[usize]) -> Vec<Member> {
    let ranges = [(0, 5460), (5461, 10921), (10922, 16383)];
    let masters = (0..3).map(|n| Member {
        address: address(n),
        master: None,
        slots: SlotSet::range(ranges[n]),
    });
    let follows = |(n, master): (usize, &usize)| Member {
        address: address(3 + n),
        master: Some(address(*master)),
        slots: SlotSet::default(),
    };
    masters.chain(replicas.iter().enumerate().map(follows)).collect()
}

impl Stage {
    pub(crate) fn new(replicas: &[usize]) -> Stage {
        let members = members(replicas);
        let count = members.len();
        let moment = ClusterMoment { now: 1_000_000, offset: 100, heard_at: 1_000_000, chance: 7 };
        let node = |n: usize| {
            let mut cluster = Cluster::new(address(n), RULES, moment);
            cluster.set_up(&members);
            cluster
        };
        let mut stage = Stage {
            now: moment.now,
            nodes: (0..count).map(node).collect(),
            streams: vec![(100, None); count],
            cut: BTreeSet::new(),
            lines: vec![Vec::new(); count],
            deeds: vec![Vec::new(); count],
        };
        stage.pass(1_000);
        stage
    }

    pub(crate) fn moment(&self, n: usize) -> ClusterMoment {
        let (offset, silent_since) = self.streams[n];
        let chance =
            (self.now as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(n as u32 * 9);
        ClusterMoment { now: self.now, offset, heard_at: silent_since.unwrap_or(self.now), chance }
    }

    fn is_open(&self, one: usize, other: usize) -> bool {
        !self.cut.contains(&one) && !self.cut.contains(&other)
    }

    /// Advances time tick by tick.
    pub(crate) fn pass(&mut self, ms: Ms) {
        for _ in 0..ms / 100 {
            self.now += 100;
            for n in 0..self.nodes.len() {
                let moment = self.moment(n);
                self.nodes[n].tick(moment);
                self.settle(n);
            }
        }
    }

    /// Advances time until the condition holds; returns how long that took.
    pub(crate) fn until(&mut self, is_so: impl Fn(&Stage) -> bool) -> Ms {
        let begun = self.now;
        while !is_so(self) {
            self.pass(100);
            assert!(self.now - begun < 120_000, "it never comes to that");
        }
        self.now - begun
    }

    /// Carries out a node's pending actions, and their consequences.
    pub(crate) fn settle(&mut self, n: usize) {
        for action in std::mem::take(&mut self.nodes[n].actions) {
            match action {
                ClusterAction::Open(line, to) => {
                    let there = (0..self.nodes.len()).find(|other| {
                        let bus = address(*other);
                        to == SocketAddrV4::new(*bus.ip(), bus.port() + BUS)
                    });
                    match there.filter(|there| self.is_open(n, *there)) {
                        None => self.nodes[n].lost(line),
                        Some(there) => {
                            self.lines[n].push((line, there));
                            let moment = self.moment(n);
                            self.nodes[n].opened(moment, line);
                            self.settle(n);
                        }
                    }
                }
                ClusterAction::Close(line) => self.lines[n].retain(|(other, _)| *other != line),
                ClusterAction::Send(line, bytes) => self.deliver(n, line, &bytes),
                deed => self.deeds[n].push(deed),
            }
        }
    }

    fn deliver(&mut self, n: usize, line: u64, bytes: &Bytes) {
        let there = self.lines[n].iter().find(|(other, _)| *other == line).map(|(_, to)| *to);
        let Some(there) = there.filter(|there| self.is_open(n, *there)) else { return };
        let moment = self.moment(there);
        let answer = self.nodes[there].take(moment, None, &read(bytes));
        self.settle(there);
        if let Some(answer) = answer {
            let moment = self.moment(n);
            self.nodes[n].take(moment, Some(line), &read(&answer));
            self.settle(n);
        }
    }

    pub(crate) fn peer(&self, seen_by: usize, n: usize) -> &ClusterNode {
        &self.nodes[seen_by].nodes[&name_of(address(n))]
    }

    pub(crate) fn is_master(&self, n: usize) -> bool {
        self.nodes[n].myself().is_master()
    }
}

/// A message from its bytes.
pub(crate) fn read(bytes: &Bytes) -> Message {
    let words = RequestReader::default().next(&mut BytesMut::from(&bytes[..]));
    Message::decode(&words.expect("a request").expect("a whole one")).expect("a message")
}
