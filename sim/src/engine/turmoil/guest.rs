//! A fake Redis node in a `turmoil::Sim` of the user's own, beside his services.
//!
//! The network, its latencies and its partitions are the user's: he has them from turmoil. Clocks
//! and faults of the node's machine are here.

use std::net::IpAddr;
use std::rc::Rc;

use turmoil::Sim;

use crate::engine::state::State;
use crate::engine::tasks::Tasks;
use crate::engine::tasks::life::Life;
use crate::engine::turmoil::machine::Machine;
use crate::engine::turmoil::{Shared, run_host};
use crate::network::Latency;
use crate::redis::node::NodeConfig;
use crate::redis::server::serve;
use crate::rng::Chance;
use crate::time::{Clock, ClockSetting, MILLISECOND, Nanos};
use crate::trace::{Entry, HostId, Trace};

/// The only machine of its own small world.
const NODE: HostId = HostId(0);

/// A handle on a node that runs in a simulation of the user's own.
///
/// Faults may strike between two steps of the simulation, or out of any of its hosts. They take
/// hold when the node's host runs next.
#[derive(Clone)]
pub struct GuestNode {
    shared: Rc<Shared>,
}

/// Adds a fake Redis node to a simulation, as the host `name`, and starts it.
///
/// Clients reach it by that name and the port of its configuration (6379), with any Redis client
/// that speaks over `turmoil::net::TcpStream`. Its wall clock, by which keys expire, begins at
/// [`crate::time::EPOCH`] and follows the simulation's time until a fault moves it. `seed` is
/// where its draws come from, such as ids and the sampling of Redis's expiry cycle.
///
/// ```
/// use lockstorm_sim::engine::turmoil::guest::add_node;
/// use lockstorm_sim::redis::node::NodeConfig;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let mut sim = turmoil::Builder::new().build();
/// let redis = add_node(&mut sim, "redis", NodeConfig::default(), 1);
/// sim.client("service", async move {
///     let mut stream = turmoil::net::TcpStream::connect("redis:6379").await?;
///     stream.write_all(b"SET k v PX 10000\r\n").await?;
///     let mut reply = [0; 5];
///     stream.read_exact(&mut reply).await?;
///     assert_eq!(&reply, b"+OK\r\n");
///     redis.step_clock(11_000_000_000); // an operator sets the node's clock: the key is gone
///     stream.write_all(b"GET k\r\n").await?;
///     stream.read_exact(&mut reply).await?;
///     assert_eq!(&reply, b"$-1\r\n");
///     Ok(())
/// });
/// sim.run().unwrap();
/// ```
///
/// # Panics
/// If the simulation gives its hosts IPv6 addresses.
pub fn add_node(sim: &mut Sim<'_>, name: &str, config: NodeConfig, seed: u64) -> GuestNode {
    let IpAddr::V4(ip) = sim.lookup(name) else { panic!("a node needs an IPv4 address") };
    let chance = Chance::new(seed, std::collections::BTreeMap::new());
    // The latency is that of links which this small world does not have.
    let latency = Latency::Constant(MILLISECOND);
    let mut state = State::new(chance, latency, Trace::new(false), MILLISECOND);
    state.add_host(name, ip, ClockSetting::default());
    let elapsed = || {
        turmoil::sim_elapsed()
            .map(|elapsed| Nanos::try_from(elapsed.as_nanos()).expect("under 584 years"))
    };
    let mut tasks = Tasks::new(state, Some(Box::new(elapsed)));
    tasks.fails_in_host = true;
    let shared = Rc::new(Shared::new(tasks, None));
    let serve = move |host| -> crate::platform::LocalFuture<'static, ()> {
        Box::pin(serve(host, config.clone()))
    };
    shared.tasks.lives.borrow_mut().push(Life::default());
    shared.tasks.life(NODE, |life| life.process = Some(Rc::new(serve)));
    let supervised = Rc::clone(&shared.tasks);
    sim.host(name, move || run_host(Rc::clone(&supervised), NODE));
    shared.tasks.start(NODE, Machine::host(&shared, NODE));
    GuestNode { shared }
}

impl GuestNode {
    /// Its tasks, at the present time: the user's own simulation moves it.
    fn tasks(&self) -> &Tasks {
        self.shared.tasks.look_at_clock();
        &self.shared.tasks
    }
}

/// Its clocks.
impl GuestNode {
    /// What one of its clocks reads, in nanoseconds.
    pub fn now(&self, clock: Clock) -> Nanos {
        self.tasks().state().readings(NODE).of(clock)
    }

    /// Steps the wall clock by nanoseconds.
    pub fn step_clock(&self, by: i64) {
        self.tasks().change_clocks(NODE, |clocks, now| clocks.step_wall(now, by));
    }

    /// Makes all clocks run so many parts per million fast; `None`: at the right rate again.
    pub fn set_clock_rate(&self, ppm: Option<i32>) {
        self.tasks().change_clocks(NODE, |clocks, now| clocks.set_rate(now, ppm));
    }

    /// Stops the wall clock, or lets it go on.
    pub fn freeze_clock(&self, frozen: bool) {
        self.tasks().change_clocks(NODE, |clocks, now| clocks.freeze_wall(now, frozen));
    }
}

/// What it suffers.
impl GuestNode {
    /// Stops scheduling the process, or goes on with it. Its kernel still completes connections.
    pub fn pause(&self, paused: bool) {
        self.tasks().pause(NODE, paused);
    }

    /// Kills the process. What it wrote survives, what it kept in memory does not; connects are
    /// refused until [`GuestNode::start`].
    pub fn crash(&self) {
        self.tasks().kill(NODE);
    }

    /// As [`GuestNode::crash`], and what was not synced to the disk is gone. Its peers see their
    /// connections end; hold the links first if they are to see silence.
    pub fn lose_power(&self) {
        self.tasks().power_off(NODE);
    }

    /// Starts the process anew.
    pub fn start(&self) {
        self.tasks().start(NODE, Machine::host(&self.shared, NODE));
    }

    /// Makes each command and each script take longer by so many nanoseconds.
    pub fn slow(&self, command: Nanos, script: Nanos) {
        let mut state = self.tasks().state();
        state.machine(NODE).slowness = crate::platform::Slowness { command, script };
    }

    /// Makes fsync answer and do nothing, or be honest again.
    pub fn lie_about_fsync(&self, lies: bool) {
        self.tasks().state().machine(NODE).disk.borrow_mut().lies = lies;
    }

    /// What the node has recorded so far: requests, changes of keys, roles.
    pub fn trace(&self) -> Vec<Entry> {
        self.tasks().state().trace.entries().to_vec()
    }
}
