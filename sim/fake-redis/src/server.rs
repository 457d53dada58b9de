//! The fake server that a test holds: where it listens, its clock, what it suffers, what it did.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::Nanos;
use lockstorm_redis::specification;

use crate::builder::{BadSetting, Builder};
use crate::live::{Access, Live};
use crate::look::Look;
use crate::thread::Thread;

/// The maximum that a clock moves at once, and that anything is delayed.
const MAX_STEP: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A Redis server on a free port of 127.0.0.1, and its replicas, if it has any.
///
/// It runs on a thread of its own and answers any client in any process. It ends with this value:
/// then its port is closed. Nothing is shared between two of them, so tests may run in parallel.
///
/// Faults strike the server that is the master at that moment. They last until the method that
/// ends them, or [`FakeRedis::heal`].
///
/// ```
/// use std::time::Duration;
///
/// use lockstorm_fake_redis::FakeRedis;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> redis::RedisResult<()> {
/// let redis = FakeRedis::start().await;
/// let client = redis::Client::open(redis.url())?;
/// let mut connection = client.get_multiplexed_async_connection().await?;
/// let _: () = redis::cmd("SET").arg("lock").arg("me").arg("PX").arg(10_000)
///     .query_async(&mut connection).await?;
/// redis.advance(Duration::from_secs(11)).await;
/// assert_eq!(redis.get("lock").await, None);
/// # Ok(())
/// # }
/// ```
pub struct FakeRedis {
    thread: Thread,
    access: Access,
    builder: Builder,
}

/// How it starts.
impl FakeRedis {
    /// A server like Redis 7.0 without a configuration file.
    ///
    /// # Panics
    /// If the system gives no port or no thread.
    pub async fn start() -> FakeRedis {
        FakeRedis::builder().start().await.expect("a server without settings starts")
    }

    /// A server with settings of its own.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Starts the server and waits until its replicas follow it.
    ///
    /// # Errors
    /// A setting that the server cannot have.
    ///
    /// # Panics
    /// If the system gives no port or no thread.
    pub async fn start(self) -> Result<FakeRedis, BadSetting> {
        self.check()?;
        let started = Thread::start(self.clone()).await;
        let (thread, access) = started.unwrap_or_else(|error| no_server(&error));
        let redis = FakeRedis { thread, access, builder: self };
        redis.thread.until(|live| live.is_settled().then_some(())).await;
        Ok(redis)
    }
}

fn no_server(error: &io::Error) -> ! {
    panic!("a fake server needs a free port of 127.0.0.1 and a thread: {error}")
}

/// Where it listens.
impl FakeRedis {
    /// The URL of the master: `redis://127.0.0.1:PORT`, with its password if it has one.
    pub fn url(&self) -> String {
        self.url_of(self.access.master())
    }

    /// The address of the master.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::V4(self.access.addresses[self.access.master()])
    }

    /// The URLs of all others.
    pub fn replica_urls(&self) -> Vec<String> {
        let master = self.access.master();
        let others = (0..self.access.addresses.len()).filter(|place| *place != master);
        others.map(|place| self.url_of(place)).collect()
    }

    fn url_of(&self, place: usize) -> String {
        self.builder.url(&self.access.addresses[place].to_string())
    }
}

/// The wall clock, by which keys expire. All servers have the same one; it begins at the real
/// time of day.
impl FakeRedis {
    /// Sets the clock forward.
    ///
    /// # Panics
    /// If it is more than ten years.
    pub async fn advance(&self, by: Duration) {
        let by = signed(by);
        self.thread.call(move |live| live.strike_all(&Verb::ClockStep { by })).await;
    }

    /// Sets the clock back.
    ///
    /// # Panics
    /// As [`FakeRedis::advance`].
    pub async fn step_back(&self, by: Duration) {
        let by = -signed(by);
        self.thread.call(move |live| live.strike_all(&Verb::ClockStep { by })).await;
    }

    /// Stops the clock: a slow machine makes no lease end. [`FakeRedis::advance`] still moves it.
    pub async fn freeze_clock(&self) {
        self.thread.call(|live| live.strike_all(&Verb::ClockFreeze)).await;
    }

    /// Lets the clock go on from where it stands.
    pub async fn thaw_clock(&self) {
        self.relieve(|verb| *verb == Verb::ClockFreeze).await;
    }
}

/// What the process suffers.
impl FakeRedis {
    /// Stops the process as SIGSTOP does: connections stay open, nobody answers.
    pub async fn pause(&self) {
        self.thread.call(|live| live.strike_master(Verb::Pause)).await;
    }

    /// Lets the process go on; what it was sent meanwhile is executed now.
    pub async fn resume(&self) {
        self.relieve(|verb| *verb == Verb::Pause).await;
    }

    /// Kills the process. Connections break and connects are refused. What stands in its
    /// append-only file survives; without one ([`Builder::append`]) every key is lost.
    pub async fn crash(&self) {
        self.kill(Verb::Crash).await;
    }

    /// Cuts the machine's power: as a crash, but what was not synced is lost too, and clients see
    /// silence instead of a broken connection, until it is back.
    pub async fn power_loss(&self) {
        self.kill(Verb::PowerLoss).await;
    }

    /// Starts what is down. If nothing is, the process is killed and started. A server that is
    /// no longer the master comes back as its replica.
    pub async fn restart(&self) {
        self.started_by(Live::restart).await;
    }

    /// Each command takes so much longer; zero ends that.
    ///
    /// # Panics
    /// If it is more than ten years.
    pub async fn slow_commands(&self, extra: Duration) {
        let extra = nanos(extra);
        let act = move |live: &mut Live| {
            live.relieve(|verb| matches!(verb, Verb::SlowNode { .. }));
            if extra > 0 {
                live.strike_master(Verb::SlowNode { extra });
            }
        };
        self.thread.call(act).await;
    }

    /// fsync answers and does nothing: a loss of power takes what was written since.
    pub async fn lie_about_fsync(&self) {
        self.thread.call(|live| live.strike_master(Verb::LyingDisk)).await;
    }

    async fn kill(&self, verb: Verb) {
        self.thread.call(move |live| live.strike_master(verb)).await;
        self.thread.until(|live| live.is_down().then_some(())).await;
    }

    /// Waits until what was started has started.
    async fn started_by(&self, act: impl FnOnce(&mut Live) -> Vec<(usize, u32)> + Send + 'static) {
        let started = self.thread.call(act).await;
        self.thread.until(move |live| live.have_started(&started).then_some(())).await;
    }
}

/// What the links suffer.
impl FakeRedis {
    /// Cuts the link between clients and master: no byte passes, no connection breaks. What was
    /// sent meanwhile arrives after [`FakeRedis::heal`].
    pub async fn partition(&self) {
        self.thread.call(|live| live.strike_clients(Verb::Partition, true)).await;
    }

    /// Replies arrive so much later; zero ends that.
    ///
    /// # Panics
    /// If it is more than ten years.
    pub async fn delay(&self, extra: Duration) {
        let extra = nanos(extra);
        let act = move |live: &mut Live| {
            live.relieve(|verb| matches!(verb, Verb::Delay { .. }));
            if extra > 0 {
                live.strike_clients(Verb::Delay { extra }, false);
            }
        };
        self.thread.call(act).await;
    }

    /// The next request of this command is executed and not answered: its connection breaks.
    ///
    /// # Panics
    /// If Redis has no such command.
    pub async fn cut_next_reply(&self, command: &str) {
        let known = specification::name(command.to_uppercase().as_bytes());
        let command = known.unwrap_or_else(|| panic!("Redis has no command '{command}'"));
        self.thread.call(move |live| live.cut_next_reply(command.to_owned())).await;
    }

    /// Resets the clients' connections to the master.
    pub async fn reset_connections(&self) {
        self.thread.call(|live| live.strike_clients(Verb::Reset, true)).await;
    }

    /// Cuts the links between the master and its replicas: what it is told from now on, they do
    /// not know.
    ///
    /// # Panics
    /// If there is no replica.
    pub async fn partition_replicas(&self) {
        self.needs_replicas();
        self.thread.call(|live| live.strike_replication(Verb::Partition)).await;
    }

    /// What the master sends to its replicas arrives so much later.
    ///
    /// # Panics
    /// If there is no replica, or it is more than ten years.
    pub async fn lag_replicas(&self, extra: Duration) {
        self.needs_replicas();
        let extra = nanos(extra);
        self.thread.call(move |live| live.strike_replicas(&Verb::ReplicaLag { extra })).await;
    }

    /// Ends every fault that lasts, and starts what is down. Clocks stay where they were set.
    pub async fn heal(&self) {
        self.started_by(Live::heal).await;
    }

    async fn relieve(&self, which: impl Fn(&Verb) -> bool + Send + 'static) {
        self.thread.call(move |live| live.relieve(which)).await;
    }
}

/// Failover.
impl FakeRedis {
    /// Promotes a replica, as an operator does by REPLICAOF. What the master had not passed on to
    /// it is lost: replication does not wait. From then on [`FakeRedis::url`] is that of the new
    /// master, and faults strike that one. The others follow it as soon as they can be reached.
    ///
    /// # Panics
    /// If no replica can be promoted.
    pub async fn fail_over(&self) {
        self.needs_replicas();
        let promoted = self.thread.call(Live::promote).await;
        let new = promoted.expect("no replica can be promoted: all are down or paused");
        self.thread.until(move |live| live.is_master(new).then_some(())).await;
    }

    fn needs_replicas(&self) {
        let count = self.access.addresses.len();
        assert!(count > 1, "there is no replica: write FakeRedis::builder().replicas(1)");
    }
}

/// What it did. A look is no request: nothing that keeps clients from an answer keeps a test
/// from it. It is a look at the master, and at database 0.
impl FakeRedis {
    /// Its keys, sorted. None while it is down.
    pub async fn keys(&self) -> Vec<String> {
        self.thread.call(|live| live.look(Look::keys)).await
    }

    /// The string under a key; `None` if there is none.
    pub async fn get(&self, key: &str) -> Option<String> {
        let key = key.to_owned();
        self.thread.call(move |live| live.look(|look, wall| look.get(wall, &key))).await
    }

    /// How long a key has to live; `None` if there is no key or it has no end.
    pub async fn ttl(&self, key: &str) -> Option<Duration> {
        let key = key.to_owned();
        self.thread.call(move |live| live.look(|look, wall| look.ttl(wall, &key))).await
    }

    /// The requests of clients that were executed, in order, by all servers: `"SET lock me NX"`.
    /// What client libraries send when they connect is among them. The last 100,000 are known.
    pub async fn requests(&self) -> Vec<String> {
        self.thread.call(|live| live.requests.lines()).await
    }

    /// Waits until so many requests of this command were executed.
    pub async fn wait_for_requests(&self, command: &str, count: usize) {
        let command = command.to_owned();
        let ask = move |live: &mut Live| (live.requests.count(&command) >= count).then_some(());
        self.thread.until(ask).await;
    }
}

fn nanos(length: Duration) -> Nanos {
    assert!(length <= MAX_STEP, "{length:?} is more than ten years");
    Nanos::try_from(length.as_nanos()).expect("ten years are few nanoseconds")
}

fn signed(length: Duration) -> i64 {
    i64::try_from(nanos(length)).expect("ten years are few nanoseconds")
}
