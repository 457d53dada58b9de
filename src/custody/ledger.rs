//! What is known of every node's keys, so far.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

use bytes::Bytes;
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{Connection, HostId, KeyName, Request};

use crate::custody::finding::{Certainty, Counts, Finding, Judgement, Kind};
use crate::custody::incarnation::{Incarnation, Tokens, Told};
use crate::reading::provenance::Provenance;
use crate::reading::provenance::recent::Bounds;

/// Findings that are kept; of more than these only the number is told.
const MOST_FINDINGS: usize = 1_000;
/// Keys of which more is known than their present life.
const MOST_PASTS: usize = 10_000;
/// Of what comes to a node by replication or from a file, so much has a known sender.
const JOINED: Bounds = Bounds { places: 10_000, copies: 8 };

/// What is judged by.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The nodes: number, name, address.
    pub nodes: Vec<(HostId, String, SocketAddrV4)>,
    /// How many nodes have to grant a lock. With more than one, nodes know nothing of each other.
    pub quorum: usize,
}

/// See the head of this file.
pub struct Ledger {
    pub(super) terms: Terms,
    pub(super) nodes: BTreeMap<HostId, Book>,
    pub(super) pasts: BTreeMap<KeyName, Past>,
    order: VecDeque<KeyName>,
    /// Lives whose creators are not answered yet, by connection.
    pub(super) pending: BTreeMap<Connection, Vec<(u32, HostId, KeyName)>>,
    /// Who is behind what came to a node by replication or from a file.
    pub(super) provenance: Provenance<Request>,
    findings: Vec<Finding>,
    pub(super) counts: Counts,
    pub(super) is_pooled: bool,
    /// Lives that have ended and nobody has asked for yet.
    pub(super) ended: Vec<Incarnation>,
}

/// What is known of one node.
#[derive(Default)]
pub(super) struct Book {
    pub name: String,
    pub living: BTreeMap<KeyName, Incarnation>,
    pub master: Option<SocketAddrV4>,
    pub present: Option<Present>,
}

/// The request that the node executes.
pub(super) struct Present {
    pub request: Request,
    pub db: u16,
    pub words: Vec<Bytes>,
    pub values: VecDeque<Option<Bytes>>,
    pub has_changed: bool,
}

/// What is known of a key beyond its present life.
#[derive(Default)]
pub(super) struct Past {
    pub tokens: Tokens,
    /// Lives that ended while their leases ran, and were not given up.
    pub running: Vec<Incarnation>,
}

impl Ledger {
    /// Nothing has happened yet.
    pub fn new(terms: Terms) -> Ledger {
        let book = |name: &str| Book { name: name.to_owned(), ..Book::default() };
        let nodes = terms.nodes.iter().map(|(host, name, _)| (*host, book(name))).collect();
        Ledger {
            terms,
            nodes,
            pasts: BTreeMap::new(),
            order: VecDeque::new(),
            pending: BTreeMap::new(),
            provenance: Provenance::bounded(JOINED),
            findings: Vec::new(),
            counts: Counts::default(),
            is_pooled: false,
            ended: Vec::new(),
        }
    }

    /// The lives that have ended since the last call.
    pub fn drain(&mut self) -> Vec<Incarnation> {
        std::mem::take(&mut self.ended)
    }

    /// Every life that has not ended.
    pub fn living(&self) -> impl Iterator<Item = &Incarnation> {
        self.nodes.values().flat_map(|book| book.living.values())
    }

    /// Whether a node follows a master.
    pub fn is_replica(&self, node: HostId) -> bool {
        self.nodes.get(&node).is_some_and(|book| book.master.is_some())
    }

    /// What can be said if everything ends now.
    pub fn judge(&self, now: Nanos) -> Judgement {
        let mut findings = self.findings.clone();
        findings.extend(
            self.nodes
                .values()
                .filter(|book| book.master.is_none())
                .flat_map(|book| book.living.values().filter_map(|life| left_over(life, now))),
        );
        Judgement::of(findings, self.counts, self.is_pooled)
    }

    pub(super) fn find(&mut self, finding: Finding) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        } else {
            self.counts.further += 1;
        }
    }

    /// What is known of a key beyond its present life; of the keys that were touched last.
    pub(super) fn past(&mut self, key: &KeyName) -> &mut Past {
        if !self.pasts.contains_key(key) {
            self.order.push_back(key.clone());
            if self.order.len() > MOST_PASTS
                && let Some(oldest) = self.order.pop_front()
            {
                self.pasts.remove(&oldest);
            }
        }
        self.pasts.entry(key.clone()).or_default()
    }
}

/// A key without an end, or that nobody knows of, at the end of everything.
fn left_over(life: &Incarnation, now: Nanos) -> Option<Finding> {
    let finding = |certainty, what: &str| {
        let (owner, what) = (life.clone(), what.to_owned());
        Some(Finding { kind: Kind::Leak, certainty, at: now, owner, what })
    };
    match (life.lease_until, life.told, life.is_alone) {
        (None, Told::Never, _) => finding(
            Certainty::Proven,
            "has no time to live, and its creator was never answered: it keeps everybody out",
        ),
        (None, _, true) => finding(
            Certainty::ByConnection,
            "has no time to live, and its creator's connection is gone: it keeps everybody out",
        ),
        (None, _, false) => finding(
            Certainty::Unproven,
            "has no time to live; its creator is still connected and may hold it",
        ),
        (Some(_), Told::Never, _) if life.refused > 0 => finding(
            Certainty::Proven,
            "was left by a request that was never answered, and made others' tries fail",
        ),
        _ => None,
    }
}
