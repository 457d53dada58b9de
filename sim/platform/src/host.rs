//! Everything that a process sees of its machine.
//!
//! Nodes, locks, workloads and resources reach clocks, network, disk and randomness only through a
//! [`Host`]. Each engine implements [`Platform`]; `Host` hides the boxes and the engine from the
//! code above it. Everything runs on one thread.

pub mod guarded;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::rng::Purpose;
use crate::time::{Clock, Nanos, Stamp};
use crate::trace::{Connection, Event, HostId};

/// A future that stays on its thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What an engine provides to the processes of one host.
///
/// The contract of each method is at the method of the same name of [`Host`].
pub trait Platform {
    fn id(&self) -> HostId;
    fn name(&self) -> &str;
    fn now(&self, clock: Clock) -> Nanos;
    fn record(&self, event: Event) -> Stamp;
    /// Ready when no fault is waiting to strike at this instant.
    fn poll_struck(&self, cx: &mut Context<'_>) -> Poll<()>;
    fn sleep_until(&self, clock: Clock, reading: Nanos) -> LocalFuture<'static, ()>;
    fn resolve(&self, name: &str) -> Option<SocketAddrV4>;
    fn connect(&self, to: SocketAddrV4) -> LocalFuture<'static, io::Result<Stream>>;
    fn listen(&self, port: u16) -> io::Result<Box<dyn Listen>>;
    fn spawn(&self, task: LocalFuture<'static, ()>);
    fn exit(&self);
    fn draw(&self, purpose: Purpose, ordinal: u64) -> u64;
    fn slowness(&self) -> Slowness;
    /// A command or a script took this much longer.
    fn slowed(&self, _by: Slowness) {}
    fn disk(&self) -> Rc<dyn Disk>;
    fn mutex(&self, name: &str) -> HostMutex;
    /// Whether the trace keeps the arguments of requests: no client of this world records them.
    fn keeps_words(&self) -> bool {
        false
    }
}

/// A machine as its process sees it. Cheap to clone.
#[derive(Clone)]
pub struct Host(Rc<dyn Platform>);

impl Host {
    /// The host that `platform` provides.
    pub fn new(platform: Rc<dyn Platform>) -> Host {
        Host(platform)
    }

    /// The host's number in the world.
    pub fn id(&self) -> HostId {
        self.0.id()
    }

    /// The host's name: `n1`, `c2`, `resource`.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The current reading of one of the host's clocks, in nanoseconds.
    pub fn now(&self, clock: Clock) -> Nanos {
        self.0.now(clock)
    }

    /// Records an event in the trace. Faults anchored to it strike when this task next yields; use
    /// [`Host::mark`] if they must strike before the next line.
    pub fn record(&self, event: Event) -> Stamp {
        self.0.record(event)
    }

    /// Records an event in the trace and lets the faults that are anchored to it strike first.
    ///
    /// Recorded at the call: the future of each request would have room for the event otherwise.
    pub fn mark(&self, event: Event) -> impl Future<Output = Stamp> {
        let stamp = self.record(event);
        async move {
            self.struck().await;
            stamp
        }
    }

    /// Lets the faults strike that are anchored to what this task has just recorded.
    pub async fn struck(&self) {
        std::future::poll_fn(|cx| self.0.poll_struck(cx)).await;
    }

    /// A named point in a lock's code: a trace event, an anchor, a place where faults strike.
    /// Computation takes no time in the simulation; without steps nothing could happen between two
    /// lines.
    pub async fn step(&self, label: &'static str) {
        self.mark(Event::Step { label }).await;
    }

    /// Sleeps for `length` nanoseconds of this host's monotonic clock.
    pub async fn sleep(&self, length: Nanos) {
        let until = self.now(Clock::Monotonic).saturating_add(length);
        self.sleep_until(Clock::Monotonic, until).await;
    }

    /// Sleeps until `clock` reads at least `reading`. A step or a stop of the clock moves the end
    /// of the sleep.
    pub async fn sleep_until(&self, clock: Clock, reading: Nanos) {
        self.0.sleep_until(clock, reading).await;
    }

    /// Runs `work` for at most `length` nanoseconds of the monotonic clock; `None` if it is not
    /// done by then. A result that is ready in time is always returned.
    pub async fn timeout<T>(&self, length: Nanos, work: impl Future<Output = T>) -> Option<T> {
        let until = self.now(Clock::Monotonic).saturating_add(length);
        let mut work = std::pin::pin!(work);
        let mut alarm: Option<LocalFuture<'static, ()>> = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            // Created late, so that work that is ready at once sets no timer.
            let alarm = alarm.get_or_insert_with(|| self.0.sleep_until(Clock::Monotonic, until));
            alarm.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    /// The current address of a name: a host's name, or `master` where a failover redirects it.
    pub fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.0.resolve(name)
    }

    /// Opens a TCP connection.
    ///
    /// # Errors
    /// `ConnectionRefused` where no process listens. It hangs in a partition: use a timeout.
    pub async fn connect(&self, to: SocketAddrV4) -> io::Result<Stream> {
        self.0.connect(to).await
    }

    /// Listens on a TCP port of this host.
    ///
    /// # Errors
    /// `AddrInUse` if another task listens there.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        self.0.listen(port).map(Listener)
    }

    /// Starts a task of this host's process. It ends with the process.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(Box::pin(task));
    }

    /// Exits this host's process: its tasks are dropped, and with them its connections, when the
    /// calling task next yields. The machine stays up and refuses connections.
    pub fn exit(&self) {
        self.0.exit();
    }

    /// A random draw for this host, addressed by purpose and ordinal.
    pub fn draw(&self, purpose: Purpose, ordinal: u64) -> u64 {
        self.0.draw(purpose, ordinal)
    }

    /// How much faults currently slow this host.
    pub fn slowness(&self) -> Slowness {
        self.0.slowness()
    }

    /// Notes that a command or a script took this much longer because of a fault.
    pub fn slowed(&self, by: Slowness) {
        self.0.slowed(by);
    }

    /// The host's disk.
    pub fn disk(&self) -> Rc<dyn Disk> {
        self.0.disk()
    }

    /// Whether requests are recorded with all their arguments: if the clients are outside this
    /// world, only the node's record shows what they requested.
    pub fn keeps_words(&self) -> bool {
        self.0.keeps_words()
    }

    /// The mutex of this name on this host, such as `flock` or a language's lock provides. It is
    /// released when its guard is dropped, also by a crash.
    pub async fn lock_mutex(&self, name: &str) -> HostMutexGuard {
        self.0.mutex(name).lock().await
    }
}

/// Extra time that faults add to a node's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowness {
    /// Per command, in nanoseconds.
    pub command: Nanos,
    /// Per script, in nanoseconds.
    pub script: Nanos,
}

/// A byte stream of an engine.
pub trait Duplex: AsyncRead + AsyncWrite {
    /// Sets the operation and attempt that subsequent bytes serve, so that the draws for their
    /// messages have an address that no other fault changes. The replies inherit it.
    fn tag(&self, tag: u32);
}

/// One end of a TCP connection.
pub struct Stream {
    io: Pin<Box<dyn Duplex>>,
    connection: Connection,
}

impl Stream {
    /// One end of `connection`, which moves bytes through `io`.
    pub fn new(io: Pin<Box<dyn Duplex>>, connection: Connection) -> Stream {
        Stream { io, connection }
    }

    /// Which connection this is.
    pub fn connection(&self) -> Connection {
        self.connection
    }

    /// See [`Duplex::tag`].
    pub fn tag(&self, tag: u32) {
        self.io.tag(tag);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_shutdown(cx)
    }
}

/// A listening socket of an engine.
pub trait Listen {
    /// The next connection that was established.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Stream>>;
}

/// A listening TCP socket.
pub struct Listener(Box<dyn Listen>);

impl Listener {
    /// Waits for the next connection.
    ///
    /// # Errors
    /// What the engine's network reports.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        std::future::poll_fn(|cx| self.0.poll_accept(cx)).await
    }
}

/// A host's disk: append-only files. Written data survives a crash of the process; synced data
/// survives a loss of power.
pub trait Disk {
    /// The whole file as a process reads it now; empty if there is none.
    fn read(&self, file: &str) -> Vec<u8>;
    /// Appends to the file in the page cache.
    ///
    /// # Errors
    /// `StorageFull` if the disk is full.
    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()>;
    /// Replaces the whole file with `bytes` atomically (a rename over it).
    ///
    /// # Errors
    /// As [`Disk::append`].
    fn replace(&self, file: &str, bytes: &[u8]) -> io::Result<()>;
    /// Sets a mark on the file: a number that is kept and lost together with its bytes, for
    /// evidence alone.
    fn mark(&self, file: &str, mark: u64);
    /// The mark of the data that [`Disk::read`] returns; 0 if there is none.
    fn mark_of(&self, file: &str) -> u64;
    /// Makes all appended data survive a loss of power (fsync).
    fn sync(&self, file: &str) -> LocalFuture<'static, ()>;
}

/// A mutex inside one host.
#[derive(Clone, Default)]
pub struct HostMutex(Rc<MutexState>);

#[derive(Default)]
struct MutexState {
    held: Cell<bool>,
    waiting: RefCell<VecDeque<Waker>>,
}

impl HostMutex {
    /// Waits until the mutex is free and locks it.
    pub async fn lock(self) -> HostMutexGuard {
        std::future::poll_fn(|cx| {
            if self.0.held.replace(true) {
                self.0.waiting.borrow_mut().push_back(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        HostMutexGuard(self)
    }
}

/// Ownership of a locked [`HostMutex`]; dropping it releases the mutex.
pub struct HostMutexGuard(HostMutex);

impl Drop for HostMutexGuard {
    fn drop(&mut self) {
        let held = self.0.0.held.replace(false);
        debug_assert!(held, "a mutex is held until its guard is dropped");
        // All are woken, because the future of any one of them may have been dropped meanwhile.
        for waker in self.0.0.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }
}
