//! Real streams and listeners behind the platform's traits.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lockstorm_platform::host::{Duplex, Listen, Stream};
use lockstorm_platform::trace::{Connection, HostId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

use crate::engine::live::shared::LiveShared;
use crate::engine::live::wire::{Ends, Wire};

/// How long a listener waits after a failed accept or bind: no descriptor is left, or its port is
/// not free again yet.
const REST: Duration = Duration::from_millis(50);

/// One end of a connection; dropping it closes it.
pub(crate) struct LiveSocket {
    wire: Rc<Wire>,
}

impl LiveSocket {
    /// The platform's stream over a wire.
    pub(crate) fn stream(wire: Rc<Wire>) -> Stream {
        let connection = wire.connection;
        Stream::new(Box::pin(LiveSocket { wire }), connection)
    }
}

impl AsyncRead for LiveSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.wire.poll_read(cx, buf)
    }
}

impl AsyncWrite for LiveSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.wire.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_shutdown(cx)
    }
}

impl Duplex for LiveSocket {
    fn tag(&self, _: u32) {}
}

impl Drop for LiveSocket {
    fn drop(&mut self) {
        self.wire.close();
    }
}

/// A listening socket; dropping it refuses new connections.
pub(crate) struct LiveAcceptor {
    shared: Rc<LiveShared>,
    host: HostId,
    known: SocketAddrV4,
    /// `None` while the port is not free again after a restart.
    listener: Option<Rc<TcpListener>>,
    resting: Option<Pin<Box<Sleep>>>,
}

impl LiveAcceptor {
    /// Listens at the address by which peers know the host. If another process has taken the port
    /// while this process was dead, waits for it.
    pub(crate) fn open(
        shared: &Rc<LiveShared>,
        host: HostId,
        known: SocketAddrV4,
    ) -> io::Result<LiveAcceptor> {
        let shared = Rc::clone(shared);
        let mut acceptor = LiveAcceptor { shared, host, known, listener: None, resting: None };
        match acceptor.bind() {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => Err(error),
            _ => Ok(acceptor),
        }
    }

    fn bind(&mut self) -> io::Result<()> {
        let listener = self.shared.ports.borrow_mut().listener(self.known)?;
        let listener = Rc::new(TcpListener::from_std(listener)?);
        let mut listeners = self.shared.listeners.borrow_mut();
        let listeners = listeners.entry(self.host).or_default();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Rc::downgrade(&listener));
        self.listener = Some(listener);
        Ok(())
    }

    fn take(&self, stream: TcpStream, client: SocketAddr) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let client = v4(client)?;
        let ours = self.shared.wires.dialled.borrow().get(&client).copied();
        let outside = self.shared.tasks.state().names.of(client);
        let peer = ours.or(outside).unwrap_or(self.host);
        let ends = Ends { own: self.host, peer, takes_inward: ours.is_none(), dialled: false };
        let connection = Connection { client, server: self.known };
        Ok(LiveSocket::stream(self.shared.open(ends, connection, stream)))
    }

    #[expect(clippy::disallowed_methods, reason = "here the world's time is the real one")]
    fn rest(&mut self) {
        self.resting = Some(Box::pin(tokio::time::sleep(REST)));
    }
}

impl Listen for LiveAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        loop {
            if let Some(resting) = &mut self.resting {
                ready!(pin!(resting).as_mut().poll(cx));
                self.resting = None;
            }
            let Some(listener) = &self.listener else {
                if self.bind().is_err() {
                    self.rest();
                }
                continue;
            };
            match ready!(listener.poll_accept(cx)) {
                // A connection that is already closed again needs no handling.
                Ok((stream, client)) => match self.take(stream, client) {
                    Ok(stream) => return Poll::Ready(Ok(stream)),
                    Err(_) => continue,
                },
                Err(_) => self.rest(),
            }
        }
    }
}

/// The address as IPv4.
pub(crate) fn v4(address: SocketAddr) -> io::Result<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}
