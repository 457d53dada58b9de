//! The machine of a service as a lock sees it: the clocks, the network and the randomness of the
//! operating system, on a runtime of tokio.
//!
//! Nothing is recorded and no fault strikes here. A lock has no disk and no port in production.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::task::{Context, Poll};

use lockstorm_platform::host::{Disk, HostMutex, Listen, LocalFuture, Platform, Slowness, Stream};
use lockstorm_platform::rng::Purpose;
use lockstorm_platform::time::{Clock, Instant, Nanos, Readings, Stamp};
use lockstorm_platform::trace::{Event, HostId};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::resp_client::RespClient;
use tokio::task::AbortHandle;

use crate::lock::token;
use crate::production::{chance, socket, system_clock};

thread_local! {
    /// The mutexes by their names: those of a thread, since a lock does not leave its thread.
    static MUTEXES: RefCell<BTreeMap<String, HostMutex>> = RefCell::default();
}

/// See the head of this file.
pub(crate) struct SystemHost {
    name: String,
    /// The addresses of the names that the lock may connect to.
    addresses: BTreeMap<String, SocketAddrV4>,
    login: Option<Rc<Login>>,
    /// The tasks that the acquire under way has started; `None` between acquires.
    gathered: RefCell<Option<Vec<AbortHandle>>>,
    /// Which node could not be connected to since that acquire began, and why: the last one.
    unconnected: Rc<RefCell<Option<String>>>,
}

/// What a node requires before the first request of a connection.
#[derive(Clone)]
pub(crate) struct Login {
    /// The user; `None` for the default user.
    pub(crate) user: Option<String>,
    /// Its password.
    pub(crate) password: String,
    /// Where it is not sent: Sentinels have users of their own.
    pub(crate) except: Vec<SocketAddrV4>,
}

impl SystemHost {
    /// A host that knows these names.
    pub(crate) fn new(
        addresses: BTreeMap<String, SocketAddrV4>,
        login: Option<Login>,
    ) -> SystemHost {
        SystemHost {
            // Locks that count their parties by name need one that no other process has.
            name: format!("{:016x}", chance::of_process()),
            addresses,
            login: login.map(Rc::new),
            gathered: RefCell::new(None),
            unconnected: Rc::default(),
        }
    }

    /// Begins to gather the tasks that are started, and forgets connections that failed earlier.
    pub(crate) fn gather(self: &Rc<Self>) -> AcquireTasks {
        *self.gathered.borrow_mut() = Some(Vec::new());
        self.unconnected.take();
        AcquireTasks(Rc::clone(self))
    }

    /// Why a lock was refused, with the connection that failed meanwhile, if any did.
    pub(crate) fn refusal(&self, why: String) -> String {
        match &*self.unconnected.borrow() {
            Some(failed) => format!("{why} ({failed})"),
            None => why,
        }
    }
}

/// The tasks that an acquire starts. They end if it is dropped: nobody knows of its grant then.
pub(crate) struct AcquireTasks(Rc<SystemHost>);

impl AcquireTasks {
    /// The tasks, which from now on belong to a grant.
    pub(crate) fn end(self) -> HoldTasks {
        HoldTasks(self.0.gathered.take().unwrap_or_default())
    }
}

impl Drop for AcquireTasks {
    fn drop(&mut self) {
        drop(HoldTasks(self.0.gathered.take().unwrap_or_default()));
    }
}

/// The background tasks of a grant. They end with it, however it ends.
pub(crate) struct HoldTasks(Vec<AbortHandle>);

impl HoldTasks {
    /// Lets them end by themselves, as after a release.
    pub(crate) fn let_go(&mut self) {
        self.0.clear();
    }
}

impl Drop for HoldTasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Platform for SystemHost {
    fn id(&self) -> HostId {
        HostId(0)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn now(&self, clock: Clock) -> Nanos {
        system_clock::now(clock)
    }

    fn record(&self, _: Event) -> Stamp {
        Stamp::new(Instant::default(), Readings::default())
    }

    fn poll_struck(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn sleep_until(&self, clock: Clock, reading: Nanos) -> LocalFuture<'static, ()> {
        Box::pin(system_clock::sleep_until(clock, reading))
    }

    fn resolve(&self, name: &str) -> Option<SocketAddrV4> {
        self.addresses.get(name).copied()
    }

    fn connect(&self, to: SocketAddrV4) -> LocalFuture<'static, io::Result<Stream>> {
        let login = self.login.clone().filter(|login| !login.except.contains(&to));
        let unconnected = Rc::clone(&self.unconnected);
        Box::pin(async move {
            let connected = connected(to, login).await;
            if let Err(why) = &connected {
                *unconnected.borrow_mut() = Some(format!("{to}: {why}"));
            }
            connected
        })
    }

    fn listen(&self, _: u16) -> io::Result<Box<dyn Listen>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        let task = tokio::task::spawn_local(task).abort_handle();
        if let Some(gathered) = &mut *self.gathered.borrow_mut() {
            gathered.push(task);
        }
    }

    fn exit(&self) {
        panic!("a lock does not end the process of a service");
    }

    fn draw(&self, _: Purpose, ordinal: u64) -> u64 {
        if ordinal == token::OF_PROCESS { chance::of_process() } else { chance::fresh() }
    }

    fn slowness(&self) -> Slowness {
        Slowness::default()
    }

    fn disk(&self) -> Rc<dyn Disk> {
        Rc::new(NoDisk)
    }

    fn mutex(&self, name: &str) -> HostMutex {
        MUTEXES.with_borrow_mut(|mutexes| mutexes.entry(name.to_owned()).or_default().clone())
    }
}

/// A connection to a node that accepts commands.
async fn connected(to: SocketAddrV4, login: Option<Rc<Login>>) -> io::Result<Stream> {
    let stream = socket::connect(to).await?;
    match login {
        None => Ok(stream),
        Some(login) => log_in(stream, &login).await,
    }
}

/// AUTH on a new connection.
async fn log_in(stream: Stream, login: &Login) -> io::Result<Stream> {
    let mut node = RespClient::new(stream);
    let words = ["AUTH"].into_iter().chain(login.user.as_deref()).chain([&*login.password]);
    match node.request(&words.collect::<Vec<_>>()).await? {
        Reply::Error(why) => {
            let why = String::from_utf8_lossy(&why).into_owned();
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
        _ => Ok(node.stream),
    }
}

/// The disk of a lock in production.
struct NoDisk;

impl Disk for NoDisk {
    fn read(&self, _: &str) -> Vec<u8> {
        Vec::new()
    }

    fn append(&self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn replace(&self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn mark(&self, _: &str, _: u64) {}

    fn mark_of(&self, _: &str) -> u64 {
        0
    }

    fn sync(&self, _: &str) -> LocalFuture<'static, ()> {
        Box::pin(async {})
    }
}
