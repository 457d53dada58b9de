//! A host behind a gatekeeper, which sees each call to the host and each task that is started on
//! it. For untrusted code, such as a user's own lock.

use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::host::{Disk, Host, HostMutex, Listen, LocalFuture, Platform, Slowness, Stream};
use crate::rng::Purpose;
use crate::time::{Clock, Nanos, Stamp};
use crate::trace::{Event, HostId};

/// Observes the calls of a process to its host.
pub trait Gatekeeper {
    /// Called before each call. It may unwind out of a process that calls endlessly.
    fn pass(&self);
    /// The future to start in place of a task.
    fn admit(&self, task: LocalFuture<'static, ()>) -> LocalFuture<'static, ()>;
}

struct Guarded {
    platform: Rc<dyn Platform>,
    keeper: Rc<dyn Gatekeeper>,
}

impl Host {
    /// The same machine behind a gatekeeper.
    pub fn behind(&self, keeper: Rc<dyn Gatekeeper>) -> Host {
        Host::new(Rc::new(Guarded { platform: Rc::clone(&self.0), keeper }))
    }
}

impl Guarded {
    fn passed(&self) -> &dyn Platform {
        self.keeper.pass();
        &*self.platform
    }
}

impl Platform for Guarded {
    fn id(&self) -> HostId {
        self.platform.id()
    }

    fn name(&self) -> &str {
        self.platform.name()
    }

    fn now(&self, clock: Clock) -> Nanos {
        self.passed().now(clock)
    }

    fn record(&self, event: Event) -> Stamp {
        self.passed().record(event)
    }

    fn poll_struck(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.passed().poll_struck(cx)
    }

    fn sleep_until(&self, clock: Clock, reading: Nanos) -> LocalFuture<'static, ()> {
        self.passed().sleep_until(clock, reading)
    }

    fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.passed().resolve(name)
    }

    fn connect(&self, to: SocketAddrV4) -> LocalFuture<'static, io::Result<Stream>> {
        self.passed().connect(to)
    }

    fn listen(&self, port: u16) -> io::Result<Box<dyn Listen>> {
        self.passed().listen(port)
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        let task = self.keeper.admit(task);
        self.passed().spawn(task);
    }

    fn exit(&self) {
        self.passed().exit();
    }

    fn draw(&self, purpose: Purpose, ordinal: u64) -> u64 {
        self.passed().draw(purpose, ordinal)
    }

    fn slowness(&self) -> Slowness {
        self.passed().slowness()
    }

    fn disk(&self) -> Rc<dyn Disk> {
        self.passed().disk()
    }

    fn mutex(&self, name: &str) -> HostMutex {
        self.passed().mutex(name)
    }

    fn keeps_words(&self) -> bool {
        self.platform.keeps_words()
    }
}
