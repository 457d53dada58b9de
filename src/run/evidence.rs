//! Gathers the evidence of a history from the trace of a world: requests, keys, fault intervals,
//! clocks.
//!
//! The client recorded (connection, nth request, operation); the node recorded (connection, nth
//! request, effect). They are joined only here, after the run. Changes that reached a node by
//! replication or from a file are joined in `reading::provenance`.

use std::collections::BTreeMap;

use bytes::Bytes;
use lockstorm_platform::fault::{Fault, HostNames};
use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{Connection, Entry, Event, HostId, Leg, Request as RequestId};
use lockstorm_world::world::remains::Remains;

use crate::history::{ClockPiece, FaultInterval, Key, OpId, Request, Seen, Sighting};
use crate::plan::Plan;
use crate::reading::members::{MemberChange, Members};
use crate::reading::provenance::{CausedChange, Provenance};

/// The number of legs of most requests: sent, applied, replied, delivered.
const LEGS: usize = 4;

/// The records of a run's world, without the operations.
#[derive(Debug, Default)]
pub struct RunEvidence {
    /// Requests from clients to nodes, in order of sending.
    pub requests: Vec<Request>,
    /// Changes of keys, in order.
    pub keys: Vec<Key>,
    /// The fault intervals, in order.
    pub fault_intervals: Vec<FaultInterval>,
    /// The hosts' clocks.
    pub clocks: Vec<ClockPiece>,
    /// Changes of nodes' roles, and views of masters.
    pub sightings: Vec<Sighting>,
}

/// Gathers the evidence of a world that has ended.
pub fn gather(remains: &Remains, plan: &Plan) -> RunEvidence {
    let mut join = Join::new(&remains.names, &plan.lock.key);
    for entry in remains.trace.entries() {
        join.take(entry);
    }
    join.settle();
    RunEvidence {
        requests: join.index.requests,
        keys: join.keys,
        sightings: join.sightings,
        fault_intervals: fault_intervals(remains, &plan.faults),
        clocks: clocks(remains),
    }
}

/// The join, entry by entry.
struct Join<'a> {
    names: &'a HostNames,
    lock_key: &'a str,
    index: RequestIndex,
    provenance: Provenance<OpId>,
    members: Members,
    keys: Vec<Key>,
    sightings: Vec<Sighting>,
}

/// Requests, with an index.
#[derive(Default)]
struct RequestIndex {
    requests: Vec<Request>,
    /// For each connection, the index of its nth request in `requests`.
    places: BTreeMap<Connection, Vec<Option<usize>>>,
}

impl<'a> Join<'a> {
    fn new(names: &'a HostNames, lock_key: &'a str) -> Join<'a> {
        Join {
            names,
            lock_key,
            index: RequestIndex::default(),
            provenance: Provenance::default(),
            members: Members::default(),
            keys: Vec::new(),
            sightings: Vec::new(),
        }
    }

    fn take(&mut self, entry: &Entry) {
        let (host, at) = (entry.host, entry.stamp.instant());
        let changes = self.provenance.take(entry, |id| self.index.op(id));
        let members = self.members.take(entry, &changes);
        // Members of a collection that was removed before this entry come first.
        members.into_iter().for_each(|change| self.note(change));
        for change in changes {
            let CausedChange { key, change, until_ms, by, unacknowledged } = change;
            let (node, key) = (self.names.name(host).to_owned(), key.to_string());
            self.keys.push(Key { node, key, of: None, at, change, until_ms, by, unacknowledged });
        }
        match &entry.event {
            Event::Message { request, leg: Leg::Sent, command, op } => {
                self.send(*request, at, command, *op);
            }
            Event::Message { request, leg, .. } => self.index.advance(*request, *leg, at),
            Event::Unreached { to, command, op } => self.index.requests.push(Request {
                op: *op,
                from: self.names.name(host).to_owned(),
                to: self.names.name_at(*to.ip()).to_owned(),
                command: (*command).to_owned(),
                legs: vec![(Leg::Unsent, at)],
                declined: false,
                answer: None,
                other_keys: false,
            }),
            Event::Declined { request, word } => {
                if let Some(place) = self.index.place(*request) {
                    let request = &mut self.index.requests[place];
                    (request.declined, request.answer) = (true, Some(word.clone()));
                }
            }
            Event::Role { master: Some(master) } => {
                self.see(host, at, Seen::Follows, self.names.name_at(*master.ip()));
            }
            Event::Role { master: None } => {
                self.see(host, at, Seen::Leads, self.names.name(host));
            }
            Event::Unreplicated => {
                self.see(host, at, Seen::Unreplicated, self.names.name(host));
            }
            Event::Exited => self.see(host, at, Seen::Exited, self.names.name(host)),
            Event::Tilted => self.see(host, at, Seen::Tilted, self.names.name(host)),
            Event::Saw { sight, master } => {
                self.see(host, at, Seen::Watched(*sight), self.names.name_at(*master.ip()));
            }
            Event::Names { request, keys } => {
                if let Some(place) = self.index.place(*request) {
                    let is_own = |key: &Bytes| key == self.lock_key.as_bytes();
                    self.index.requests[place].other_keys = !keys.iter().any(is_own);
                }
            }
            // The world has already joined the effects of a fault's command.
            Event::Ordered { .. } => {}
            // The provenance handles what these mean for keys.
            Event::Key { .. } | Event::Propagated { .. } | Event::Continued { .. } => {}
            Event::Loaded { .. } | Event::Snapshot { .. } | Event::Dumped { .. } => {}
            Event::Members { .. } => {}
            Event::Step { .. } | Event::Outcome { .. } | Event::Fault { .. } => {}
            Event::Note { .. } | Event::Words { .. } | Event::Ended { .. } => {}
        }
    }

    /// Records what the end of the trace leaves open.
    fn settle(&mut self) {
        let last = self.members.settle();
        last.into_iter().for_each(|change| self.note(change));
    }

    /// Records a change of a member of the lock's key.
    fn note(&mut self, change: MemberChange) {
        let MemberChange { host, key, member, at, change, by } = change;
        let of = key.to_string();
        if of == self.lock_key {
            let node = self.names.name(host).to_owned();
            let key = String::from_utf8_lossy(&member).into_owned();
            let (of, until_ms, unacknowledged) = (Some(of), None, false);
            self.keys.push(Key { node, key, of, at, change, until_ms, by, unacknowledged });
        }
    }

    fn see(&mut self, host: HostId, at: Instant, what: Seen, master: &str) {
        let by = self.names.name(host).to_owned();
        self.sightings.push(Sighting { at, by, what, master: master.to_owned() });
    }

    fn send(&mut self, id: RequestId, at: Instant, command: &str, op: Option<OpId>) {
        let places = self.index.places.entry(id.connection).or_default();
        let nth = id.nth as usize;
        places.resize(places.len().max(nth + 1), None);
        let Some(op) = op else { return };
        places[nth] = Some(self.index.requests.len());
        let mut legs = Vec::with_capacity(LEGS);
        legs.push((Leg::Sent, at));
        self.index.requests.push(Request {
            op,
            from: self.names.name_at(*id.connection.client.ip()).to_owned(),
            to: self.names.name_at(*id.connection.server.ip()).to_owned(),
            command: command.to_owned(),
            legs,
            declined: false,
            answer: None,
            other_keys: false,
        });
    }
}

impl RequestIndex {
    fn advance(&mut self, id: RequestId, leg: Leg, at: Instant) {
        if let Some(place) = self.place(id) {
            self.requests[place].legs.push((leg, at));
        }
    }

    fn place(&self, id: RequestId) -> Option<usize> {
        self.places.get(&id.connection)?.get(id.nth as usize).copied().flatten()
    }

    fn op(&self, id: RequestId) -> Option<OpId> {
        self.place(id).map(|place| self.requests[place].op)
    }
}

fn fault_intervals(remains: &Remains, faults: &[Fault]) -> Vec<FaultInterval> {
    let interval = |strike: &lockstorm_world::world::remains::Strike| {
        let fault = faults.iter().find(|fault| fault.id == strike.fault);
        let fault = fault.expect("only the plan's faults strike");
        FaultInterval {
            fault: fault.id,
            verb: fault.verb.clone(),
            target: fault.target.clone(),
            from: strike.from,
            to: strike.to,
            met: strike.met,
            done: strike.done.clone(),
        }
    };
    remains.strikes.iter().map(interval).collect()
}

fn clocks(remains: &Remains) -> Vec<ClockPiece> {
    let piece = |change: &lockstorm_world::world::remains::ClockChange| ClockPiece {
        host: remains.names.name(change.host).to_owned(),
        clock: change.clock,
        from: change.from,
        line: change.line,
    };
    remains.clocks.iter().map(piece).collect()
}
