//! Connections as data: their two sides, what each has received, and what is in flight to it.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::task::Waker;

use lockstorm_platform::trace::{Connection, HostId};

use crate::engine::flow::{Flow, Way};

/// The side of a connection that connected, and the one that listened.
pub const CLIENT: u8 = 0;
pub const SERVER: u8 = 1;

/// What a segment carries. Bytes are in the [`Side`] that they travel to; the segment has their
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    Syn,
    SynAck,
    Bytes(usize),
    Fin,
    Reset,
}

impl Payload {
    /// How many positions of the stream it takes.
    pub fn length(&self) -> usize {
        if let Payload::Bytes(length) = self { *length } else { 1 }
    }
}

/// How many bytes that were read a side keeps at most before it frees them.
const MAX_READ_BYTES: usize = 64 * 1024;

/// A change of a connection, by the number under which it enters the trace's hash.
#[derive(Clone, Copy)]
pub enum ConnectionChange {
    Established = 1,
    Reset = 2,
    Ended = 3,
}

/// The state of one side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// Its SYN has no reply yet.
    Connecting,
    /// Bytes flow.
    Open,
    /// The peer has closed its direction.
    Ended,
    /// Broken, with the error that the application gets.
    Broken(io::ErrorKind),
}

/// One side of a connection: what it has received, and what is in flight to it.
pub struct Side {
    pub host: HostId,
    pub state: TcpState,
    /// The application has closed it.
    pub closed: bool,
    /// The machine has lost power and with it all state of the connection.
    pub forgotten: bool,
    /// The bytes sent to this side that its application has not read yet, and some that it has.
    bytes: Vec<u8>,
    /// How many of them the application has read.
    read: usize,
    /// How many of them have arrived; the rest is in flight.
    arrived: usize,
    /// The task that last read here; kept between reads, because cloning a waker is expensive.
    pub reader: Option<Waker>,
    pub waiting: bool,
    /// The segments in flight to this side.
    pub flow: Flow<Payload>,
}

/// A connection by both of its sides.
pub struct Pair {
    pub id: Connection,
    pub sides: [Side; 2],
    pub tag: u32,
}

/// A listening socket: connections that are established and not yet accepted.
#[derive(Default)]
pub struct Listening {
    pub queue: VecDeque<u32>,
    pub waker: Option<Waker>,
}

/// All connections.
#[derive(Default)]
pub struct Connections {
    pub pairs: Vec<Pair>,
}

impl Connections {
    pub fn id(&self, connection: u32) -> Connection {
        self.pairs[connection as usize].id
    }

    /// The ports of a machine's connections that it has not closed.
    pub fn ports(&self, host: HostId) -> BTreeSet<u16> {
        let own = self.pairs.iter().filter(|pair| {
            let side = &pair.sides[usize::from(CLIENT)];
            side.host == host && !side.closed && !side.forgotten
        });
        own.map(|pair| pair.id.client.port()).collect()
    }

    pub fn side(&mut self, connection: u32, side: u8) -> &mut Side {
        &mut self.pairs[connection as usize].sides[usize::from(side)]
    }
}

impl Side {
    pub fn new(host: HostId, way: Way) -> Side {
        Side {
            host,
            state: TcpState::Connecting,
            closed: false,
            forgotten: false,
            bytes: Vec::new(),
            read: 0,
            arrived: 0,
            reader: None,
            waiting: false,
            flow: Flow::new(way),
        }
    }

    /// Puts bytes into flight. Nobody reads what is sent to a closed side.
    pub fn depart(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The next bytes in flight have arrived.
    pub fn arrive(&mut self, length: usize) -> &[u8] {
        let from = self.arrived;
        self.arrived += length;
        debug_assert!(self.arrived <= self.bytes.len(), "what arrives was sent");
        &self.bytes[from..self.arrived]
    }

    /// The bytes that have arrived and are not read.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.read..self.arrived]
    }

    /// The application has read bytes.
    pub fn consume(&mut self, length: usize) {
        self.read += length;
        debug_assert!(self.read <= self.arrived, "what is read has been received");
        // Freed as soon as everything is read, or if most of a long buffer is.
        if self.read == self.bytes.len() || self.read > self.bytes.len() / 2 + MAX_READ_BYTES {
            self.bytes.drain(..self.read);
            self.arrived -= self.read;
            self.read = 0;
        }
    }

    /// Drops the bytes in flight if their segments are gone.
    pub fn drop_flight(&mut self) {
        if self.flow.is_empty() {
            self.bytes.truncate(self.arrived);
        }
    }

    /// Drops the bytes that are not read.
    pub fn drop_unread(&mut self) {
        self.bytes.drain(..self.arrived);
        (self.read, self.arrived) = (0, 0);
    }

    /// The application closes it: bytes to it are of no use any more.
    pub fn close(&mut self) {
        self.closed = true;
        (self.reader, self.waiting) = (None, false);
        (self.bytes, self.read, self.arrived) = (Vec::new(), 0, 0);
    }

    pub fn wake(&mut self) {
        if std::mem::take(&mut self.waiting)
            && let Some(waker) = &self.reader
        {
            waker.wake_by_ref();
        }
    }

    pub fn wait(&mut self, waker: &Waker) {
        self.waiting = true;
        if !self.reader.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.reader = Some(waker.clone());
        }
    }

    pub fn break_off(&mut self, kind: io::ErrorKind) {
        self.state = TcpState::Broken(kind);
        self.wake();
    }
}
