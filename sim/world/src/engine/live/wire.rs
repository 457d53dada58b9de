//! One end of a real connection, and the effect of faults on its bytes.
//!
//! While nothing disturbs the link, bytes pass straight through. Otherwise they wait here, in
//! order, until the network model lets them pass: inward bytes after they were read from the
//! socket, outward bytes before they are written to it, by a kernel task of the machine that no
//! pause stops. If both ends belong to the world, only the outward direction is disturbed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use lockstorm_platform::trace::{Connection, Event, HostId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::engine::flow::Way;
use crate::engine::live::lane::Lane;
use crate::engine::live::recorder::Recorder;
use crate::engine::tasks::Tasks;

/// The maximum number of bytes that wait in one direction.
const MAX_WAITING: usize = 1 << 20;
/// The maximum number of bytes per read from a socket on a disturbed link.
const CHUNK: usize = 16 * 1024;

/// The hosts at the two ends of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// The host of this end.
    pub(crate) own: HostId,
    /// The host of the other end.
    pub(crate) peer: HostId,
    /// Whether the inward direction is disturbed here: the other end is outside this world.
    pub(crate) takes_inward: bool,
    /// Whether this end opened the connection.
    pub(crate) dialled: bool,
}

/// See the head of this file.
pub(crate) struct Wire {
    /// The machine of this end.
    pub(crate) own: HostId,
    /// The machine at the other end.
    pub(crate) peer: HostId,
    /// The two ends.
    pub(crate) connection: Connection,
    ends: Ends,
    id: u64,
    tasks: Rc<Tasks>,
    recorder: Rc<Recorder>,
    wires: Rc<Wires>,
    /// `None` after the connection was closed or reset.
    stream: RefCell<Option<TcpStream>>,
    inward: RefCell<Lane>,
    outward: RefCell<Lane>,
    is_pumped: Cell<bool>,
    was_reset: Cell<bool>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

/// The open ends of connections, and which of them machines of this world have opened.
#[derive(Default)]
pub(crate) struct Wires {
    open: RefCell<BTreeMap<u64, Weak<Wire>>>,
    count: Cell<u64>,
    /// Client ends of connections that machines of this world have opened.
    pub(crate) dialled: RefCell<BTreeMap<SocketAddrV4, HostId>>,
}

impl Wires {
    /// Wraps an established connection.
    pub(crate) fn open(
        self: &Rc<Wires>,
        tasks: &Rc<Tasks>,
        recorder: &Rc<Recorder>,
        ends: Ends,
        (connection, stream): (Connection, TcpStream),
    ) -> Rc<Wire> {
        let id = self.count.get();
        self.count.set(id + 1);
        let nth = u32::try_from(id % u64::from(u32::MAX)).expect("it is below that");
        let lane = |back| RefCell::new(Lane::new(Way { nth, back }));
        let wire = Rc::new(Wire {
            own: ends.own,
            peer: ends.peer,
            connection,
            ends,
            id,
            tasks: Rc::clone(tasks),
            recorder: Rc::clone(recorder),
            wires: Rc::clone(self),
            stream: RefCell::new(Some(stream)),
            inward: lane(ends.dialled),
            outward: lane(!ends.dialled),
            is_pumped: Cell::new(false),
            was_reset: Cell::new(false),
            reader: RefCell::default(),
            writer: RefCell::default(),
        });
        self.open.borrow_mut().insert(id, Rc::downgrade(&wire));
        wire
    }

    /// All ends of open connections.
    pub(crate) fn all(&self) -> Vec<Rc<Wire>> {
        self.open.borrow().values().filter_map(Weak::upgrade).collect()
    }

    /// Resets the selected connections; returns their number.
    pub(crate) fn reset_where(&self, which: impl Fn(&Wire) -> bool) -> u64 {
        let wires = self.all();
        let chosen = wires.iter().filter(|wire| which(wire));
        chosen.map(|wire| wire.reset()).count() as u64
    }

    /// Retries the messages that are held on the selected wires, where nothing blocks them now.
    pub(crate) fn retry(&self, concerns: impl Fn(&Wire) -> bool) {
        for wire in self.all().into_iter().filter(|wire| concerns(wire)) {
            wire.retry();
        }
    }
}

/// Its lifecycle.
impl Wire {
    /// Breaks the connection: both ends see it at once, and nothing that waits arrives.
    pub(crate) fn reset(&self) {
        self.was_reset.set(true);
        if let Some(stream) = self.stream.take() {
            // Without linger, so that dropping the socket sends a reset and not the end of stream.
            let _ = stream.set_zero_linger();
        }
        self.wake();
    }

    /// Takes the socket out, so that the other end receives nothing more.
    pub(crate) fn detach(&self) -> Option<TcpStream> {
        self.was_reset.set(true);
        self.stream.take()
    }

    /// The process has closed its end. Bytes that wait in the outward direction are still sent.
    pub(crate) fn close(self: &Rc<Wire>) {
        if !self.ends.dialled {
            let connection = self.connection;
            self.recorder.record(Some(self.own), Event::Ended { connection });
        }
        if self.outward.borrow().is_empty() {
            self.stream.take();
        } else {
            // Bytes still wait on the disturbed link: the end of the stream queues behind them.
            self.send_end();
        }
    }

    /// Retries the messages that are held.
    pub(crate) fn retry(&self) {
        self.inward.borrow_mut().retry(&self.tasks, (self.peer, self.own));
        self.outward.borrow_mut().retry(&self.tasks, (self.own, self.peer));
        self.wake();
    }

    fn wake(&self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn broken(&self) -> io::Result<()> {
        let broken = self.was_reset.get();
        if broken { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    fn is_calm(&self, way: (HostId, HostId)) -> bool {
        self.tasks.state().is_calm(way)
    }
}

/// Stores the waker of the waiting task, without a clone if it is unchanged.
fn wait(place: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    let mut place = place.borrow_mut();
    if place.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
        *place = Some(cx.waker().clone());
    }
}

/// The inward direction.
impl Wire {
    /// See [`AsyncRead::poll_read`].
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.broken()?;
        wait(&self.reader, cx);
        let way = (self.peer, self.own);
        let straight =
            !self.ends.takes_inward || (self.inward.borrow().is_empty() && self.is_calm(way));
        if straight {
            return self.poll_stream(cx, buf);
        }
        let mut lane = self.inward.borrow_mut();
        self.take_in(cx, &mut lane)?;
        ready!(lane.poll_front(cx, &self.tasks, way));
        let count = lane.front.len().min(buf.remaining());
        buf.put_slice(&lane.front[..count]);
        lane.consume(count);
        Poll::Ready(Ok(()))
    }

    fn poll_stream(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.stream.borrow_mut().as_mut() {
            Some(stream) => Pin::new(stream).poll_read(cx, buf),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Sends the bytes that the socket has into the disturbed link.
    fn take_in(&self, cx: &mut Context<'_>, lane: &mut Lane) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        while lane.waiting < MAX_WAITING && !lane.has_ended {
            let mut buf = ReadBuf::new(&mut chunk);
            match self.poll_stream(cx, &mut buf) {
                Poll::Pending => break,
                Poll::Ready(read) => read?,
            }
            let bytes = Bytes::copy_from_slice(buf.filled());
            let ends = bytes.is_empty();
            lane.send(bytes, &self.tasks, (self.peer, self.own));
            if ends {
                break;
            }
        }
        Ok(())
    }
}

/// The outward direction.
impl Wire {
    /// See [`AsyncWrite::poll_write`].
    pub(crate) fn poll_write(
        self: &Rc<Wire>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.broken()?;
        let way = (self.own, self.peer);
        // Bytes in the lane, or a pump that has not yet returned, come before these bytes.
        if self.outward.borrow().is_empty() && !self.is_pumped.get() && self.is_calm(way) {
            wait(&self.reader, cx);
            return match self.stream.borrow_mut().as_mut() {
                Some(stream) => Pin::new(stream).poll_write(cx, bytes),
                None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            };
        }
        let mut lane = self.outward.borrow_mut();
        if lane.waiting >= MAX_WAITING {
            wait(&self.reader, cx);
            return Poll::Pending;
        }
        lane.send(Bytes::copy_from_slice(bytes), &self.tasks, way);
        drop(lane);
        self.start_pump();
        Poll::Ready(Ok(bytes.len()))
    }

    /// See [`AsyncWrite::poll_shutdown`].
    pub(crate) fn poll_shutdown(self: &Rc<Wire>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.outward.borrow().is_empty() {
            self.send_end();
            return Poll::Ready(Ok(()));
        }
        match self.stream.borrow_mut().as_mut() {
            Some(stream) => Pin::new(stream).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn send_end(self: &Rc<Wire>) {
        self.outward.borrow_mut().send(Bytes::new(), &self.tasks, (self.own, self.peer));
        self.start_pump();
    }

    /// Starts the kernel task that sends waiting bytes, whatever the process does.
    fn start_pump(self: &Rc<Wire>) {
        if let Some(pump) = self.writer.take() {
            pump.wake();
        }
        if !self.is_pumped.replace(true) {
            let wire = Rc::clone(self);
            let pump = async move {
                std::future::poll_fn(|cx| wire.poll_pump(cx)).await;
                wire.is_pumped.set(false);
                wire.reader.take().into_iter().for_each(Waker::wake);
            };
            self.tasks.life(self.own, |life| life.spawn(Box::pin(pump), true));
        }
    }

    /// Writes the bytes that are due; ready when none wait any more.
    fn poll_pump(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut lane = self.outward.borrow_mut();
        loop {
            if self.was_reset.get() || (lane.is_empty() && lane.front.is_empty()) {
                return Poll::Ready(());
            }
            wait(&self.writer, cx);
            ready!(lane.poll_front(cx, &self.tasks, (self.own, self.peer)));
            if lane.has_ended {
                self.stream.take();
                return Poll::Ready(());
            }
            let written = match self.stream.borrow_mut().as_mut() {
                Some(stream) => ready!(Pin::new(stream).poll_write(cx, &lane.front)),
                None => return Poll::Ready(()),
            };
            match written {
                Ok(count) => lane.consume(count),
                Err(_) => return Poll::Ready(()),
            }
            if lane.waiting < MAX_WAITING {
                self.reader.take().into_iter().for_each(Waker::wake);
            }
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.wires.open.borrow_mut().remove(&self.id);
        if self.ends.dialled {
            self.wires.dialled.borrow_mut().remove(&self.connection.client);
        }
    }
}
