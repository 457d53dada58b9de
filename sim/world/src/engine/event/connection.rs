//! Connections as data: their two sides, what each has received, and what is in flight to it.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::task::Waker;

use lockstorm_platform::trace::{Connection, HostId};

use crate::engine::flow::{Flow, Way};

/// The side of a connection that connected, and the one that listened.
pub const CLIENT: u8 = 0;
pub const SERVER: u8 = 1;

/// What a segment carries.
pub enum Payload {
    Syn,
    SynAck,
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

impl Payload {
    /// How many positions of the stream it takes.
    pub fn length(&self) -> usize {
        if let Payload::Bytes(bytes) = self { bytes.len() } else { 1 }
    }
}

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
    pub inbox: Vec<u8>,
    pub read: usize,
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
            inbox: Vec::new(),
            read: 0,
            reader: None,
            waiting: false,
            flow: Flow::new(way),
        }
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
