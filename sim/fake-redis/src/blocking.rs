//! The fake server for tests without async code. Each method calls the method of the same name of
//! [`FakeRedis`] and waits for it.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::builder::{BadSetting, Builder};
use crate::server::FakeRedis;

/// A blocking handle to a fake server.
///
/// ```
/// use std::time::Duration;
///
/// use lockstorm_fake_redis::FakeRedis;
///
/// # fn main() -> redis::RedisResult<()> {
/// let redis = FakeRedis::start_blocking();
/// let mut connection = redis::Client::open(redis.url())?.get_connection()?;
/// let mut set = redis::cmd("SET");
/// set.arg("lock").arg("me").arg("PX").arg(10_000).exec(&mut connection)?;
/// redis.advance(Duration::from_secs(11));
/// assert_eq!(redis.get("lock"), None);
/// # Ok(())
/// # }
/// ```
pub struct BlockingFakeRedis(FakeRedis);

impl FakeRedis {
    /// As [`FakeRedis::start`], for tests without async code.
    ///
    /// # Panics
    /// As [`FakeRedis::start`].
    pub fn start_blocking() -> BlockingFakeRedis {
        BlockingFakeRedis(wait(FakeRedis::start()))
    }
}

impl Builder {
    /// As [`Builder::start`], for tests without async code.
    ///
    /// # Errors
    /// As [`Builder::start`].
    ///
    /// # Panics
    /// As [`Builder::start`].
    pub fn start_blocking(self) -> Result<BlockingFakeRedis, BadSetting> {
        wait(self.start()).map(BlockingFakeRedis)
    }
}

/// Wakes the thread that waits for a result.
struct Asleep(Thread);

impl Wake for Asleep {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread until the future is ready.
fn wait<T>(work: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Asleep(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            // A wake-up before the park is not lost: the park then returns at once.
            Poll::Pending => thread::park(),
        }
    }
}

/// Its addresses.
impl BlockingFakeRedis {
    /// See [`FakeRedis::url`].
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// See [`FakeRedis::addr`].
    pub fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    /// See [`FakeRedis::replica_urls`].
    pub fn replica_urls(&self) -> Vec<String> {
        self.0.replica_urls()
    }
}

/// Its wall clock.
impl BlockingFakeRedis {
    /// See [`FakeRedis::advance`].
    pub fn advance(&self, by: Duration) {
        wait(self.0.advance(by));
    }

    /// See [`FakeRedis::step_back`].
    pub fn step_back(&self, by: Duration) {
        wait(self.0.step_back(by));
    }

    /// See [`FakeRedis::freeze_clock`].
    pub fn freeze_clock(&self) {
        wait(self.0.freeze_clock());
    }

    /// See [`FakeRedis::thaw_clock`].
    pub fn thaw_clock(&self) {
        wait(self.0.thaw_clock());
    }
}

/// Faults of the process and of the links.
impl BlockingFakeRedis {
    /// See [`FakeRedis::pause`].
    pub fn pause(&self) {
        wait(self.0.pause());
    }

    /// See [`FakeRedis::resume`].
    pub fn resume(&self) {
        wait(self.0.resume());
    }

    /// See [`FakeRedis::crash`].
    pub fn crash(&self) {
        wait(self.0.crash());
    }

    /// See [`FakeRedis::power_loss`].
    pub fn power_loss(&self) {
        wait(self.0.power_loss());
    }

    /// See [`FakeRedis::restart`].
    pub fn restart(&self) {
        wait(self.0.restart());
    }

    /// See [`FakeRedis::slow_commands`].
    pub fn slow_commands(&self, extra: Duration) {
        wait(self.0.slow_commands(extra));
    }

    /// See [`FakeRedis::lie_about_fsync`].
    pub fn lie_about_fsync(&self) {
        wait(self.0.lie_about_fsync());
    }

    /// See [`FakeRedis::partition`].
    pub fn partition(&self) {
        wait(self.0.partition());
    }

    /// See [`FakeRedis::delay`].
    pub fn delay(&self, extra: Duration) {
        wait(self.0.delay(extra));
    }

    /// See [`FakeRedis::cut_next_reply`].
    pub fn cut_next_reply(&self, command: &str) {
        wait(self.0.cut_next_reply(command));
    }

    /// See [`FakeRedis::reset_connections`].
    pub fn reset_connections(&self) {
        wait(self.0.reset_connections());
    }

    /// See [`FakeRedis::partition_replicas`].
    pub fn partition_replicas(&self) {
        wait(self.0.partition_replicas());
    }

    /// See [`FakeRedis::lag_replicas`].
    pub fn lag_replicas(&self, extra: Duration) {
        wait(self.0.lag_replicas(extra));
    }

    /// See [`FakeRedis::heal`].
    pub fn heal(&self) {
        wait(self.0.heal());
    }

    /// See [`FakeRedis::fail_over`].
    pub fn fail_over(&self) {
        wait(self.0.fail_over());
    }
}

/// What it executed and stores.
impl BlockingFakeRedis {
    /// See [`FakeRedis::keys`].
    pub fn keys(&self) -> Vec<String> {
        wait(self.0.keys())
    }

    /// See [`FakeRedis::get`].
    pub fn get(&self, key: &str) -> Option<String> {
        wait(self.0.get(key))
    }

    /// See [`FakeRedis::ttl`].
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        wait(self.0.ttl(key))
    }

    /// See [`FakeRedis::requests`].
    pub fn requests(&self) -> Vec<String> {
        wait(self.0.requests())
    }

    /// See [`FakeRedis::wait_for_requests`].
    pub fn wait_for_requests(&self, command: &str, count: usize) {
        wait(self.0.wait_for_requests(command, count));
    }
}
