//! The platform of one host on the event engine.

use std::io;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use lockstorm_platform::host::{
    Disk, Host, HostMutex, Listen, LocalFuture, Platform, Slowness, Stream,
};
use lockstorm_platform::rng::Purpose;
use lockstorm_platform::time::{Clock, Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId};

use crate::engine::disk::HostDisk;
use crate::engine::event::connection::{CLIENT, Listening};
use crate::engine::event::shared::EventShared;
use crate::engine::event::stream::{EventAcceptor, EventSocket};

/// See the head of this file.
pub struct EventMachine {
    shared: Rc<EventShared>,
    id: HostId,
    name: String,
}

impl EventMachine {
    /// The host as the processes on host `id` see it.
    pub fn host(shared: &Rc<EventShared>, id: HostId) -> Host {
        let name = shared.kernel.borrow().state.names.name(id).to_owned();
        Host::new(Rc::new(EventMachine { shared: Rc::clone(shared), id, name }))
    }
}

impl Platform for EventMachine {
    fn id(&self) -> HostId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn now(&self, clock: Clock) -> Nanos {
        self.shared.kernel.borrow_mut().state.look(self.id, clock)
    }

    fn record(&self, event: Event) -> Stamp {
        self.shared.kernel.borrow_mut().record(self.id, event)
    }

    fn poll_struck(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.shared.kernel.borrow().state.strikes.is_empty() {
            return Poll::Ready(());
        }
        // Woken at once, because the fault strikes before the engine runs any task.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn sleep_until(&self, clock: Clock, reading: Nanos) -> LocalFuture<'static, ()> {
        let shared = Rc::clone(&self.shared);
        Box::pin(Sleep { shared, host: self.id, clock, reading, timer: None })
    }

    fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.shared.kernel.borrow().state.resolve(name)
    }

    fn connect(&self, to: SocketAddrV4) -> LocalFuture<'static, io::Result<Stream>> {
        let (shared, from) = (Rc::clone(&self.shared), self.id);
        Box::pin(async move {
            let connection = shared.kernel.borrow_mut().connect(from, to);
            let connection = connection.ok_or(io::ErrorKind::HostUnreachable)?;
            // From here on, dropping the future closes the connection.
            let stream = EventSocket::stream(&shared, connection, CLIENT);
            std::future::poll_fn(|cx| {
                match shared.kernel.borrow_mut().connected(connection, cx.waker()) {
                    Some(result) => Poll::Ready(result),
                    None => Poll::Pending,
                }
            })
            .await?;
            Ok(stream)
        })
    }

    fn listen(&self, port: u16) -> io::Result<Box<dyn Listen>> {
        let mut kernel = self.shared.kernel.borrow_mut();
        let listening = &mut kernel.host(self.id).listening;
        if listening.contains_key(&port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        listening.insert(port, Listening::default());
        Ok(Box::new(EventAcceptor { shared: Rc::clone(&self.shared), host: self.id, port }))
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        let EventShared { executor, kernel, .. } = &*self.shared;
        executor.borrow_mut().spawn(&mut kernel.borrow_mut(), self.id, task);
    }

    fn exit(&self) {
        self.shared.exited.borrow_mut().push(self.id);
    }

    fn draw(&self, purpose: Purpose, ordinal: u64) -> u64 {
        self.shared.kernel.borrow_mut().state.draw(self.id, purpose, ordinal)
    }

    fn slowness(&self) -> Slowness {
        self.shared.kernel.borrow_mut().state.machine(self.id).slowness
    }

    fn slowed(&self, by: Slowness) {
        self.shared.kernel.borrow_mut().state.machine(self.id).counters.slow(by);
    }

    fn disk(&self) -> Rc<dyn Disk> {
        let files = Rc::clone(&self.shared.kernel.borrow_mut().state.machine(self.id).disk);
        Rc::new(HostDisk(files))
    }

    fn mutex(&self, name: &str) -> HostMutex {
        let mut kernel = self.shared.kernel.borrow_mut();
        kernel.state.machine(self.id).mutexes.entry(name.to_owned()).or_default().clone()
    }
}

/// Waits until a clock reads at least `reading`. Frees its timer when dropped.
struct Sleep {
    shared: Rc<EventShared>,
    host: HostId,
    clock: Clock,
    reading: Nanos,
    timer: Option<u32>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = &mut *self;
        let mut kernel = sleep.shared.kernel.borrow_mut();
        if let Some(timer) = sleep.timer {
            if kernel.still_armed(timer, sleep.clock, sleep.reading, cx.waker()) {
                return Poll::Pending;
            }
            kernel.disarm(timer);
        }
        sleep.timer = kernel.arm(sleep.host, sleep.clock, sleep.reading, cx.waker());
        if sleep.timer.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.shared.kernel.borrow_mut().disarm(timer);
        }
    }
}
