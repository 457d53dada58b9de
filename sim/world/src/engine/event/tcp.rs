//! TCP as an application sees it, over links that delay, lose and hold messages.
//!
//! A connection has two directions. Each direction carries segments in order: a lost segment
//! arrives later (retransmission), a segment that meets a closed link is held and retried with
//! back-off after the link has opened. SYN and its replies are segments like any other.

use std::io;
use std::net::SocketAddrV4;
use std::task::Waker;

use lockstorm_platform::trace::{Connection, Happening, HostId};

use crate::engine::event::connection::{
    CLIENT, ConnectionChange, Pair, Payload, SERVER, Side, TcpState,
};
use crate::engine::event::kernel::{FIRST_EPHEMERAL_PORT, Kernel};
use crate::engine::event::queue::Due;

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
        let connection =
            u32::try_from(self.connections.pairs.len()).expect("under 2^32 connections");
        self.connections.pairs.push(Pair { id, sides, tag: 0 });
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
                let taken = self.connections.ports(from);
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
        let side = self.connections.side(connection, CLIENT);
        match side.state {
            TcpState::Connecting => {
                side.wait(waker);
                None
            }
            TcpState::Open | TcpState::Ended => Some(Ok(())),
            TcpState::Broken(kind) => Some(Err(kind.into())),
        }
    }

    /// Moves received bytes into `into`. At the end of the stream it moves none. `None` if no byte
    /// has arrived yet.
    pub fn read(
        &mut self,
        connection: u32,
        side: u8,
        into: &mut tokio::io::ReadBuf<'_>,
        waker: &Waker,
    ) -> Option<io::Result<()>> {
        let side = self.connections.side(connection, side);
        let unread = side.unread();
        if !unread.is_empty() {
            let length = into.remaining().min(unread.len());
            into.put_slice(&unread[..length]);
            side.consume(length);
            return Some(Ok(()));
        }
        match side.state {
            TcpState::Ended => Some(Ok(())),
            TcpState::Broken(kind) => Some(Err(kind.into())),
            TcpState::Open | TcpState::Connecting => {
                side.wait(waker);
                None
            }
        }
    }

    /// Sends bytes to the other side.
    pub fn write(&mut self, connection: u32, side: u8, bytes: &[u8]) -> io::Result<()> {
        let end = self.connections.side(connection, side);
        debug_assert!(!end.closed, "an application writes to a stream that it has closed");
        if let TcpState::Broken(kind) = end.state {
            return Err(kind.into());
        }
        self.connections.side(connection, 1 - side).depart(bytes);
        self.send(connection, 1 - side, Payload::Bytes(bytes.len()));
        Ok(())
    }

    /// Sets the operation and attempt that subsequent messages serve.
    pub fn tag(&mut self, connection: u32, tag: u32) {
        self.connections.pairs[connection as usize].tag = tag;
    }

    /// The application closes its side: the peer sees the end of the stream, or a reset if bytes
    /// were left unread. A machine without power sends nothing.
    pub fn close(&mut self, connection: u32, side: u8) {
        let end = self.connections.side(connection, side);
        if end.closed {
            return;
        }
        let unread = !end.unread().is_empty();
        end.close();
        let (silent, host) = (end.forgotten, end.host);
        // A client that gives up before the reply to its SYN sends nothing.
        let mute = matches!(end.state, TcpState::Broken(_) | TcpState::Connecting);
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
        let pair = &self.connections.pairs[connection as usize];
        let hosts = (pair.sides[usize::from(1 - to)].host, pair.sides[usize::from(to)].host);
        let is_syn = matches!(payload, Payload::Syn);
        let tag = pair.tag;
        let flow = &mut self.connections.side(connection, to).flow;
        let ordinal = flow.ordinal(tag, payload.length(), is_syn);
        // A held message has an arrival time too: its retry arrives no earlier.
        let latency = self.state.delay(hosts, ordinal);
        let (now, cut) = (self.state.now, self.state.is_cut(hosts));
        if cut {
            self.state.count_held(hosts);
        }
        let flow = &mut self.connections.side(connection, to).flow;
        if let Some(arrive_at) = flow.send(payload, now, latency, cut, is_syn) {
            debug_assert!(arrive_at > now, "no message arrives at the instant it is sent");
            self.schedule(arrive_at, Due::Arrival { connection, side: to });
        }
    }

    /// Handles the segments that have arrived at a side.
    pub fn arrive(&mut self, connection: u32, side: u8) {
        let pair = &self.connections.pairs[connection as usize];
        let hosts = (pair.sides[usize::from(1 - side)].host, pair.sides[usize::from(side)].host);
        let is_dead = pair.sides[usize::from(1 - side)].forgotten;
        // Read once: a delivery changes no link and no machine.
        let barred = self.state.is_barred(hosts);
        let now = self.state.now;
        loop {
            let end = self.connections.side(connection, side);
            if !end.flow.is_due(now) {
                return;
            }
            if barred {
                end.flow.hold(is_dead);
                end.drop_flight();
                self.state.count_held(hosts);
                return;
            }
            let payload = end.flow.take().expect("it was just looked at");
            self.deliver(connection, side, payload);
        }
    }

    fn deliver(&mut self, connection: u32, side: u8, payload: Payload) {
        let end = self.connections.side(connection, side);
        let refused = end.forgotten || end.closed;
        match payload {
            Payload::Reset => {
                let connecting = end.state == TcpState::Connecting;
                end.break_off(if connecting {
                    io::ErrorKind::ConnectionRefused
                } else {
                    io::ErrorKind::ConnectionReset
                });
                self.note_connection(connection, ConnectionChange::Reset);
            }
            Payload::Syn => {
                debug_assert_eq!(side, SERVER, "a SYN travels to the server");
                debug_assert_eq!(end.state, TcpState::Connecting, "a connection has one SYN");
                self.answer_syn(connection);
            }
            Payload::SynAck if !refused => {
                debug_assert_eq!(side, CLIENT, "the reply to a SYN travels to the client");
                debug_assert_eq!(end.state, TcpState::Connecting, "a SYN gets one reply");
                end.state = TcpState::Open;
                end.wake();
                self.note_connection(connection, ConnectionChange::Established);
            }
            Payload::Bytes(length) if !refused => {
                debug_assert_ne!(end.state, TcpState::Connecting, "bytes follow the handshake");
                end.wake();
                let now = self.state.now;
                let bytes = end.arrive(length);
                self.state.trace.happen(
                    now,
                    Happening::Delivery,
                    connection,
                    u32::from(side),
                    bytes,
                );
            }
            Payload::Fin if !refused => {
                if end.state == TcpState::Open {
                    end.state = TcpState::Ended;
                }
                end.wake();
                self.note_connection(connection, ConnectionChange::Ended);
            }
            Payload::Fin => {}
            // The side is closed: its kernel replies with a reset.
            Payload::SynAck | Payload::Bytes(_) => self.send(connection, 1 - side, Payload::Reset),
        }
    }

    fn answer_syn(&mut self, connection: u32) {
        let Pair { id, sides, .. } = &self.connections.pairs[connection as usize];
        let (server, port) = (sides[usize::from(SERVER)].host, id.server.port());
        if sides[usize::from(CLIENT)].closed {
            // The handshake never completes: no process sees the connection.
            self.connections.side(connection, SERVER).closed = true;
            return;
        }
        let Some(listening) = self.host(server).listening.get_mut(&port) else {
            self.connections.side(connection, SERVER).closed = true;
            self.send(connection, CLIENT, Payload::Reset);
            return;
        };
        // The kernel completes the handshake alone: a paused process accepts it when it runs.
        listening.queue.push_back(connection);
        if let Some(waker) = listening.waker.take() {
            waker.wake();
        }
        self.connections.side(connection, SERVER).state = TcpState::Open;
        self.send(connection, CLIENT, Payload::SynAck);
    }

    pub fn note_connection(&mut self, connection: u32, change: ConnectionChange) {
        self.happen(Happening::Connection, connection, change as u32, &[]);
    }
}
