//! turmoil's streams and listeners behind the platform's traits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use lockstorm_platform::host::{Duplex, Listen, Stream};
use lockstorm_platform::trace::{Connection, HostId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

use crate::engine::tasks::life::Job;
use crate::engine::turmoil::network::{ConnectionId, Network, SERVER, v4};
use crate::engine::turmoil::shared::TurmoilShared;

/// One end of a connection; dropping it closes it.
pub(crate) struct TurmoilSocket {
    shared: Rc<TurmoilShared>,
    /// `None` if the network is the user's own.
    wire: Option<ConnectionId>,
    side: usize,
    stream: TcpStream,
}

impl TurmoilSocket {
    /// The platform's stream over turmoil's.
    pub(crate) fn stream(shared: &Rc<TurmoilShared>, side: usize, stream: TcpStream) -> Stream {
        let connection = name(&stream, side);
        let wire = shared.network.as_ref().map(|network| network.borrow().find(connection));
        let socket = TurmoilSocket { shared: Rc::clone(shared), wire, side, stream };
        Stream::new(Box::pin(socket), connection)
    }

    /// Calls `act` on the connection in the plan's network.
    fn in_network<T>(&self, act: impl FnOnce(&mut Network, ConnectionId) -> T) -> Option<T> {
        let (network, wire) = (self.shared.network.as_ref()?, self.wire?);
        Some(act(&mut network.borrow_mut(), wire))
    }

    fn broken(&self, cx: &Context<'_>) -> io::Result<()> {
        let broken =
            self.in_network(|network, wire| network.poll_broken(wire, self.side, cx.waker()));
        broken.unwrap_or(Ok(()))
    }

    fn wrote(&self) {
        self.in_network(|network, wire| network.wrote(wire, self.side));
    }
}

/// The connection of which `stream` is the `side`.
fn name(stream: &TcpStream, side: usize) -> Connection {
    let local = v4(stream.local_addr().expect("a stream has an address"));
    let peer = v4(stream.peer_addr().expect("a stream has a peer"));
    if side == SERVER {
        Connection { client: peer, server: local }
    } else {
        Connection { client: local, server: peer }
    }
}

impl AsyncRead for TurmoilSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.broken(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TurmoilSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.broken(cx)?;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        // Only now, because a write that is pending puts no message on the link.
        if matches!(written, Poll::Ready(Ok(_))) {
            self.wrote();
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wrote();
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Duplex for TurmoilSocket {
    fn tag(&self, tag: u32) {
        self.in_network(|network, wire| network.tag(wire, tag));
    }
}

impl Drop for TurmoilSocket {
    fn drop(&mut self) {
        // Before turmoil's stream is dropped: the network must expect the FIN that this sends.
        self.in_network(|network, wire| network.closes(wire, self.side));
    }
}

/// Connections that are established and not yet accepted by the process.
#[derive(Default)]
pub(crate) struct Backlog {
    streams: VecDeque<TcpStream>,
    waker: Option<Waker>,
}

/// A listening socket; dropping it refuses new connections and closes those not yet accepted.
pub(crate) struct TurmoilAcceptor {
    shared: Rc<TurmoilShared>,
    host: HostId,
    port: u16,
    backlog: Rc<RefCell<Backlog>>,
    kernel: Rc<Job>,
}

impl TurmoilAcceptor {
    /// Listens on a free port. The kernel completes connections for a paused process, which turmoil
    /// alone does not do.
    pub(crate) fn open(shared: &Rc<TurmoilShared>, host: HostId, port: u16) -> TurmoilAcceptor {
        let backlog = Rc::<RefCell<Backlog>>::default();
        let accept = accept(Rc::clone(shared), port, Rc::clone(&backlog));
        let kernel =
            shared.tasks.lives.borrow_mut()[usize::from(host.0)].spawn(Box::pin(accept), true);
        TurmoilAcceptor { shared: Rc::clone(shared), host, port, backlog, kernel }
    }
}

/// The kernel's part of listening.
async fn accept(shared: Rc<TurmoilShared>, port: u16, backlog: Rc<RefCell<Backlog>>) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await;
    let listener = listener.expect("a machine's ports are kept apart");
    loop {
        let (stream, _) = listener.accept().await.expect("turmoil's listeners do not fail");
        if let Some(network) = &shared.network {
            let mut network = network.borrow_mut();
            let wire = network.find(name(&stream, SERVER));
            network.answer(&mut shared.state(), wire);
        }
        let mut backlog = backlog.borrow_mut();
        backlog.streams.push_back(stream);
        backlog.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl Listen for TurmoilAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let mut backlog = self.backlog.borrow_mut();
        let Some(stream) = backlog.streams.pop_front() else {
            backlog.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        drop(backlog);
        Poll::Ready(Ok(TurmoilSocket::stream(&self.shared, SERVER, stream)))
    }
}

impl Drop for TurmoilAcceptor {
    fn drop(&mut self) {
        // The kernel's task owns turmoil's listener, which occupies the port.
        self.kernel.cancel();
        self.shared.tasks.lives.borrow_mut()[usize::from(self.host.0)].ports.remove(&self.port);
    }
}
