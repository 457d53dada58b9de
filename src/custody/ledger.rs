//! What is known of every node's keys, updated with each entry of the trace.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

use bytes::Bytes;
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::{
    Connection, Edge, Entry, Event, HostId, KeyChange, KeyName, Leg, Origin, Request,
};

use crate::custody::asker::tries;
use crate::custody::change::Change;
use crate::custody::finding::{Certainty, Counts, Finding, Judgement, Kind};
use crate::custody::incarnation::{End, Incarnation, Tokens, Told};
use crate::reading::provenance::{self, Bounds, Provenance};

/// The maximum number of findings that are kept; of further ones only the number.
const MOST_FINDINGS: usize = 1_000;
/// The maximum number of keys for which more than their current life is kept.
const MOST_PASTS: usize = 10_000;
/// Bounds on what is kept to find the senders of replicated and loaded changes.
const JOINED: Bounds = Bounds { places: 10_000, copies: 8 };

/// What the judgement is based on.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The nodes: number, name, address.
    pub nodes: Vec<(HostId, String, SocketAddrV4)>,
    /// How many nodes must grant a lock. If more than one, they are independent of each other.
    pub quorum: usize,
}

/// See the head of this file.
pub struct Ledger {
    pub(super) terms: Terms,
    pub(super) nodes: BTreeMap<HostId, Book>,
    pub(super) pasts: BTreeMap<KeyName, Past>,
    order: VecDeque<KeyName>,
    /// Lives whose creators have no reply yet, by connection.
    pub(super) pending: BTreeMap<Connection, Vec<(u32, HostId, KeyName)>>,
    /// The senders of what reached a node by replication or from a file.
    provenance: Provenance<Request>,
    findings: Vec<Finding>,
    pub(super) counts: Counts,
    pub(super) is_pooled: bool,
    /// Lives that have ended since the last call of `drain`.
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

    /// Processes the next entry.
    pub fn take(&mut self, entry: Entry) {
        let joined = self.provenance.take(&entry, Some);
        let Entry { stamp, host, event } = entry;
        match event {
            Event::Message { request, leg: Leg::Applied, .. } => self.applied(host, request),
            Event::Message { request, leg: Leg::Replied, .. } => self.replied(request, stamp.at),
            Event::Words { request, db, words, values } => {
                let values = values.into();
                if let Some(book) = self.nodes.get_mut(&host) {
                    book.present = Some(Present { request, db, words, values, has_changed: false });
                }
            }
            Event::Key { key, change, origin, until_ms } if self.nodes.contains_key(&host) => {
                let wall_ms = stamp.wall / MILLISECOND;
                let left = until_ms.map(|until| until.saturating_sub(wall_ms) * MILLISECOND);
                let change = Change { host, at: stamp.at, key, change, origin, left };
                match origin {
                    Origin::Replication { .. } => self.copy(&change, joined[0].by),
                    _ => self.change(&change),
                }
            }
            Event::Ended { connection } => self.hung_up(connection, stamp.at),
            Event::Loaded { .. } if self.nodes.contains_key(&host) => {
                self.load(host, stamp.at, &joined);
            }
            Event::Role { master } => {
                if let Some(book) = self.nodes.get_mut(&host) {
                    book.master = master;
                }
            }
            Event::Fault { edge: Edge::Start, .. } => self.counts.faults += 1,
            _ => {}
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

    /// The judgement if the observation ends now.
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

    /// What is kept of a key beyond its current life; only for the keys added last.
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

/// A leak at the end of the observation: a key without an expiry, or without a known owner.
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

/// Requests, connections, loads.
impl Ledger {
    fn applied(&mut self, host: HostId, request: Request) {
        let Some(book) = self.nodes.get_mut(&host) else { return };
        let Some(present) = book.present.take() else { return };
        if present.request != request || present.has_changed {
            return;
        }
        let Some((key, token)) = tries(&present.words) else { return };
        let key = KeyName { db: present.db, name: key[..].into() };
        let Some(life) = book.living.get_mut(&key) else { return };
        if life.connection() != Some(request.connection) {
            life.refused += 1;
            self.counts.refused += 1;
        }
        let token = token.clone();
        self.past(&key).tokens.note(&token);
    }

    fn replied(&mut self, request: Request, at: Nanos) {
        let Some(pending) = self.pending.get_mut(&request.connection) else { return };
        let answered = pending.extract_if(.., |(nth, _, _)| *nth == request.nth);
        let answered: Vec<_> = answered.collect();
        if pending.is_empty() {
            self.pending.remove(&request.connection);
        }
        for (_, host, key) in answered {
            self.tell(host, &key, request, Told::Yes);
            self.look_for_clash(host, &key, request, at);
        }
    }

    fn tell(&mut self, host: HostId, key: &KeyName, birth: Request, told: Told) {
        let living = self.nodes.get_mut(&host).and_then(|book| book.living.get_mut(key));
        let past = self.pasts.get_mut(key).map(|past| &mut past.running[..]).unwrap_or_default();
        let lives = living.into_iter().chain(past);
        for life in lives.filter(|life| life.birth() == Some(birth)) {
            life.told = told;
        }
    }

    fn hung_up(&mut self, connection: Connection, _: Nanos) {
        for (nth, host, key) in self.pending.remove(&connection).unwrap_or_default() {
            self.tell(host, &key, Request { connection, nth }, Told::Never);
        }
        let living = self.nodes.values_mut().flat_map(|book| book.living.values_mut());
        for life in living.filter(|life| life.connection() == Some(connection)) {
            life.is_alone = true;
        }
    }

    /// A change that a replica applied from its master, on behalf of `by`.
    fn copy(&mut self, change: &Change, by: Option<Request>) {
        let Change { host, at, key, left, .. } = change;
        let book = self.nodes.get_mut(host).expect("it is a node");
        match change.change {
            KeyChange::Set => self.adopt(*host, key, by),
            KeyChange::Changed => {}
            KeyChange::Extended => {
                if let Some(life) = book.living.get_mut(key) {
                    life.prolong(*at, *left);
                }
            }
            _ => drop(book.living.remove(key)),
        }
    }

    /// A node has taken over a key that a request had created elsewhere, or earlier: that life
    /// continues here. A key without an owner there has none here.
    fn adopt(&mut self, host: HostId, key: &KeyName, birth: Option<Request>) {
        let elsewhere = self.nodes.values().filter_map(|book| book.living.get(key));
        let running = self.pasts.get(key).map(|past| &past.running[..]).unwrap_or_default();
        let is_it = |life: &&Incarnation| birth.is_some() && life.birth() == birth;
        let life = elsewhere.chain(running).find(is_it).cloned();
        let book = self.nodes.get_mut(&host).expect("it is a node");
        book.living.remove(key);
        if let Some(life) = life {
            let node = book.name.clone();
            book.living.insert(key.clone(), Incarnation { node, end: None, ..life });
        }
    }

    /// A node has started, or a master has filled it: records the lost and the added keys. The
    /// lease of a key that still exists is the one that its owner requested last.
    fn load(&mut self, host: HostId, at: Nanos, joined: &[provenance::Change<Request>]) {
        self.nodes.get_mut(&host).expect("it is a node").present = None;
        for change in joined {
            let key = &change.key;
            match change.change {
                KeyChange::Set => self.adopt(host, key, change.by),
                KeyChange::LostAtRestart => self.end_life(host, key, at, End::LostAtRestart),
                KeyChange::LostAtFailover => self.end_life(host, key, at, End::LostAtFailover),
                KeyChange::Expired => self.end_life(host, key, at, End::Expired),
                _ => {}
            }
        }
    }
}
