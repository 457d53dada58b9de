//! A fake server in a `turmoil::Sim` of the user's own, beside his services.
//!
//! The network, its latencies and its partitions are the user's: he has them from turmoil. Clock
//! and faults of the server are here.

use std::time::Duration;

use lockstorm_platform::time::{Clock, Nanos};
use lockstorm_world::engine::turmoil::guest::{Guest, add_guest};
use turmoil::Sim;

use crate::builder::{BadSetting, Builder};
use crate::look::{Look, Requests};
#[cfg(feature = "live")]
use crate::server::FakeRedis;

/// The door to a simulated server, where there is no live one.
#[cfg(not(feature = "live"))]
pub enum FakeRedis {}

#[cfg(not(feature = "live"))]
impl FakeRedis {
    /// A server with settings of its own.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// A Redis server in a turmoil simulation. Clones are of the same server.
///
/// Clients reach it by its name and port 6379, with any client that speaks over
/// `turmoil::net::TcpStream`. Its wall clock, by which keys expire, begins at
/// [`lockstorm_platform::time::EPOCH`] and follows the simulation's time until it is moved.
///
/// The methods may be called between two steps of the simulation, or out of any of its hosts. They
/// take hold when the server's host runs next.
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
    /// A setting that the server cannot have; replicas are among them.
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

/// Where it listens.
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

/// The wall clock, by which keys expire.
impl SimRedis {
    /// Sets the clock forward.
    ///
    /// # Panics
    /// If it is more than 292 years.
    pub fn advance(&self, by: Duration) {
        self.guest.step_clock(nanos(by).cast_signed());
    }

    /// Sets the clock back.
    ///
    /// # Panics
    /// As [`SimRedis::advance`].
    pub fn step_back(&self, by: Duration) {
        self.guest.step_clock(-nanos(by).cast_signed());
    }

    /// Stops the clock.
    pub fn freeze_clock(&self) {
        self.guest.freeze_clock(true);
    }

    /// Lets the clock go on from where it stands.
    pub fn thaw_clock(&self) {
        self.guest.freeze_clock(false);
    }
}

/// What the process suffers.
impl SimRedis {
    /// Stops the process as SIGSTOP does: connections stay open, nobody answers.
    pub fn pause(&self) {
        self.guest.pause(true);
    }

    /// Lets the process go on; what it was sent meanwhile is executed now.
    pub fn resume(&self) {
        self.guest.pause(false);
    }

    /// Kills the process. What stands in its append-only file survives; without one every key is
    /// lost. Connects are refused until [`SimRedis::restart`].
    pub fn crash(&self) {
        self.guest.crash();
    }

    /// As a crash, and what was not synced is lost too. Its peers see their connections end; hold
    /// the links first if they are to see silence.
    pub fn power_loss(&self) {
        self.guest.lose_power();
    }

    /// Starts the process; one that lives is killed before.
    pub fn restart(&self) {
        self.guest.start();
    }

    /// Each command takes so much longer; zero ends that.
    ///
    /// # Panics
    /// If it is more than 292 years.
    pub fn slow_commands(&self, extra: Duration) {
        self.guest.slow(nanos(extra), 0);
    }

    /// fsync answers and does nothing: a loss of power takes what was written since.
    pub fn lie_about_fsync(&self) {
        self.guest.lie_about_fsync(true);
    }
}

/// What it did. A look is no request: it works while the server is paused, and sees database 0.
impl SimRedis {
    /// Its keys, sorted. None while it is down.
    pub fn keys(&self) -> Vec<String> {
        self.look.keys(self.wall())
    }

    /// The string under a key; `None` if there is none.
    pub fn get(&self, key: &str) -> Option<String> {
        self.look.get(self.wall(), key)
    }

    /// How long a key has to live; `None` if there is no key or it has no end.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        self.look.ttl(self.wall(), key)
    }

    /// The requests that were executed, in order: `"SET lock me NX"`. The last 100,000 are known.
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
