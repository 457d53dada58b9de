//! What a process sees of its machine, and nothing else.
//!
//! Nodes, locks, workloads and resources reach clocks, network, disk and chance through a
//! [`Host`] only. Each engine implements [`Platform`]; the facade keeps boxes and the engine's
//! name out of the code above it. Everything runs on one thread.

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
use crate::time::{Clock, Nanos, Readings, Stamp};
use crate::trace::{Connection, Event, HostId};

/// A future that stays on its thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What an engine offers to the processes of one host.
///
/// Each method has its contract at the method of the same name of [`Host`].
pub trait Platform {
    fn id(&self) -> HostId;
    fn name(&self) -> &str;
    fn readings(&self) -> Readings;
    fn record(&self, event: Event) -> Stamp;
    /// Ready when no fault waits to strike in this instant.
    fn poll_struck(&self, cx: &mut Context<'_>) -> Poll<()>;
    fn sleep_until(&self, clock: Clock, reading: Nanos) -> LocalFuture<'static, ()>;
    fn resolve(&self, name: &str) -> Option<SocketAddrV4>;
    fn connect(&self, to: SocketAddrV4) -> LocalFuture<'static, io::Result<Stream>>;
    fn listen(&self, port: u16) -> io::Result<Box<dyn Listen>>;
    fn spawn(&self, task: LocalFuture<'static, ()>);
    fn exit(&self);
    fn draw(&self, purpose: Purpose, ordinal: u64) -> u64;
    fn slowness(&self) -> Slowness;
    /// A command or a script took so much longer.
    fn slowed(&self, _by: Slowness) {}
    fn disk(&self) -> Rc<dyn Disk>;
    fn mutex(&self, name: &str) -> HostMutex;
    /// Whether the trace is to hold what requests say, since nobody else will write it down.
    fn keeps_words(&self) -> bool {
        false
    }
}

/// A machine as the process on it sees it. Cheap to clone.
#[derive(Clone)]
pub struct Host(Rc<dyn Platform>);

impl Host {
    /// The host that `platform` stands for.
    pub fn new(platform: Rc<dyn Platform>) -> Host {
        Host(platform)
    }

    /// Its number in the world.
    pub fn id(&self) -> HostId {
        self.0.id()
    }

    /// Its name: `n1`, `c2`, `resource`.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// What its three clocks read now, in nanoseconds.
    pub fn readings(&self) -> Readings {
        self.0.readings()
    }

    /// What one of its clocks reads now, in nanoseconds.
    pub fn now(&self, clock: Clock) -> Nanos {
        self.readings().of(clock)
    }

    /// Writes an event into the trace. Faults anchored to it strike when this task next yields;
    /// use [`Host::mark`] where they must strike before the next line.
    pub fn record(&self, event: Event) -> Stamp {
        self.0.record(event)
    }

    /// Writes an event into the trace and lets the faults that are anchored to it strike first.
    pub async fn mark(&self, event: Event) -> Stamp {
        let stamp = self.record(event);
        self.struck().await;
        stamp
    }

    /// Lets the faults strike that are anchored to what this task has just recorded.
    pub async fn struck(&self) {
        std::future::poll_fn(|cx| self.0.poll_struck(cx)).await;
    }

    /// Names a point in a lock's code: a trace event, an anchor, a place where faults strike.
    /// Computation takes no time in the simulation; without steps nothing could happen between
    /// two lines.
    pub async fn step(&self, label: &'static str) {
        self.mark(Event::Step { label }).await;
    }

    /// Sleeps for `length` nanoseconds of this host's monotonic clock.
    pub async fn sleep(&self, length: Nanos) {
        let until = self.now(Clock::Monotonic).saturating_add(length);
        self.sleep_until(Clock::Monotonic, until).await;
    }

    /// Sleeps until `clock` reads at least `reading`. A clock that is stepped or stops moves
    /// the end with it.
    pub async fn sleep_until(&self, clock: Clock, reading: Nanos) {
        self.0.sleep_until(clock, reading).await;
    }

    /// Runs `work` for at most `length` nanoseconds of the monotonic clock; `None` if it was
    /// not done by then. A result that is ready in time is always taken.
    pub async fn timeout<T>(&self, length: Nanos, work: impl Future<Output = T>) -> Option<T> {
        let until = self.now(Clock::Monotonic).saturating_add(length);
        let mut work = std::pin::pin!(work);
        let mut alarm: Option<LocalFuture<'static, ()>> = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            let alarm = alarm.get_or_insert_with(|| self.0.sleep_until(Clock::Monotonic, until));
            alarm.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    /// The address that a name stands for now: a host's name, or `master` where a failover
    /// moves it.
    pub fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.0.resolve(name)
    }

    /// Opens a TCP connection.
    ///
    /// # Errors
    /// `ConnectionRefused` where no process listens. It hangs into a partition: use a time-out.
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

    /// Starts a task of this host's process. It dies with the process.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(Box::pin(task));
    }

    /// Ends this host's process: its tasks are dropped, and with them its connections, when the one
    /// that says so next yields. The machine stays up and refuses connections.
    pub fn exit(&self) {
        self.0.exit();
    }

    /// A draw of chance for this host, addressed by purpose and ordinal.
    pub fn draw(&self, purpose: Purpose, ordinal: u64) -> u64 {
        self.0.draw(purpose, ordinal)
    }

    /// How slow faults make this host at present.
    pub fn slowness(&self) -> Slowness {
        self.0.slowness()
    }

    /// Notes that a command or a script took so much longer for that.
    pub fn slowed(&self, by: Slowness) {
        self.0.slowed(by);
    }

    /// The host's disk.
    pub fn disk(&self) -> Rc<dyn Disk> {
        self.0.disk()
    }

    /// Whether requests are to be recorded with all their words: where clients are not of this
    /// world, the node alone can tell what they wanted.
    pub fn keeps_words(&self) -> bool {
        self.0.keeps_words()
    }

    /// The mutex of this name on this host: what `flock` or a language's lock gives. Free again
    /// when its guard is dropped, by death too.
    pub async fn lock_mutex(&self, name: &str) -> HostMutexGuard {
        self.0.mutex(name).lock().await
    }
}

/// Extra time that faults make a node spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowness {
    /// For each command, in nanoseconds.
    pub command: Nanos,
    /// For each script, in nanoseconds.
    pub script: Nanos,
}

/// A byte stream of an engine.
pub trait Duplex: AsyncRead + AsyncWrite {
    /// Says which operation and attempt the following bytes serve, so that the draws for their
    /// messages have an address that no other fault moves. The replies inherit it.
    fn tag(&self, tag: u32);
}

/// One end of a TCP connection.
pub struct Stream {
    io: Pin<Box<dyn Duplex>>,
    connection: Connection,
}

impl Stream {
    /// An end of `connection` that moves bytes through `io`.
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
    /// The next connection that has come up.
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

/// A host's disk: files that grow at their end. What was written survives the death of the
/// process; what was synced survives the loss of power.
pub trait Disk {
    /// The whole file, as a process reads it now; empty if there is none.
    fn read(&self, file: &str) -> Vec<u8>;
    /// Appends to the file in the page cache.
    ///
    /// # Errors
    /// `StorageFull` if the disk takes nothing more.
    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()>;
    /// Puts `bytes` in the place of the whole file, at once (a rename over it).
    ///
    /// # Errors
    /// As [`Disk::append`].
    fn replace(&self, file: &str, bytes: &[u8]) -> io::Result<()>;
    /// Puts a mark on the file: a number that shares the fate of its bytes, for evidence alone.
    fn mark(&self, file: &str, mark: u64);
    /// The mark of what [`Disk::read`] reads; 0 if there is none.
    fn mark_of(&self, file: &str) -> u64;
    /// Makes all that was appended survive a loss of power.
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
    /// Waits until the mutex is free and takes it.
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

/// The right to a [`HostMutex`]; dropping it frees the mutex.
pub struct HostMutexGuard(HostMutex);

impl Drop for HostMutexGuard {
    fn drop(&mut self) {
        let held = self.0.0.held.replace(false);
        debug_assert!(held, "a mutex is held until its guard is dropped");
        for waker in self.0.0.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }
}
