//! The fake server that a test owns: its addresses, its clock, its faults, and what it executed.

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

/// The maximum of a clock step and of a delay.
const MAX_STEP: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A Redis server on a free port of 127.0.0.1, and its replicas, if it has any.
///
/// It runs on its own thread and serves clients in any process. When this value is dropped, the
/// server stops and its port is closed. Servers share nothing, so tests may run in parallel.
///
/// A fault strikes the server that is the master at that moment. It lasts until the method that
/// ends it, or [`FakeRedis::heal`].
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

/// Its start.
impl FakeRedis {
    /// A server like Redis 7.0 without a configuration file.
    ///
    /// # Panics
    /// If no port or no thread is available.
    pub async fn start() -> FakeRedis {
        FakeRedis::builder().start().await.expect("a server without settings starts")
    }

    /// The settings of a server that is not the default one.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Starts the server and waits until its replicas follow it.
    ///
    /// # Errors
    /// If a setting is invalid.
    ///
    /// # Panics
    /// If no port or no thread is available.
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

/// Its addresses.
impl FakeRedis {
    /// The URL of the master: `redis://127.0.0.1:PORT`, with its password if it has one.
    pub fn url(&self) -> String {
        self.url_of(self.access.master())
    }

    /// The address of the master.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::V4(self.access.addresses[self.access.master()])
    }

    /// The URLs of all other servers.
    pub fn replica_urls(&self) -> Vec<String> {
        let master = self.access.master();
        let others = (0..self.access.addresses.len()).filter(|place| *place != master);
        others.map(|place| self.url_of(place)).collect()
    }

    fn url_of(&self, place: usize) -> String {
        self.builder.url(&self.access.addresses[place].to_string())
    }
}

/// The wall clock that decides expiry. All servers have the same clock, which starts at the real
/// time of day.
impl FakeRedis {
    /// Steps the clock forward.
    ///
    /// # Panics
    /// If it is more than ten years.
    pub async fn advance(&self, by: Duration) {
        let by = signed(by);
        self.thread.call(move |live| live.strike_all(&Verb::ClockStep { by })).await;
    }

    /// Steps the clock back.
    ///
    /// # Panics
    /// As [`FakeRedis::advance`].
    pub async fn step_back(&self, by: Duration) {
        let by = -signed(by);
        self.thread.call(move |live| live.strike_all(&Verb::ClockStep { by })).await;
    }

    /// Freezes the clock, so that no lease ends on a slow machine. [`FakeRedis::advance`] still
    /// steps it.
    pub async fn freeze_clock(&self) {
        self.thread.call(|live| live.strike_all(&Verb::ClockFreeze)).await;
    }

    /// Resumes the clock from its current reading.
    pub async fn thaw_clock(&self) {
        self.relieve(|verb| *verb == Verb::ClockFreeze).await;
    }
}

/// Faults of the process.
impl FakeRedis {
    /// Stops the process as SIGSTOP does: connections stay open without replies.
    pub async fn pause(&self) {
        self.thread.call(|live| live.strike_master(Verb::Pause)).await;
    }

    /// Resumes the process; it executes the requests that arrived meanwhile.
    pub async fn resume(&self) {
        self.relieve(|verb| *verb == Verb::Pause).await;
    }

    /// Kills the process. Connections break and connects are refused. The contents of its
    /// append-only file survive; without one ([`Builder::append`])
    /// only what SAVE or BGSAVE wrote survives.
    pub async fn crash(&self) {
        self.kill(Verb::Crash).await;
    }

    /// Cuts the machine's power: like a crash, but unsynced data is also lost, and clients see
    /// silence instead of a broken connection until the machine is up again.
    pub async fn power_loss(&self) {
        self.kill(Verb::PowerLoss).await;
    }

    /// Starts the servers that are down. If none is, kills and starts the master. A server that is
    /// no longer the master restarts as a replica.
    pub async fn restart(&self) {
        self.started_by(Live::restart).await;
    }

    /// Each command takes this much longer; zero ends the fault.
    ///
    /// # Panics
    /// If it is more than ten years.
    pub async fn slow_commands(&self, extra: Duration) {
        let extra = nanos(extra);
        // One job, so that no command runs between the end of the old fault and the new one.
        let act = move |live: &mut Live| {
            live.relieve(|verb| matches!(verb, Verb::SlowNode { .. }));
            if extra > 0 {
                live.strike_master(Verb::SlowNode { extra });
            }
        };
        self.thread.call(act).await;
    }

    /// fsync returns without syncing: a loss of power loses what was written since.
    pub async fn lie_about_fsync(&self) {
        self.thread.call(|live| live.strike_master(Verb::LyingDisk)).await;
    }

    async fn kill(&self, verb: Verb) {
        self.thread.call(move |live| live.strike_master(verb)).await;
        // The tasks of a killed process are dropped when the runtime runs next, not by the strike.
        self.thread.until(|live| live.is_down().then_some(())).await;
    }

    /// Waits until the servers that `act` starts are up.
    async fn started_by(&self, act: impl FnOnce(&mut Live) -> Vec<(usize, u32)> + Send + 'static) {
        let started = self.thread.call(act).await;
        self.thread.until(move |live| live.have_started(&started).then_some(())).await;
    }
}

/// Faults of the links.
impl FakeRedis {
    /// Cuts the link between clients and master: no byte passes, no connection breaks. What was
    /// sent meanwhile arrives after [`FakeRedis::heal`].
    pub async fn partition(&self) {
        self.thread.call(|live| live.strike_clients(Verb::Partition, true)).await;
    }

    /// Replies arrive this much later; zero ends the fault.
    ///
    /// # Panics
    /// If it is more than ten years.
    pub async fn delay(&self, extra: Duration) {
        let extra = nanos(extra);
        // One job, so that no reply is sent between the end of the old fault and the new one.
        let act = move |live: &mut Live| {
            live.relieve(|verb| matches!(verb, Verb::Delay { .. }));
            if extra > 0 {
                live.strike_clients(Verb::Delay { extra }, false);
            }
        };
        self.thread.call(act).await;
    }

    /// The next request of this command is executed, but its connection breaks before the reply.
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

    /// Cuts the links between the master and its replicas: later writes do not reach the replicas.
    ///
    /// # Panics
    /// If there is no replica.
    pub async fn partition_replicas(&self) {
        self.needs_replicas();
        self.thread.call(|live| live.strike_replication(Verb::Partition)).await;
    }

    /// What the master sends to its replicas arrives this much later.
    ///
    /// # Panics
    /// If there is no replica, or it is more than ten years.
    pub async fn lag_replicas(&self, extra: Duration) {
        self.needs_replicas();
        let extra = nanos(extra);
        self.thread.call(move |live| live.strike_replicas(&Verb::ReplicaLag { extra })).await;
    }

    /// Ends every active fault and starts the servers that are down. Clocks keep their offsets.
    pub async fn heal(&self) {
        self.started_by(Live::heal).await;
    }

    async fn relieve(&self, which: impl Fn(&Verb) -> bool + Send + 'static) {
        self.thread.call(move |live| live.relieve(which)).await;
    }
}

/// Failover.
impl FakeRedis {
    /// Promotes a replica, as an operator does with REPLICAOF. Writes that the master had not yet
    /// replicated are lost, because replication is asynchronous. From then on [`FakeRedis::url`] is
    /// the new master's, and faults strike the new master. The others follow it as soon as they are
    /// reachable. Until then, for milliseconds, the old master still takes writes, which are lost.
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

/// What it executed and stores. An observation is not a request: it works even when clients get no
/// reply. It concerns the master and database 0.
impl FakeRedis {
    /// Its keys, sorted; empty while it is down.
    pub async fn keys(&self) -> Vec<String> {
        self.thread.call(|live| live.look(Look::keys)).await
    }

    /// The string of a key; `None` if there is none.
    pub async fn get(&self, key: &str) -> Option<String> {
        let key = key.to_owned();
        self.thread.call(move |live| live.look(|look, wall| look.get(wall, &key))).await
    }

    /// The remaining time to live of a key; `None` without a key or an expiry.
    pub async fn ttl(&self, key: &str) -> Option<Duration> {
        let key = key.to_owned();
        self.thread.call(move |live| live.look(|look, wall| look.ttl(wall, &key))).await
    }

    /// The requests of clients that all servers executed, in order: `"SET lock me NX"`. This
    /// includes what client libraries send when they connect. The last 100,000 are kept.
    pub async fn requests(&self) -> Vec<String> {
        self.thread.call(|live| live.requests.lines()).await
    }

    /// Waits until this many requests of this command were executed.
    pub async fn wait_for_requests(&self, command: &str, count: usize) {
        let command = command.to_owned();
        let check = move |live: &mut Live| (live.requests.count(&command) >= count).then_some(());
        self.thread.until(check).await;
    }
}

fn nanos(length: Duration) -> Nanos {
    assert!(length <= MAX_STEP, "{length:?} is more than ten years");
    Nanos::try_from(length.as_nanos()).expect("ten years are few nanoseconds")
}

fn signed(length: Duration) -> i64 {
    i64::try_from(nanos(length)).expect("ten years are few nanoseconds")
}
