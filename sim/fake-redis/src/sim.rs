//! A fake server in a user's own `turmoil::Sim`, beside the user's services.
//!
//! The network, its latencies and its partitions are turmoil's, under the user's control. This file
//! adds the server's clock and faults.

use std::time::Duration;

use lockstorm_platform::time::{Clock, Nanos};
use lockstorm_world::engine::turmoil::guest::{Guest, add_guest};
use turmoil::Sim;

use crate::builder::{BadSetting, Builder};
use crate::look::{Look, Requests};
#[cfg(feature = "live")]
use crate::server::FakeRedis;

/// Builds a simulated server, for builds without the live one.
#[cfg(not(feature = "live"))]
pub enum FakeRedis {}

#[cfg(not(feature = "live"))]
impl FakeRedis {
    /// The settings of a server that is not the default one.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// A Redis server in a turmoil simulation. Clones are handles to the same server.
///
/// Clients reach it by its name and port 6379, with any client that runs over
/// `turmoil::net::TcpStream`. Its wall clock, which decides expiry, starts at
/// [`lockstorm_platform::time::EPOCH`] and follows the simulation's time until it is stepped.
///
/// The methods may be called between two steps of the simulation, or from any of its hosts. They
/// take effect when the server's host runs next.
///
/// ```
/// use std::time::Duration;
///
/// use lockstorm_fake_redis::FakeRedis;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let mut sim = turmoil::Builder::new().build();
/// let redis = FakeRedis::in_sim(&mut sim, "redis");
/// sim.client("service", async move {
///     let mut stream = turmoil::net::TcpStream::connect(redis.addr()).await?;
///     stream.write_all(b"SET k v PX 10000\r\n").await?;
///     let mut reply = [0; 5];
///     stream.read_exact(&mut reply).await?;
///     assert_eq!(&reply, b"+OK\r\n");
///     redis.advance(Duration::from_secs(11)); // the key has expired
///     assert_eq!(redis.get("k"), None);
///     Ok(())
/// });
/// sim.run().unwrap();
/// ```
#[derive(Clone)]
pub struct SimRedis {
    guest: Guest,
    look: Look,
    requests: Requests,
    builder: Builder,
    addr: String,
}

impl FakeRedis {
    /// Adds a server to a simulation, as the host `name`, and starts it.
    ///
    /// # Panics
    /// If the simulation gives its hosts IPv6 addresses.
    pub fn in_sim(sim: &mut Sim<'_>, name: &str) -> SimRedis {
        Builder::default().in_sim(sim, name).expect("a server without settings starts")
    }
}

impl Builder {
    /// Adds a server with these settings to a simulation, as the host `name`, and starts it.
    ///
    /// # Errors
    /// If a setting is invalid; replicas are not supported.
    ///
    /// # Panics
    /// If the simulation gives its hosts IPv6 addresses.
    pub fn in_sim(self, sim: &mut Sim<'_>, name: &str) -> Result<SimRedis, BadSetting> {
        self.check_in_sim()?;
        let (look, requests) = (Look::default(), Requests::default());
        let config = self.config.clone();
        let addr = format!("{name}:{}", config.port);
        let process = look.process(&self, &requests, move || config.clone());
        let guest = add_guest(sim, name, process, self.seed);
        Ok(SimRedis { guest, look, requests, builder: self, addr })
    }
}

/// Its addresses.
impl SimRedis {
    /// Its URL: `redis://NAME:6379`, with its password if it has one.
    pub fn url(&self) -> String {
        self.builder.url(&self.addr)
    }

    /// Its name and port.
    pub fn addr(&self) -> &str {
        &self.addr
    }
}

/// The wall clock, which decides expiry.
impl SimRedis {
    /// Steps the clock forward.
    ///
    /// # Panics
    /// If it is more than 292 years.
    pub fn advance(&self, by: Duration) {
        self.guest.step_clock(nanos(by).cast_signed());
    }

    /// Steps the clock back.
    ///
    /// # Panics
    /// As [`SimRedis::advance`].
    pub fn step_back(&self, by: Duration) {
        self.guest.step_clock(-nanos(by).cast_signed());
    }

    /// Freezes the clock.
    pub fn freeze_clock(&self) {
        self.guest.freeze_clock(true);
    }

    /// Resumes the clock from its current reading.
    pub fn thaw_clock(&self) {
        self.guest.freeze_clock(false);
    }
}

/// Faults of the process.
impl SimRedis {
    /// Stops the process as SIGSTOP does: connections stay open without replies.
    pub fn pause(&self) {
        self.guest.pause(true);
    }

    /// Resumes the process; it executes the requests that arrived meanwhile.
    pub fn resume(&self) {
        self.guest.pause(false);
    }

    /// Kills the process. The contents of its append-only file survive; without one every key is
    /// lost. Connects are refused until [`SimRedis::restart`].
    pub fn crash(&self) {
        self.guest.crash();
    }

    /// Like a crash, but unsynced data is also lost. Its peers see their connections close; hold
    /// the links first if they must see silence.
    pub fn power_loss(&self) {
        self.guest.lose_power();
    }

    /// Starts the process; a running one is killed first.
    pub fn restart(&self) {
        self.guest.start();
    }

    /// Each command takes this much longer; zero ends the fault.
    ///
    /// # Panics
    /// If it is more than 292 years.
    pub fn slow_commands(&self, extra: Duration) {
        self.guest.slow(nanos(extra), 0);
    }

    /// fsync returns without syncing: a loss of power loses what was written since.
    pub fn lie_about_fsync(&self) {
        self.guest.lie_about_fsync(true);
    }
}

/// What it executed and stores. An observation is not a request: it works while the server is
/// paused. It concerns database 0.
impl SimRedis {
    /// Its keys, sorted; empty while it is down.
    pub fn keys(&self) -> Vec<String> {
        self.look.keys(self.wall())
    }

    /// The string of a key; `None` if there is none.
    pub fn get(&self, key: &str) -> Option<String> {
        self.look.get(self.wall(), key)
    }

    /// The remaining time to live of a key; `None` without a key or an expiry.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        self.look.ttl(self.wall(), key)
    }

    /// The executed requests, in order: `"SET lock me NX"`. The last 100,000 are kept.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lines()
    }

    fn wall(&self) -> Nanos {
        self.guest.now(Clock::Wall)
    }
}

fn nanos(length: Duration) -> Nanos {
    let nanos = i64::try_from(length.as_nanos()).expect("at most 292 years");
    nanos.cast_unsigned()
}
