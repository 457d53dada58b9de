//! What is known of every node's keys, updated with each entry of the trace.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

use bytes::Bytes;
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{Connection, HostId, KeyName, Request};

use crate::custody::finding::{
    Certainty, CustodyCounts, CustodyFinding, CustodyJudgement, CustodyKind,
};
use crate::custody::life::{CustodyLife, ReplyState, Tokens};
use crate::reading::provenance::Provenance;
use crate::reading::provenance::recent::Bounds;

/// The maximum number of findings that are kept; further ones are only counted.
const MAX_FINDINGS: usize = 1_000;
/// The maximum number of keys for which more than their current life is kept.
const MAX_PASTS: usize = 10_000;
/// Bounds on what is kept to find the senders of replicated and loaded changes.
const JOINED: Bounds = Bounds { places: 10_000, copies: 8 };

/// What the judgement is based on.
#[derive(Clone, Debug)]
pub struct CustodyTerms {
    /// The nodes: number, name, address.
    pub nodes: Vec<(HostId, String, SocketAddrV4)>,
    /// How many nodes must grant a lock. If more than one, they are independent of each other.
    pub quorum: usize,
}

/// See the module documentation.
pub struct Custody {
    pub(super) terms: CustodyTerms,
    pub(super) nodes: BTreeMap<HostId, CustodyBook>,
    pub(super) pasts: BTreeMap<KeyName, Past>,
    order: VecDeque<KeyName>,
    /// Lives whose creators have no reply yet, by connection.
    pub(super) pending: BTreeMap<Connection, Vec<(u32, HostId, KeyName)>>,
    /// The cause of what reached a node by replication or from a file.
    pub(super) provenance: Provenance<Request>,
    findings: Vec<CustodyFinding>,
    pub(super) counts: CustodyCounts,
    pub(super) is_pooled: bool,
    /// Lives that have ended since the last call of `drain`.
    pub(super) ended: Vec<CustodyLife>,
}

/// What is known of one node.
#[derive(Default)]
pub(super) struct CustodyBook {
    pub name: String,
    pub living: BTreeMap<KeyName, CustodyLife>,
    pub master: Option<SocketAddrV4>,
    pub present: Option<Present>,
}

/// The request that the node is executing.
pub(super) struct Present {
    pub request: Request,
    pub db: u16,
    pub words: Vec<Bytes>,
    pub values: VecDeque<Option<Bytes>>,
    pub has_changed: bool,
}

/// What is known of a key beyond its current life.
#[derive(Default)]
pub(super) struct Past {
    pub tokens: Tokens,
    /// Lives that ended while their leases ran, without a release.
    pub running: Vec<CustodyLife>,
}

impl Custody {
    /// What is known before the first entry: nothing.
    pub fn new(terms: CustodyTerms) -> Custody {
        let book = |name: &str| CustodyBook { name: name.to_owned(), ..CustodyBook::default() };
        let nodes = terms.nodes.iter().map(|(host, name, _)| (*host, book(name))).collect();
        Custody {
            terms,
            nodes,
            pasts: BTreeMap::new(),
            order: VecDeque::new(),
            pending: BTreeMap::new(),
            provenance: Provenance::bounded(JOINED),
            findings: Vec::new(),
            counts: CustodyCounts::default(),
            is_pooled: false,
            ended: Vec::new(),
        }
    }

    /// The lives that have ended since the last call.
    pub fn drain(&mut self) -> Vec<CustodyLife> {
        std::mem::take(&mut self.ended)
    }

    /// Every life that has not ended.
    pub fn living(&self) -> impl Iterator<Item = &CustodyLife> {
        self.nodes.values().flat_map(|book| book.living.values())
    }

    /// Whether a node follows a master.
    pub fn is_replica(&self, node: HostId) -> bool {
        self.nodes.get(&node).is_some_and(|book| book.master.is_some())
    }

    /// The judgement if the observation ends now.
    pub fn judge(&self, now: Nanos) -> CustodyJudgement {
        let mut findings = self.findings.clone();
        findings.extend(
            self.nodes
                .values()
                .filter(|book| book.master.is_none())
                .flat_map(|book| book.living.values().filter_map(|life| left_over(life, now))),
        );
        CustodyJudgement::of(findings, self.counts, self.is_pooled)
    }

    pub(super) fn find(&mut self, finding: CustodyFinding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        } else {
            self.counts.further += 1;
        }
    }

    /// What is known of a key beyond its current life. It is kept only for the most recently added
    /// keys.
    pub(super) fn past(&mut self, key: &KeyName) -> &mut Past {
        if !self.pasts.contains_key(key) {
            self.order.push_back(key.clone());
            if self.order.len() > MAX_PASTS
                && let Some(oldest) = self.order.pop_front()
            {
                self.pasts.remove(&oldest);
            }
        }
        self.pasts.entry(key.clone()).or_default()
    }
}

/// A leak at the end of the observation: a key without an expiry, or without a known owner.
fn left_over(life: &CustodyLife, now: Nanos) -> Option<CustodyFinding> {
    let finding = |certainty, what: &str| {
        let (owner, what) = (life.clone(), what.to_owned());
        Some(CustodyFinding { kind: CustodyKind::Leak, certainty, at: now, owner, what })
    };
    match (life.lease_until, life.reply, life.is_alone) {
        (None, ReplyState::Never, _) => finding(
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
        (Some(_), ReplyState::Never, _) if life.refused > 0 => finding(
            Certainty::Proven,
            "was left by a request that was never answered, and made others' tries fail",
        ),
        _ => None,
    }
}
