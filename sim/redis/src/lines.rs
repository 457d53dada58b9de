//! Connections that a node opens on its own, between the state that wants them and the network:
//! those of a Sentinel to its instances, and of the cluster bus.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::BytesMut;
use lockstorm_platform::host::{Host, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::signal::{First, Signal, first};

/// The open connections, by the numbers that the state assigned.
#[derive(Default)]
pub struct Lines(RefCell<BTreeMap<u64, Rc<Line>>>);

/// One connection.
#[derive(Default)]
pub struct Line {
    outbox: RefCell<BytesMut>,
    /// Raised when there is something to send, or the connection is closed.
    changed: Signal,
    closed: Cell<bool>,
}

impl Lines {
    /// Adds a connection.
    pub fn open(&self, id: u64) -> Rc<Line> {
        let line = Rc::new(Line::default());
        self.0.borrow_mut().insert(id, Rc::clone(&line));
        line
    }

    /// Appends bytes to the output of a connection, if it is open.
    pub fn send(&self, id: u64, write: impl FnOnce(&mut BytesMut)) {
        if let Some(line) = self.0.borrow().get(&id) {
            write(&mut line.outbox.borrow_mut());
            line.changed.raise();
        }
    }

    /// Closes a connection from this side.
    pub fn close(&self, id: u64) {
        if let Some(line) = self.0.borrow_mut().remove(&id) {
            line.closed.set(true);
            line.changed.raise();
        }
    }

    /// Removes a closed connection; returns whether the state must still be notified.
    pub fn is_lost(&self, id: u64, line: &Line) -> bool {
        let lost = !line.closed.get();
        if lost {
            self.0.borrow_mut().remove(&id);
        }
        lost
    }
}

impl Line {
    /// Connects; `None` if the connection is closed meanwhile.
    ///
    /// # Errors
    /// Those of connecting.
    pub async fn connect(&self, host: &Host, to: SocketAddrV4) -> io::Result<Option<Stream>> {
        let closed = async {
            while !self.closed.get() {
                self.changed.past(self.changed.count()).await;
            }
        };
        match first(host.connect(to), closed).await {
            First::This(stream) => stream.map(Some),
            First::That(()) => Ok(None),
        }
    }

    /// Sends pending output, lets `hear` take complete messages from the input, and waits for more
    /// of either; returns whether the connection continues.
    ///
    /// # Errors
    /// Those of the connection and of `hear`.
    pub async fn turn(
        &self,
        stream: &mut Stream,
        inbox: &mut BytesMut,
        hear: impl AsyncFnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> io::Result<bool> {
        // Read first: output that is added during the write raises the signal.
        let seen = self.changed.count();
        let bytes = self.outbox.borrow_mut().split();
        if !bytes.is_empty() {
            stream.write_all(&bytes).await?;
        }
        hear(inbox).await?;
        let read = stream.read_buf(inbox);
        let ended = match first(read, self.changed.past(seen)).await {
            First::This(read) => read? == 0,
            First::That(()) => false,
        };
        Ok(!ended && !self.closed.get())
    }
}
