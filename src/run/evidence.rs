//! Gathers the evidence of a history from the trace of a world: requests, keys, fault intervals,
//! clocks.
//!
//! The client recorded (connection, nth request, operation); the node recorded (connection, nth
//! request, effect). They are joined only here, after the run. Changes that reached a node by
//! replication or from a file are joined in `reading::provenance`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use lockstorm_platform::fault::{Fault, HostNames};
use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::exchange::Exchange;
use lockstorm_platform::trace::{
    Connection, Entry, Event, HostId, KeyName, Leg, Request as RequestId,
};
use lockstorm_world::world::remains::Remains;

use crate::history::{ClockPiece, FaultInterval, Key, Op, OpId, Request, Seen, Sighting};
use crate::name::Name;
use crate::plan::Plan;
use crate::reading::members::{MemberChange, Members};
use crate::reading::provenance::{CausedChange, Provenance};
use crate::run::key_changes::KeyChanges;

/// The records of a run's world, without the operations.
#[derive(Debug, Default)]
pub struct RunEvidence {
    /// Requests from clients to nodes, in order of sending.
    pub requests: Vec<Request>,
    /// The keys that requests name, by the index of the request, if the lock takes groups.
    pub named: BTreeMap<usize, Vec<String>>,
    /// The words and the reply of requests, by the index of the request, if nodes recorded them.
    pub exchanges: BTreeMap<usize, Exchange>,
    /// Changes of keys, in order.
    pub keys: Vec<Key>,
    /// The fault intervals, in order.
    pub fault_intervals: Vec<FaultInterval>,
    /// The hosts' clocks.
    pub clocks: Vec<ClockPiece>,
    /// Changes of nodes' roles, and views of masters.
    pub sightings: Vec<Sighting>,
    /// The named points that locks passed, in order.
    pub steps: Vec<Step>,
}

/// A named point that a lock's code passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The host.
    pub host: Name,
    /// The name of the point.
    pub label: &'static str,
    /// When it was passed.
    pub at: Instant,
}

/// The join of both records, entry by entry, while the world runs: a long run need not keep them.
pub struct Gathering<'a> {
    lock_key: Name,
    queue: Option<String>,
    keys: Vec<String>,
    names: Names,
    index: RequestIndex,
    provenance: Provenance<OpId>,
    members: Members,
    changes: KeyChanges,
    evidence: RunEvidence,
    plan: &'a Plan,
}

/// The names of hosts and commands: many records share each.
#[derive(Default)]
struct Names {
    hosts: BTreeMap<HostId, Name>,
    addresses: BTreeMap<Ipv4Addr, Name>,
    /// A lock uses few commands, and each request looks one up.
    commands: Vec<(&'static str, Name)>,
}

/// Requests, with an index.
#[derive(Default)]
struct RequestIndex {
    requests: Vec<Request>,
    /// By the number of their connection.
    lines: BTreeMap<u128, Line>,
}

/// A connection: its ends, and the index of its nth request in `requests`.
struct Line {
    from: Name,
    to: Name,
    places: Vec<Option<u32>>,
}

impl Names {
    fn host(&mut self, names: &HostNames, host: HostId) -> Name {
        self.hosts.entry(host).or_insert_with(|| names.name(host).into()).clone()
    }

    fn at(&mut self, names: &HostNames, end: SocketAddrV4) -> Name {
        let ip = *end.ip();
        self.addresses.entry(ip).or_insert_with(|| names.name_at(ip).into()).clone()
    }

    fn command(&mut self, command: &'static str) -> Name {
        if let Some((_, name)) = self.commands.iter().find(|(known, _)| *known == command) {
            return name.clone();
        }
        let name = Name::from(command);
        self.commands.push((command, name.clone()));
        name
    }
}

impl<'a> Gathering<'a> {
    /// Nothing yet, of a run of this plan.
    ///
    /// The changes of members are kept for the lock's key, and for the queue of its waiters. The
    /// keys of a group are the lock's as well.
    pub fn new(plan: &'a Plan, (queue, keys): (Option<String>, Vec<String>)) -> Gathering<'a> {
        Gathering {
            lock_key: plan.lock.key.as_str().into(),
            queue,
            keys,
            names: Names::default(),
            index: RequestIndex::default(),
            provenance: Provenance::default(),
            members: Members::default(),
            changes: KeyChanges::default(),
            evidence: RunEvidence::default(),
            plan,
        }
    }

    /// All evidence of a world that has ended.
    ///
    /// `ops` are the operations of the run: they tell who took a key over.
    pub fn end(mut self, remains: &Remains, ops: &[Op]) -> RunEvidence {
        self.take(&remains.names, remains.trace.entries());
        for change in self.members.settle() {
            self.note_member(&remains.names, change);
        }
        RunEvidence {
            requests: self.index.requests,
            keys: self.changes.end(ops),
            fault_intervals: fault_intervals(remains, &self.plan.faults),
            clocks: clocks(remains),
            ..self.evidence
        }
    }

    /// Takes the next entries of the trace, in order.
    pub fn take(&mut self, names: &HostNames, entries: &[Entry]) {
        for entry in entries {
            self.take_changes(names, entry);
            self.take_entry(names, entry);
        }
    }

    fn take_changes(&mut self, names: &HostNames, entry: &Entry) {
        let at = entry.stamp.instant();
        let changes = self.provenance.take(entry, |id| self.index.op(id));
        // Members of a collection that was removed before this entry come first.
        let members = self.members.take(entry, &changes);
        if let (Event::Members { key, is_loaded: false, .. }, true) =
            (&entry.event, members.iter().all(|member| member.is_moved))
        {
            let (key, node) = (self.name_of(key), self.names.host(names, entry.host));
            self.changes.note_same_members((&key, &node));
        }
        for change in members {
            self.note_member(names, change);
        }
        let is_command = matches!(entry.event, Event::Key { .. });
        for change in changes {
            self.note_key(names, (entry.host, at), change, is_command);
        }
    }

    fn take_entry(&mut self, names: &HostNames, entry: &Entry) {
        let (host, at) = (entry.host, entry.stamp.instant());
        match &entry.event {
            Event::Message { request, leg: Leg::Sent, command, op } => {
                let command = self.names.command(command);
                let host = |end| self.names.at(names, end);
                self.index.send(host, *request, at, (command, *op));
            }
            Event::Message { request, leg, .. } => self.index.advance(*request, *leg, at),
            Event::Unreached { to, command, op } => {
                let from = self.names.host(names, host);
                let to = names.name_at(*to.ip()).into();
                let (command, leg) = (self.names.command(command), (Leg::Unsent, at));
                self.index.requests.push(request(*op, (from, to), command, leg));
            }
            Event::Declined { request, word } => {
                if let Some(request) = self.index.get_mut(*request) {
                    (request.declined, request.answer) = (true, Some(word.as_str().into()));
                }
            }
            Event::Exchanged(request, exchange) => {
                if let Some(place) = self.index.place(*request) {
                    self.evidence.exchanges.insert(place, exchange.clone());
                }
            }
            Event::Role { master: Some(master) } => {
                self.see(names, (host, at), Seen::Follows, names.name_at(*master.ip()));
            }
            Event::Role { master: None } => self.see_itself(names, (host, at), Seen::Leads),
            Event::Unreplicated => self.see_itself(names, (host, at), Seen::Unreplicated),
            Event::Exited => self.see_itself(names, (host, at), Seen::Exited),
            Event::Tilted => self.see_itself(names, (host, at), Seen::Tilted),
            Event::Saw { sight, master } => {
                self.see(names, (host, at), Seen::Watched(*sight), names.name_at(*master.ip()));
            }
            Event::Names { request, keys } => {
                let is_own = |key: &Bytes| {
                    *key == self.lock_key.as_bytes() || self.keys.iter().any(|own| *key == own)
                };
                let other_keys = !keys.iter().any(is_own);
                if let Some(place) = self.index.place(*request).filter(|_| !self.keys.is_empty()) {
                    let name = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
                    self.evidence.named.insert(place, keys.iter().map(name).collect());
                }
                if let Some(request) = self.index.get_mut(*request) {
                    request.other_keys = other_keys;
                }
            }
            Event::Step { label } => {
                let host = self.names.host(names, host);
                self.evidence.steps.push(Step { host, label, at });
            }
            // The world has already joined the effects of a fault's command.
            Event::Ordered { .. } => {}
            Event::Content { key, digest } => self.note_content(names, (host, key), *digest),
            // The provenance handles what these mean for keys.
            Event::Key { .. } | Event::Propagated { .. } | Event::Continued { .. } => {}
            Event::Loaded { .. } | Event::Snapshot { .. } | Event::Dumped { .. } => {}
            Event::Members { .. } => {}
            Event::Outcome { .. } | Event::Fault { .. } => {}
            Event::Note { .. } | Event::Words { .. } | Event::Ended { .. } => {}
        }
    }

    /// Records a change of a key.
    fn note_key(
        &mut self,
        names: &HostNames,
        (host, at): (HostId, Instant),
        change: CausedChange<OpId>,
        is_command: bool,
    ) {
        let CausedChange { key, change, until_ms, by, unacknowledged } = change;
        let (key, node) = (self.name_of(&key), self.names.host(names, host));
        let key = Key { node, key, of: None, at, change, until_ms, by, unacknowledged };
        self.changes.push(key, is_command);
    }

    /// Notes what a key of the lock holds.
    fn note_content(&mut self, names: &HostNames, (host, key): (HostId, &KeyName), digest: u64) {
        let (key, node) = (self.name_of(key), self.names.host(names, host));
        if key == self.lock_key || self.keys.iter().any(|own| key == *own) {
            self.changes.note_content((&key, &node), digest);
        }
    }

    /// The name of a key as the history has it.
    fn name_of(&self, key: &KeyName) -> Name {
        let is_locks = key.db == 0 && *key.name == *self.lock_key.as_bytes();
        if is_locks { self.lock_key.clone() } else { key.to_string().into() }
    }

    /// Records a change of a member of the lock's key or of its queue.
    fn note_member(&mut self, names: &HostNames, change: MemberChange) {
        let MemberChange { host, key, member, at, change, by, is_moved } = change;
        let (of, node) = (key.to_string(), self.names.host(names, host));
        // Only in a queue a position means something.
        let is_locks = self.lock_key == of && !is_moved;
        if !is_locks && self.queue.as_ref() != Some(&of) {
            return;
        }
        let key = String::from_utf8_lossy(&member).as_ref().into();
        // A member has no expiry, and is not told apart by what a start undid.
        let (of, until_ms, unacknowledged) = (Some(of), None, false);
        let key = Key { node, key, of, at, change, until_ms, by, unacknowledged };
        self.changes.push(key, true);
    }

    fn see_itself(&mut self, names: &HostNames, (host, at): (HostId, Instant), what: Seen) {
        self.see(names, (host, at), what, names.name(host));
    }

    fn see(&mut self, names: &HostNames, (host, at): (HostId, Instant), what: Seen, master: &str) {
        let by = names.name(host).to_owned();
        self.evidence.sightings.push(Sighting { at, by, what, master: master.to_owned() });
    }
}

/// A request that has reached its first leg.
fn request(op: OpId, (from, to): (Name, Name), command: Name, leg: (Leg, Instant)) -> Request {
    let legs = [leg].into_iter().collect();
    Request { op, from, to, command, legs, declined: false, answer: None, other_keys: false }
}

/// The addresses of a connection as one number: every record of a request is found by it, and
/// numbers are compared faster than addresses.
fn number(connection: Connection) -> u128 {
    let end = |end: SocketAddrV4| u128::from(end.ip().to_bits()) << 16 | u128::from(end.port());
    end(connection.client) << 48 | end(connection.server)
}

impl RequestIndex {
    fn send(
        &mut self,
        mut host: impl FnMut(SocketAddrV4) -> Name,
        id: RequestId,
        at: Instant,
        (command, op): (Name, Option<OpId>),
    ) {
        let Connection { client, server } = id.connection;
        let new = || Line { from: host(client), to: host(server), places: Vec::new() };
        let line = self.lines.entry(number(id.connection)).or_insert_with(new);
        let nth = id.nth as usize;
        line.places.resize(line.places.len().max(nth + 1), None);
        let Some(op) = op else { return };
        let place = u32::try_from(self.requests.len()).expect("a run has under 2^32 requests");
        line.places[nth] = Some(place);
        let ends = (line.from.clone(), line.to.clone());
        self.requests.push(request(op, ends, command, (Leg::Sent, at)));
    }

    fn advance(&mut self, id: RequestId, leg: Leg, at: Instant) {
        if let Some(request) = self.get_mut(id) {
            request.legs.push((leg, at));
        }
    }

    fn place(&self, id: RequestId) -> Option<usize> {
        let place = self.lines.get(&number(id.connection))?.places.get(id.nth as usize).copied()?;
        place.map(|place| place as usize)
    }

    fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.place(id).map(|place| &mut self.requests[place])
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lockstorm_redis::specification;
    use lockstorm_redis::specification::keys::is_keyless;

    use crate::reading::tries::KEYLESS;

    /// A reading knows no server, so it has the commands without keys as a list.
    #[test]
    fn the_commands_that_name_no_key_are_those_of_the_server() {
        // They may change every key, or those that others have named.
        let unnamed = ["EXEC", "FLUSHALL", "FLUSHDB", "SWAPDB"];
        let keyless = specification::all().iter().filter(|command| is_keyless(command));
        let keyless = keyless.map(|command| command.head).filter(|head| !unnamed.contains(head));
        assert_eq!(keyless.collect::<BTreeSet<_>>(), KEYLESS.into_iter().collect());
    }
}
