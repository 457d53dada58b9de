//! The platform of one host on the live engine.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstorm_platform::host::{
    Disk, Host, HostMutex, Listen, LocalFuture, Platform, Slowness, Stream,
};
use lockstorm_platform::rng::Purpose;
use lockstorm_platform::time::{Clock, Nanos, Stamp};
use lockstorm_platform::trace::{Connection, Event, HostId};
use tokio::net::TcpSocket;

use crate::engine::disk::HostDisk;
use crate::engine::live::shared::LiveShared;
use crate::engine::live::socket::{LiveAcceptor, LiveSocket, v4};
use crate::engine::live::wire::Ends;
use crate::engine::tasks::sleep::sleep;

/// How long a connect that meets a cut link waits before the next check.
const AGAIN: Duration = Duration::from_millis(100);

/// See the head of this file.
pub(crate) struct LiveMachine {
    shared: Rc<LiveShared>,
    id: HostId,
    name: String,
}

impl LiveMachine {
    /// The host as the processes on host `id` see it.
    pub(crate) fn host(shared: &Rc<LiveShared>, id: HostId) -> Host {
        let name = shared.tasks.state().names.name(id).to_owned();
        Host::new(Rc::new(LiveMachine { shared: Rc::clone(shared), id, name }))
    }
}

impl Platform for LiveMachine {
    fn id(&self) -> HostId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn now(&self, clock: Clock) -> Nanos {
        self.shared.tasks.state().readings(self.id).of(clock)
    }

    fn record(&self, event: Event) -> Stamp {
        self.shared.recorder.record(Some(self.id), event)
    }

    fn poll_struck(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.tasks.poll_struck(cx)
    }

    fn sleep_until(&self, clock: Clock, reading: Nanos) -> LocalFuture<'static, ()> {
        Box::pin(sleep(Rc::clone(&self.shared.tasks), self.id, clock, reading))
    }

    fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.shared.tasks.state().resolve(name)
    }

    fn connect(&self, to: SocketAddrV4) -> LocalFuture<'static, io::Result<Stream>> {
        Box::pin(dial(Rc::clone(&self.shared), self.id, to))
    }

    fn listen(&self, port: u16) -> io::Result<Box<dyn Listen>> {
        let mut known = self.shared.addresses.borrow()[&self.id];
        known.set_port(port);
        self.shared.tasks.state().names.open_at(self.id, known);
        Ok(Box::new(LiveAcceptor::open(&self.shared, self.id, known)?))
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        self.shared.tasks.life(self.id, |life| life.spawn(task, false));
    }

    fn exit(&self) {
        self.shared.tasks.kill(self.id);
    }

    fn draw(&self, purpose: Purpose, ordinal: u64) -> u64 {
        self.shared.tasks.state().draw(self.id, purpose, ordinal)
    }

    fn slowness(&self) -> Slowness {
        self.shared.tasks.state().machine(self.id).slowness
    }

    fn disk(&self) -> Rc<dyn Disk> {
        Rc::new(HostDisk(Rc::clone(&self.shared.tasks.state().machine(self.id).disk)))
    }

    fn mutex(&self, name: &str) -> HostMutex {
        let mut state = self.shared.tasks.state();
        state.machine(self.id).mutexes.entry(name.to_owned()).or_default().clone()
    }

    fn keeps_words(&self) -> bool {
        true
    }
}

/// Connects as a machine of this world: its address is registered before the other machine sees it.
#[expect(clippy::disallowed_methods, reason = "here the world's time is the real one")]
async fn dial(shared: Rc<LiveShared>, own: HostId, to: SocketAddrV4) -> io::Result<Stream> {
    let peer = shared.tasks.state().names.of(to).ok_or(io::ErrorKind::HostUnreachable)?;
    // The operating system would complete the connect, so a cut link must delay it here.
    while shared.tasks.state().is_cut((own, peer)) || shared.tasks.state().is_cut((peer, own)) {
        tokio::time::sleep(AGAIN).await;
    }
    let socket = TcpSocket::new_v4()?;
    let ip = shared.source(own, to);
    socket.bind(SocketAddr::V4(SocketAddrV4::new(ip, 0)))?;
    let mut client = v4(socket.local_addr()?)?;
    if ip.is_unspecified() {
        client.set_ip(*to.ip());
    }
    shared.wires.dialled.borrow_mut().insert(client, own);
    let stream = socket.connect(SocketAddr::V4(to)).await.and_then(|stream| {
        stream.set_nodelay(true)?;
        Ok(stream)
    });
    match stream {
        Ok(stream) => {
            let connection = Connection { client, server: to };
            let ends = Ends { own, peer, takes_inward: false, dialled: true };
            Ok(LiveSocket::stream(shared.open(ends, connection, stream)))
        }
        Err(error) => {
            shared.wires.dialled.borrow_mut().remove(&client);
            Err(error)
        }
    }
}
