//! From the trace of a world to the evidence in a history: requests, keys, conditions, clocks.
//!
//! The client recorded (connection, nth request, operation), the node (connection, nth request,
//! effect). They are joined here, afterwards, and nowhere else.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use lockstorm_sim::fault::{Fault, HostNames};
use lockstorm_sim::time::{Instant, MILLISECOND, Stamp};
use lockstorm_sim::trace::{
    Connection, Entry, Event, HostId, KeyChange, KeyName, Leg, Origin, Request as RequestId,
};
use lockstorm_sim::world::Remains;

use crate::history::{ClockPiece, Condition, Key, OpId, Request, Seen, Sighting};

/// As many legs as most requests come to: sent, applied, replied, delivered.
const LEGS: usize = 4;

/// What the world of a run left behind, apart from the operations.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Requests from clients to nodes, in order of sending.
    pub requests: Vec<Request>,
    /// Changes of keys, in order.
    pub keys: Vec<Key>,
    /// What struck, in order.
    pub conditions: Vec<Condition>,
    /// The hosts' clocks.
    pub clocks: Vec<ClockPiece>,
    /// What nodes became, and what was seen of masters.
    pub sightings: Vec<Sighting>,
}

/// Gathers the evidence of a world that has ended.
pub fn gather(remains: &Remains, faults: &[Fault]) -> Evidence {
    let mut join = Join::new(&remains.names);
    for entry in remains.trace.entries() {
        join.take(entry);
    }
    Evidence {
        requests: join.requests,
        keys: join.keys,
        sightings: join.sightings,
        conditions: conditions(remains, faults),
        clocks: clocks(remains),
    }
}

/// The join, one entry after the other.
struct Join<'a> {
    names: &'a HostNames,
    requests: Vec<Request>,
    /// For each connection the place of its nth request in `requests`.
    places: BTreeMap<Connection, Vec<Option<usize>>>,
    /// Operations in a node's replication stream, by the offset after the command.
    stream: BTreeMap<(HostId, u64), Option<OpId>>,
    /// The master that a replica follows.
    masters: BTreeMap<HostId, SocketAddrV4>,
    /// Keys that live on a node.
    living: BTreeMap<HostId, BTreeMap<KeyName, Living>>,
    /// What masters have sent to replicas for a resynchronisation, by the replica's connection.
    snapshots: BTreeMap<Connection, BTreeMap<KeyName, Living>>,
    keys: Vec<Key>,
    sightings: Vec<Sighting>,
}

/// A key that lives on a node.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Living {
    /// The operation that created it.
    creator: Option<OpId>,
    /// When it ends on the node's wall clock, if it ends.
    until_ms: Option<u64>,
}

impl<'a> Join<'a> {
    fn new(names: &'a HostNames) -> Join<'a> {
        Join {
            names,
            requests: Vec::new(),
            places: BTreeMap::new(),
            stream: BTreeMap::new(),
            masters: BTreeMap::new(),
            living: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            keys: Vec::new(),
            sightings: Vec::new(),
        }
    }

    fn take(&mut self, entry: &Entry) {
        let (host, at) = (entry.host, entry.stamp.instant());
        match &entry.event {
            Event::Message { request, leg: Leg::Sent, command, op } => {
                self.send(*request, at, command, *op);
            }
            Event::Message { request, leg, .. } => self.advance(*request, *leg, at),
            Event::Unreached { to, command, op } => self.requests.push(Request {
                op: *op,
                from: self.names.name(host).to_owned(),
                to: self.names.name_at(*to.ip()).to_owned(),
                command: (*command).to_owned(),
                legs: vec![(Leg::Unsent, at)],
            }),
            Event::Key { key, change, origin, until_ms } => {
                let by = self.cause(host, *origin);
                // What a replica applies it passes on under the same offset.
                if let Origin::Replication { offset } = origin {
                    self.stream.insert((host, *offset), by);
                }
                self.change(host, at, key, *change, *until_ms, by);
            }
            Event::Propagated { offset, origin } => {
                let by = self.cause(host, *origin);
                self.stream.insert((host, *offset), by);
            }
            Event::Loaded { keys, resync } => self.load(host, &entry.stamp, keys, *resync),
            Event::Snapshot { connection } => {
                let living = self.living.get(&host).cloned().unwrap_or_default();
                self.snapshots.insert(*connection, living);
            }
            Event::Role { master: Some(master) } => {
                self.masters.insert(host, *master);
                self.see(host, at, Seen::Follows, self.names.name_at(*master.ip()));
            }
            Event::Role { master: None } => {
                self.masters.remove(&host);
                self.see(host, at, Seen::Leads, self.names.name(host));
            }
            Event::Saw { sight, master } => {
                self.see(host, at, Seen::Watched(*sight), self.names.name_at(*master.ip()));
            }
            Event::Step { .. } | Event::Outcome { .. } | Event::Fault { .. } => {}
            Event::Note { .. } | Event::Words { .. } | Event::Ended { .. } => {}
        }
    }

    fn see(&mut self, host: HostId, at: Instant, what: Seen, master: &str) {
        let by = self.names.name(host).to_owned();
        self.sightings.push(Sighting { at, by, what, master: master.to_owned() });
    }

    fn send(&mut self, id: RequestId, at: Instant, command: &str, op: Option<OpId>) {
        let places = self.places.entry(id.connection).or_default();
        let nth = id.nth as usize;
        places.resize(places.len().max(nth + 1), None);
        let Some(op) = op else { return };
        places[nth] = Some(self.requests.len());
        let mut legs = Vec::with_capacity(LEGS);
        legs.push((Leg::Sent, at));
        self.requests.push(Request {
            op,
            from: self.names.name_at(*id.connection.client.ip()).to_owned(),
            to: self.names.name_at(*id.connection.server.ip()).to_owned(),
            command: command.to_owned(),
            legs,
        });
    }

    fn advance(&mut self, id: RequestId, leg: Leg, at: Instant) {
        if let Some(place) = self.place(id) {
            self.requests[place].legs.push((leg, at));
        }
    }

    fn place(&self, id: RequestId) -> Option<usize> {
        self.places.get(&id.connection)?.get(id.nth as usize).copied().flatten()
    }

    fn cause(&self, host: HostId, origin: Origin) -> Option<OpId> {
        match origin {
            Origin::Node => None,
            Origin::Request(id) => self.place(id).map(|place| self.requests[place].op),
            Origin::Replication { offset } => {
                let master = self.names.at(*self.masters.get(&host)?.ip())?;
                self.stream.get(&(master, offset)).copied().flatten()
            }
        }
    }

    fn change(
        &mut self,
        host: HostId,
        at: Instant,
        key: &KeyName,
        change: KeyChange,
        until_ms: Option<u64>,
        by: Option<OpId>,
    ) {
        let living = self.living.entry(host).or_default();
        match change {
            KeyChange::Set => {
                living.insert(key.clone(), Living { creator: by, until_ms });
            }
            KeyChange::Changed | KeyChange::Extended => {
                let creator = living.get(key).map_or(by, |key| key.creator);
                living.insert(key.clone(), Living { creator, until_ms });
            }
            _ => {
                living.remove(key);
            }
        }
        let node = self.names.name(host).to_owned();
        let key = key.to_string();
        self.keys.push(Key { node, key, at, change, until_ms, by });
    }

    /// A node holds `keys` after a start or a resynchronisation: what it held before and holds
    /// no longer, or holds from another creator, is lost, unless its time had passed anyway.
    fn load(&mut self, host: HostId, stamp: &Stamp, keys: &[KeyName], resync: Option<Connection>) {
        let before = self.living.get(&host).cloned().unwrap_or_default();
        let (lost, source) = match resync {
            Some(connection) => {
                let sent = self.snapshots.remove(&connection).unwrap_or_default();
                (KeyChange::LostAtFailover, sent)
            }
            None => (KeyChange::LostAtRestart, before.clone()),
        };
        let (at, wall_ms) = (stamp.instant(), stamp.wall / MILLISECOND);
        for (key, was) in &before {
            let stays = keys.contains(key) && source.get(key).is_none_or(|now| now == was);
            if !stays {
                let over = was.until_ms.is_some_and(|until| until < wall_ms);
                let change = if over { KeyChange::Expired } else { lost };
                self.change(host, at, key, change, was.until_ms, None);
            }
        }
        for key in keys {
            let lives = self.living.get(&host).is_some_and(|living| living.contains_key(key));
            if !lives {
                let from = source.get(key);
                let (by, until_ms) = (from.and_then(|f| f.creator), from.and_then(|f| f.until_ms));
                self.change(host, at, key, KeyChange::Set, until_ms, by);
            }
        }
    }
}

fn conditions(remains: &Remains, faults: &[Fault]) -> Vec<Condition> {
    let condition = |strike: &lockstorm_sim::world::Strike| {
        let fault = faults.iter().find(|fault| fault.id == strike.fault);
        let fault = fault.expect("only the plan's faults strike");
        Condition {
            fault: fault.id,
            verb: fault.verb.clone(),
            target: fault.target.clone(),
            from: strike.from,
            to: strike.to,
        }
    };
    remains.strikes.iter().map(condition).collect()
}

fn clocks(remains: &Remains) -> Vec<ClockPiece> {
    let piece = |change: &lockstorm_sim::world::ClockChange| ClockPiece {
        host: remains.names.name(change.host).to_owned(),
        clock: change.clock,
        from: change.from,
        line: change.line,
    };
    remains.clocks.iter().map(piece).collect()
}
