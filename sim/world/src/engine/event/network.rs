//! TCP as an application sees it, over links that delay, lose and hold messages.
//!
//! A connection has two directions. Each direction carries segments in order: a lost segment
//! arrives later (retransmission), a segment that meets a closed link is held and retried with
//! back-off after the link has opened. SYN and its replies are segments like any other.

mod disturbance;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddrV4;
use std::task::Waker;

use lockstorm_platform::trace::{Connection, Happening, HostId};

use crate::engine::event::kernel::{FIRST_EPHEMERAL_PORT, Kernel};
use crate::engine::event::queue::Due;
use crate::engine::links::{Flow, Way};

/// The side of a connection that connected, and the one that listened.
pub const CLIENT: u8 = 0;
pub const SERVER: u8 = 1;

/// What a segment carries.
enum Payload {
    Syn,
    SynAck,
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

impl Payload {
    /// How many positions of the stream it takes.
    fn length(&self) -> usize {
        if let Payload::Bytes(bytes) = self { bytes.len() } else { 1 }
    }
}

/// The state of one side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its SYN has no reply yet.
    Connecting,
    /// Bytes flow.
    Open,
    /// The peer has closed its direction.
    Ended,
    /// Broken, with the error that the application receives.
    Broken(io::ErrorKind),
}

/// One side of a connection: what it has received, and what is in flight to it.
struct Side {
    host: HostId,
    state: State,
    /// The application has closed it.
    closed: bool,
    /// The machine has lost power and with it all state of the connection.
    forgotten: bool,
    inbox: Vec<u8>,
    read: usize,
    /// The task that last read here; kept between reads, because cloning a waker is expensive.
    reader: Option<Waker>,
    waiting: bool,
    /// The segments in flight to this side.
    flow: Flow<Payload>,
}

struct Pair {
    id: Connection,
    sides: [Side; 2],
    tag: u32,
}

/// A listening socket: connections that are established and not yet accepted.
#[derive(Default)]
pub struct Listening {
    pub queue: VecDeque<u32>,
    pub waker: Option<Waker>,
}

/// All connections.
#[derive(Default)]
pub struct Network {
    pairs: Vec<Pair>,
}

impl Network {
    pub fn id(&self, connection: u32) -> Connection {
        self.pairs[connection as usize].id
    }

    /// The ports of a machine's connections that it has not closed.
    fn ports(&self, host: HostId) -> BTreeSet<u16> {
        let own = self.pairs.iter().filter(|pair| {
            let side = &pair.sides[usize::from(CLIENT)];
            side.host == host && !side.closed && !side.forgotten
        });
        own.map(|pair| pair.id.client.port()).collect()
    }

    fn side(&mut self, connection: u32, side: u8) -> &mut Side {
        &mut self.pairs[connection as usize].sides[usize::from(side)]
    }
}

impl Side {
    fn new(host: HostId, way: Way) -> Side {
        Side {
            host,
            state: State::Connecting,
            closed: false,
            forgotten: false,
            inbox: Vec::new(),
            read: 0,
            reader: None,
            waiting: false,
            flow: Flow::new(way),
        }
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.waiting)
            && let Some(waker) = &self.reader
        {
            waker.wake_by_ref();
        }
    }

    fn wait(&mut self, waker: &Waker) {
        self.waiting = true;
        if !self.reader.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.reader = Some(waker.clone());
        }
    }

    fn break_off(&mut self, kind: io::ErrorKind) {
        self.state = State::Broken(kind);
        self.wake();
    }
}

/// Calls of an application on its side.
impl Kernel {
    /// Sends a SYN. `None` if no machine has the address, or no port is free.
    pub fn connect(&mut self, from: HostId, to: SocketAddrV4) -> Option<u32> {
        let server = self.state.names.at(*to.ip())?;
        let ip = self.state.machine(from).ip;
        let client = SocketAddrV4::new(ip, self.free_port(from)?);
        let id = Connection { client, server: to };
        let [there, back] = self.state.links.link(from, server).dial();
        let sides = [Side::new(from, back), Side::new(server, there)];
        let connection = u32::try_from(self.network.pairs.len()).expect("under 2^32 connections");
        self.network.pairs.push(Pair { id, sides, tag: 0 });
        self.send(connection, SERVER, Payload::Syn);
        Some(connection)
    }

    /// The next port of a machine that none of its connections uses. `None` if all are in use.
    fn free_port(&mut self, from: HostId) -> Option<u16> {
        for _ in FIRST_EPHEMERAL_PORT..=u16::MAX {
            let host = self.host(from);
            let port = host.next_port;
            if let Some(next) = port.checked_add(1) {
                host.next_port = next;
            } else {
                let taken = self.network.ports(from);
                let host = self.host(from);
                (host.next_port, host.taken) = (FIRST_EPHEMERAL_PORT, taken);
            }
            if !self.host(from).taken.contains(&port) {
                return Some(port);
            }
        }
        None
    }

    /// Whether the connection is established; otherwise `waker` is woken when that is decided.
    pub fn connected(&mut self, connection: u32, waker: &Waker) -> Option<io::Result<()>> {
        let side = self.network.side(connection, CLIENT);
        match side.state {
            State::Connecting => {
                side.wait(waker);
                None
            }
            State::Open | State::Ended => Some(Ok(())),
            State::Broken(kind) => Some(Err(kind.into())),
        }
    }

    /// Moves received bytes into `into`; none at the end of the stream. `None` if none are there
    /// yet.
    pub fn read(
        &mut self,
        connection: u32,
        side: u8,
        into: &mut tokio::io::ReadBuf<'_>,
        waker: &Waker,
    ) -> Option<io::Result<()>> {
        let side = self.network.side(connection, side);
        if side.read < side.inbox.len() {
            let length = into.remaining().min(side.inbox.len() - side.read);
            into.put_slice(&side.inbox[side.read..side.read + length]);
            side.read += length;
            if side.read == side.inbox.len() {
                side.inbox.clear();
                side.read = 0;
            }
            return Some(Ok(()));
        }
        match side.state {
            State::Ended => Some(Ok(())),
            State::Broken(kind) => Some(Err(kind.into())),
            State::Open | State::Connecting => {
                side.wait(waker);
                None
            }
        }
    }

    /// Sends bytes to the other side.
    pub fn write(&mut self, connection: u32, side: u8, bytes: &[u8]) -> io::Result<()> {
        if let State::Broken(kind) = self.network.side(connection, side).state {
            return Err(kind.into());
        }
        self.send(connection, 1 - side, Payload::Bytes(bytes.to_vec()));
        Ok(())
    }

    /// Sets the operation and attempt that subsequent messages serve.
    pub fn tag(&mut self, connection: u32, tag: u32) {
        self.network.pairs[connection as usize].tag = tag;
    }

    /// The application closes its side: the peer sees the end of the stream, or a reset if bytes
    /// were left unread. A machine without power sends nothing.
    pub fn close(&mut self, connection: u32, side: u8) {
        let end = self.network.side(connection, side);
        if std::mem::replace(&mut end.closed, true) {
            return;
        }
        end.reader = None;
        end.waiting = false;
        let unread = end.read < end.inbox.len();
        end.inbox = Vec::new();
        end.read = 0;
        let (silent, host) = (end.forgotten, end.host);
        // A client that closes before the reply to its SYN sends nothing.
        let mute = matches!(end.state, State::Broken(_) | State::Connecting);
        if silent || mute || self.state.machine(host).is_silent() {
            return;
        }
        self.send(connection, 1 - side, if unread { Payload::Reset } else { Payload::Fin });
    }

    /// Closes the stream to the other side; bytes from there can still be read.
    pub fn shut_down(&mut self, connection: u32, side: u8) {
        self.send(connection, 1 - side, Payload::Fin);
    }
}

/// Transport of segments.
impl Kernel {
    fn send(&mut self, connection: u32, to: u8, payload: Payload) {
        let pair = &self.network.pairs[connection as usize];
        let hosts = (pair.sides[usize::from(1 - to)].host, pair.sides[usize::from(to)].host);
        let is_syn = matches!(payload, Payload::Syn);
        let tag = pair.tag;
        let flow = &mut self.network.side(connection, to).flow;
        let ordinal = flow.ordinal(tag, payload.length(), is_syn);
        let latency = self.state.delay(hosts, ordinal);
        let (now, cut) = (self.state.now, self.state.is_cut(hosts));
        if cut {
            self.state.meet_closed(hosts);
        }
        let flow = &mut self.network.side(connection, to).flow;
        if let Some(arrive_at) = flow.send(payload, now, latency, cut, is_syn) {
            self.queue.push(arrive_at, Due::Arrival { connection, side: to });
        }
    }

    /// Handles the segments that have arrived at a side.
    pub fn arrive(&mut self, connection: u32, side: u8) {
        let pair = &self.network.pairs[connection as usize];
        let hosts = (pair.sides[usize::from(1 - side)].host, pair.sides[usize::from(side)].host);
        let is_dead = pair.sides[usize::from(1 - side)].forgotten;
        let barred = self.state.is_barred(hosts);
        let now = self.state.now;
        loop {
            let flow = &mut self.network.side(connection, side).flow;
            if !flow.is_due(now) {
                return;
            }
            if barred {
                flow.hold(is_dead);
                self.state.meet_closed(hosts);
                return;
            }
            let payload = flow.take().expect("it was just looked at");
            self.deliver(connection, side, payload);
        }
    }

    fn deliver(&mut self, connection: u32, side: u8, payload: Payload) {
        let end = self.network.side(connection, side);
        let refused = end.forgotten || end.closed;
        match payload {
            Payload::Reset => {
                let connecting = end.state == State::Connecting;
                end.break_off(if connecting {
                    io::ErrorKind::ConnectionRefused
                } else {
                    io::ErrorKind::ConnectionReset
                });
                self.note_connection(connection, 2);
            }
            Payload::Syn => self.answer_syn(connection),
            Payload::SynAck if !refused => {
                end.state = State::Open;
                end.wake();
                self.note_connection(connection, 1);
            }
            Payload::Bytes(bytes) if !refused => {
                end.inbox.extend_from_slice(&bytes);
                end.wake();
                self.happen(Happening::Delivery, connection, u32::from(side), &bytes);
            }
            Payload::Fin if !refused => {
                if end.state == State::Open {
                    end.state = State::Ended;
                }
                end.wake();
                self.note_connection(connection, 3);
            }
            Payload::Fin => {}
            // The side is closed: its kernel replies with a reset.
            Payload::SynAck | Payload::Bytes(_) => self.send(connection, 1 - side, Payload::Reset),
        }
    }

    fn answer_syn(&mut self, connection: u32) {
        let Pair { id, sides, .. } = &self.network.pairs[connection as usize];
        let (server, port) = (sides[usize::from(SERVER)].host, id.server.port());
        if sides[usize::from(CLIENT)].closed {
            // The handshake never completes, so no process sees the connection.
            self.network.side(connection, SERVER).closed = true;
            return;
        }
        let Some(listening) = self.host(server).listening.get_mut(&port) else {
            self.network.side(connection, SERVER).closed = true;
            self.send(connection, CLIENT, Payload::Reset);
            return;
        };
        listening.queue.push_back(connection);
        if let Some(waker) = listening.waker.take() {
            waker.wake();
        }
        self.network.side(connection, SERVER).state = State::Open;
        self.send(connection, CLIENT, Payload::SynAck);
    }

    fn note_connection(&mut self, connection: u32, what: u32) {
        self.happen(Happening::Connection, connection, what, &[]);
    }
}
