//! The platform of one host on the turmoil engine.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use lockstorm_platform::host::{
    Disk, Host, HostMutex, Listen, LocalFuture, Platform, Slowness, Stream,
};
use lockstorm_platform::rng::Purpose;
use lockstorm_platform::time::{Clock, Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId};
use turmoil::net::TcpStream;

use crate::engine::disk::HostDisk;
use crate::engine::tasks::life::Job;
use crate::engine::tasks::sleep::sleep;
use crate::engine::turmoil::network::CLIENT;
use crate::engine::turmoil::shared::TurmoilShared;
use crate::engine::turmoil::socket::{TurmoilAcceptor, TurmoilSocket};

/// See the head of this file.
pub(crate) struct TurmoilMachine {
    shared: Rc<TurmoilShared>,
    id: HostId,
    name: String,
}

impl TurmoilMachine {
    /// The host as the processes on host `id` see it.
    pub(crate) fn host(shared: &Rc<TurmoilShared>, id: HostId) -> Host {
        let name = shared.state().names.name(id).to_owned();
        Host::new(Rc::new(TurmoilMachine { shared: Rc::clone(shared), id, name }))
    }

    fn spawn_kernel(&self, task: LocalFuture<'static, ()>) -> Rc<Job> {
        self.shared.tasks.lives.borrow_mut()[usize::from(self.id.0)].spawn(task, true)
    }
}

impl Platform for TurmoilMachine {
    fn id(&self) -> HostId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn now(&self, clock: Clock) -> Nanos {
        self.shared.state().look(self.id, clock)
    }

    fn record(&self, event: Event) -> Stamp {
        self.shared.tasks.record(Some(self.id), event)
    }

    fn poll_struck(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.tasks.poll_struck(cx)
    }

    fn sleep_until(&self, clock: Clock, reading: Nanos) -> LocalFuture<'static, ()> {
        Box::pin(sleep(Rc::clone(&self.shared.tasks), self.id, clock, reading))
    }

    fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.shared.state().resolve(name)
    }

    fn connect(&self, to: SocketAddrV4) -> LocalFuture<'static, io::Result<Stream>> {
        let is_ours = self.shared.network.is_some();
        if is_ours && self.shared.state().names.at(*to.ip()).is_none() {
            return Box::pin(std::future::ready(Err(io::ErrorKind::HostUnreachable.into())));
        }
        let call = Rc::<RefCell<Call>>::default();
        let dial = dial(Rc::clone(&self.shared), self.id, to, Rc::clone(&call));
        // The kernel dials on, even if the caller is paused; a caller that gives up ends that.
        let kernel = OnDrop(self.spawn_kernel(Box::pin(dial)));
        let shared = Rc::clone(&self.shared);
        Box::pin(async move {
            let _kernel = kernel;
            let stream = std::future::poll_fn(|cx| call.borrow_mut().poll(cx.waker())).await?;
            Ok(TurmoilSocket::stream(&shared, CLIENT, stream))
        })
    }

    fn listen(&self, port: u16) -> io::Result<Box<dyn Listen>> {
        if !self.shared.tasks.lives.borrow_mut()[usize::from(self.id.0)].ports.insert(port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(Box::new(TurmoilAcceptor::open(&self.shared, self.id, port)))
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        self.shared.tasks.lives.borrow_mut()[usize::from(self.id.0)].spawn(task, false);
    }

    fn exit(&self) {
        self.shared.tasks.kill(self.id);
    }

    fn draw(&self, purpose: Purpose, ordinal: u64) -> u64 {
        self.shared.state().draw(self.id, purpose, ordinal)
    }

    fn slowness(&self) -> Slowness {
        self.shared.state().machine(self.id).slowness
    }

    fn slowed(&self, by: Slowness) {
        self.shared.state().machine(self.id).counters.slow(by);
    }

    fn disk(&self) -> Rc<dyn Disk> {
        Rc::new(HostDisk(Rc::clone(&self.shared.state().machine(self.id).disk)))
    }

    fn mutex(&self, name: &str) -> HostMutex {
        let mut state = self.shared.state();
        state.machine(self.id).mutexes.entry(name.to_owned()).or_default().clone()
    }
}

/// The result of a connect.
#[derive(Default)]
struct Call {
    result: Option<io::Result<TcpStream>>,
    waker: Option<Waker>,
}

impl Call {
    fn poll(&mut self, waker: &Waker) -> Poll<io::Result<TcpStream>> {
        match self.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                self.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }
}

/// The kernel's part of a connect. turmoil reports the result of the SYN at once; here the reply
/// first travels back through the plan's network.
async fn dial(shared: Rc<TurmoilShared>, from: HostId, to: SocketAddrV4, call: Rc<RefCell<Call>>) {
    let dialled = shared.network.as_ref().map(|network| network.borrow_mut().dial(from, to));
    let mut result = TcpStream::connect(SocketAddr::V4(to)).await;
    if let (Some(network), Some(dialled)) = (&shared.network, dialled) {
        let wire = dialled.get().expect("the SYN was seen before it was answered");
        if result.is_err() {
            network.borrow_mut().answer(&mut shared.state(), wire);
        }
        let answered =
            std::future::poll_fn(|cx| network.borrow_mut().poll_answered(wire, cx.waker()));
        result = answered.await.and(result);
    }
    let mut call = call.borrow_mut();
    call.result = Some(result);
    call.waker.take().into_iter().for_each(Waker::wake);
}

/// Cancels a task when its waiter is dropped.
struct OnDrop(Rc<Job>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
