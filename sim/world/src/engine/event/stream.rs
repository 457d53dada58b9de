//! One side of a connection as an `AsyncRead` + `AsyncWrite`, and the listening socket.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use lockstorm_platform::host::{Duplex, Listen, Stream};
use lockstorm_platform::trace::HostId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::engine::event::connection::SERVER;
use crate::engine::event::shared::EventShared;

/// A side of a connection; dropping it closes it.
pub struct EventSocket {
    shared: Rc<EventShared>,
    connection: u32,
    side: u8,
}

impl EventSocket {
    /// The stream for one side of a connection.
    pub fn stream(shared: &Rc<EventShared>, connection: u32, side: u8) -> Stream {
        let id = shared.kernel.borrow().connections.id(connection);
        Stream::new(Box::pin(EventSocket { shared: Rc::clone(shared), connection, side }), id)
    }
}

impl AsyncRead for EventSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut kernel = self.shared.kernel.borrow_mut();
        match kernel.read(self.connection, self.side, buf, cx.waker()) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for EventSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut kernel = self.shared.kernel.borrow_mut();
        Poll::Ready(kernel.write(self.connection, self.side, bytes).map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.kernel.borrow_mut().shut_down(self.connection, self.side);
        Poll::Ready(Ok(()))
    }
}

impl Duplex for EventSocket {
    fn tag(&self, tag: u32) {
        self.shared.kernel.borrow_mut().tag(self.connection, tag);
    }
}

impl Drop for EventSocket {
    fn drop(&mut self) {
        self.shared.kernel.borrow_mut().close(self.connection, self.side);
    }
}

/// A listening socket; dropping it refuses new connections and closes those not yet accepted.
pub struct EventAcceptor {
    pub shared: Rc<EventShared>,
    pub host: HostId,
    pub port: u16,
}

impl Listen for EventAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let mut kernel = self.shared.kernel.borrow_mut();
        let listening = kernel.host(self.host).listening.get_mut(&self.port);
        let listening = listening.expect("a port is listened on until its socket is dropped");
        let Some(connection) = listening.queue.pop_front() else {
            listening.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        drop(kernel);
        Poll::Ready(Ok(EventSocket::stream(&self.shared, connection, SERVER)))
    }
}

impl Drop for EventAcceptor {
    fn drop(&mut self) {
        let mut kernel = self.shared.kernel.borrow_mut();
        let listening = kernel.host(self.host).listening.remove(&self.port);
        for connection in listening.into_iter().flat_map(|listening| listening.queue) {
            kernel.close(connection, SERVER);
        }
    }
}
