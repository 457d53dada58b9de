//! The plan's network over turmoil's links: every message stays on hold until the model delivers
//! it.
//!
//! turmoil does not identify the messages on a link, but keeps them in order: a mirror of each link
//! numbers them by their positions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::task::{Poll, Waker};

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{Connection, Happening, HostId};
use turmoil::{Protocol, Segment, Sim};

use crate::engine::flow::Flow;
use crate::engine::state::State;

/// The side of a connection that connected, and the one that listened.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// A connection, numbered in the order of dialling.
pub(crate) type ConnectionId = usize;

/// A connection, open or not.
struct PlannedConnection {
    /// The client's host and the server's.
    hosts: [HostId; 2],
    tag: u32,
    /// The messages in flight to each side.
    flows: [Flow<Parcel>; 2],
    /// The operation of each message that was written and is not yet seen on the link.
    tags: [VecDeque<u32>; 2],
    /// Whether the client has received the reply to its SYN.
    is_answered: bool,
    /// The sides whose machine has lost power since the connection was opened.
    forgotten: [bool; 2],
    broken: Option<io::ErrorKind>,
    /// The sides that their applications have closed.
    closed: [bool; 2],
    /// The tasks that wait for a reply to the SYN or for a break.
    wakers: [Option<Waker>; 2],
}

/// The content of a flow.
enum Parcel {
    /// A message on turmoil's link.
    Message(u64),
    /// The reply to a SYN. turmoil replies to the client at once; here the reply travels back.
    Answer,
}

/// A connection that is being opened; its SYN has not been seen on the link yet.
pub(crate) type Dialled = Rc<std::cell::Cell<Option<ConnectionId>>>;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Network {
    wires: Vec<PlannedConnection>,
    ids: BTreeMap<Connection, ConnectionId>,
    dialling: BTreeMap<(HostId, SocketAddrV4), VecDeque<Dialled>>,
    arrivals: BTreeSet<(Nanos, ConnectionId, usize)>,
    /// The messages on each link, in order.
    mirror: BTreeMap<(IpAddr, IpAddr), Vec<u64>>,
    messages: u64,
}

impl Network {
    /// Registers a SYN that is about to be sent.
    pub(crate) fn dial(&mut self, from: HostId, to: SocketAddrV4) -> Dialled {
        let dialled = Dialled::default();
        self.dialling.entry((from, to)).or_default().push_back(Rc::clone(&dialled));
        dialled
    }

    /// The number of a connection.
    pub(crate) fn find(&self, connection: Connection) -> ConnectionId {
        *self.ids.get(&connection).expect("a connection begins with a SYN")
    }

    /// Sets the operation and attempt that subsequent messages serve.
    pub(crate) fn tag(&mut self, wire: ConnectionId, tag: u32) {
        self.wires[wire].tag = tag;
    }

    /// Notes that a side has written a message that will be seen on the link.
    pub(crate) fn wrote(&mut self, wire: ConnectionId, from: usize) {
        let wire = &mut self.wires[wire];
        let tag = wire.tag;
        wire.tags[1 - from].push_back(tag);
    }

    /// Notes that the application closes a side, which will be seen on the link.
    pub(crate) fn closes(&mut self, wire: ConnectionId, side: usize) {
        self.wires[wire].closed[side] = true;
        self.wrote(wire, side);
    }

    /// The error of the connection, if it is broken; otherwise `waker` is woken when it breaks.
    pub(crate) fn poll_broken(
        &mut self,
        wire: ConnectionId,
        side: usize,
        waker: &Waker,
    ) -> io::Result<()> {
        let wire = &mut self.wires[wire];
        match wire.broken {
            Some(kind) => Err(kind.into()),
            None => {
                wire.wakers[side] = Some(waker.clone());
                Ok(())
            }
        }
    }

    /// Whether the client has received the reply to its SYN.
    pub(crate) fn poll_answered(
        &mut self,
        wire: ConnectionId,
        waker: &Waker,
    ) -> Poll<io::Result<()>> {
        let answered = self.wires[wire].is_answered;
        match self.poll_broken(wire, CLIENT, waker) {
            Err(broken) => Poll::Ready(Err(broken)),
            Ok(()) if answered => Poll::Ready(Ok(())),
            Ok(()) => Poll::Pending,
        }
    }

    /// Sends the reply to a SYN.
    pub(crate) fn answer(&mut self, state: &mut State, wire: ConnectionId) {
        let tag = self.wires[wire].tag;
        self.send(state, wire, CLIENT, (Parcel::Answer, 1), tag, false);
    }

    fn send(
        &mut self,
        state: &mut State,
        id: ConnectionId,
        to: usize,
        (payload, length): (Parcel, usize),
        tag: u32,
        syn: bool,
    ) {
        let wire = &mut self.wires[id];
        let hosts = (wire.hosts[1 - to], wire.hosts[to]);
        let ordinal = wire.flows[to].ordinal(tag, length, syn);
        let delay = state.delay(hosts, ordinal);
        let cut = state.is_cut(hosts);
        if cut {
            state.count_held(hosts);
        }
        if let Some(at) = wire.flows[to].send(payload, state.now, delay, cut, syn) {
            debug_assert!(at > state.now, "no message arrives at the instant it is sent");
            self.arrivals.insert((at, id, to));
        }
    }

    /// Resets every connection between two hosts at once, on both sides. Returns how many of them
    /// were alive.
    pub(crate) fn reset_between(&mut self, one: HostId, other: HostId) -> u64 {
        let mut alive = 0;
        for wire in &mut self.wires {
            if wire.hosts != [one, other] && wire.hosts != [other, one] {
                continue;
            }
            alive += u64::from(wire.broken.is_none() && wire.closed != [true, true]);
            wire.flows.iter_mut().for_each(Flow::clear);
            wire.broken = Some(io::ErrorKind::ConnectionReset);
            wire.wakers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
        }
        alive
    }

    /// Takes the arrived messages out of the model: turmoil must deliver these.
    fn arrived(&mut self, state: &mut State) -> BTreeMap<u64, (ConnectionId, usize)> {
        let mut due = BTreeMap::new();
        while let Some(&(at, id, to)) = self.arrivals.first() {
            if at > state.now {
                break;
            }
            self.arrivals.pop_first();
            let wire = &mut self.wires[id];
            let hosts = (wire.hosts[1 - to], wire.hosts[to]);
            let barred = state.is_barred(hosts);
            let is_dead = wire.forgotten[1 - to];
            while wire.flows[to].is_due(state.now) {
                if barred {
                    state.count_held(hosts);
                    wire.flows[to].hold(is_dead);
                    break;
                }
                match wire.flows[to].take().expect("it was just looked at") {
                    Parcel::Message(message) => {
                        due.insert(message, (id, to));
                    }
                    Parcel::Answer => {
                        wire.is_answered = true;
                        wire.wakers[CLIENT].take().into_iter().for_each(Waker::wake);
                    }
                }
            }
        }
        due
    }

    /// Adds a message that turmoil has put on a link to the model.
    fn take_in(
        &mut self,
        state: &mut State,
        (from, to): (SocketAddr, SocketAddr),
        sent: &Protocol,
    ) -> u64 {
        self.messages += 1;
        let (from, to) = (v4(from), v4(to));
        let syn = matches!(sent, Protocol::Tcp(Segment::Syn(_)));
        if syn {
            self.open(state, from, to);
        }
        let found = |client, server| self.ids.get(&Connection { client, server }).copied();
        let (id, side) = match (found(from, to), found(to, from)) {
            (Some(id), _) => (id, SERVER),
            (None, Some(id)) => (id, CLIENT),
            (None, None) => unreachable!("a connection begins with a SYN"),
        };
        let wire = &mut self.wires[id];
        let tag = wire.tags[side].pop_front().unwrap_or(wire.tag);
        // A machine without power sends nothing, and a broken connection carries nothing.
        let lost = wire.broken.is_some() || !state.machine(wire.hosts[1 - side]).powered;
        if !lost {
            let payload = Parcel::Message(self.messages);
            self.send(state, id, side, (payload, bytes_of(sent).map_or(1, <[u8]>::len)), tag, syn);
        }
        self.messages
    }

    fn open(&mut self, state: &mut State, client: SocketAddrV4, server: SocketAddrV4) {
        let host = |address: SocketAddrV4| state.names.at(*address.ip()).expect("a known machine");
        let hosts = [host(client), host(server)];
        let id = self.wires.len();
        let [there, back] = state.links.link(hosts[CLIENT], hosts[SERVER]).dial();
        self.wires.push(PlannedConnection {
            hosts,
            tag: 0,
            flows: [Flow::new(back), Flow::new(there)],
            tags: [VecDeque::new(), VecDeque::new()],
            is_answered: false,
            forgotten: [false, false],
            broken: None,
            closed: [false, false],
            wakers: [None, None],
        });
        self.ids.insert(Connection { client, server }, id);
        let dialling = self.dialling.get_mut(&(hosts[CLIENT], server));
        let dialled = dialling.and_then(VecDeque::pop_front);
        dialled.expect("a SYN is announced").set(Some(id));
    }

    fn retry(&mut self, state: &mut State, from: HostId, to: HostId) {
        if state.is_cut((from, to)) {
            return;
        }
        for id in 0..self.wires.len() {
            for side in [CLIENT, SERVER] {
                let wire = &mut self.wires[id];
                let ways = (wire.hosts[1 - side], wire.hosts[side]);
                if !wire.flows[side].is_held() || ways != (from, to) {
                    continue;
                }
                let ordinal = wire.flows[side].ordinal_again(wire.tag);
                let latency = state.delay(ways, ordinal);
                let again = wire.flows[side].send_again(state.now, latency);
                self.arrivals.extend(again.into_iter().map(|at| (at, id, side)));
            }
        }
    }
}

/// Calls of the engine.
impl Network {
    /// See [`crate::engine::interface::Engine::block`].
    pub(crate) fn block(&mut self, state: &mut State, from: HostId, to: HostId, blocked: bool) {
        if state.links.link(from, to).block(blocked) {
            self.retry(state, from, to);
        }
    }

    /// Retries held messages to and from a host that is up again.
    pub(crate) fn retry_all(&mut self, state: &mut State, host: HostId) {
        let others: Vec<HostId> = state.names.ids().collect();
        for other in others {
            self.retry(state, host, other);
            self.retry(state, other, host);
        }
    }

    /// A machine loses power: its messages in flight continue, unless they need retransmission.
    pub(crate) fn forget(&mut self, host: HostId) {
        for wire in &mut self.wires {
            for side in [CLIENT, SERVER] {
                if wire.hosts[side] == host {
                    wire.forgotten[side] = true;
                    wire.flows[1 - side].drop_held();
                }
            }
        }
    }

    /// Makes turmoil deliver all arrived messages in the next tick.
    pub(crate) fn deliver(&mut self, state: &mut State, sim: &Sim<'_>) {
        let due = self.arrived(state);
        if due.is_empty() {
            return;
        }
        let mut delivered = 0;
        sim.links(|links| {
            for link in links {
                let Some(mirror) = self.mirror.get_mut(&link.pair()) else { continue };
                for (sent, message) in link.zip(mirror.iter()) {
                    let Some((wire, to)) = due.get(message) else { continue };
                    let bytes = bytes_of(sent.protocol()).unwrap_or_default();
                    let wire = u32::try_from(*wire).expect("under 2^32 connections");
                    let to = u32::try_from(*to).expect("there are two sides");
                    state.happen(Happening::Delivery, wire, to, bytes);
                    sent.deliver();
                    delivered += 1;
                }
                mirror.retain(|message| !due.contains_key(message));
            }
        });
        debug_assert_eq!(delivered, due.len(), "a message is on one link, once");
    }

    /// Adds the messages that the last tick put on links to the model.
    pub(crate) fn collect(&mut self, state: &mut State, sim: &Sim<'_>) {
        sim.links(|links| {
            for link in links {
                let pair = link.pair();
                let known = self.mirror.get(&pair).map_or(0, Vec::len);
                // A link keeps its messages in order: the new ones follow those of the mirror.
                for sent in link.skip(known) {
                    let message = self.take_in(state, sent.pair(), sent.protocol());
                    self.mirror.entry(pair).or_default().push(message);
                }
            }
        });
    }
}

/// The payload of a data segment.
fn bytes_of(sent: &Protocol) -> Option<&[u8]> {
    match sent {
        Protocol::Tcp(Segment::Data(_, bytes)) => Some(bytes),
        _ => None,
    }
}

/// Hosts have IPv4 addresses only.
pub(crate) fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => unreachable!("no host has the address {address}"),
    }
}
