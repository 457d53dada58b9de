//! A machine in a user's own `turmoil::Sim`, among the user's services.
//!
//! The network, its latencies and its partitions are the user's, through turmoil. This file
//! provides the clocks and faults of the machine.

use std::net::IpAddr;
use std::rc::Rc;

use lockstorm_platform::host::Slowness;
use lockstorm_platform::network::Latency;
use lockstorm_platform::rng::Chance;
use lockstorm_platform::time::{Clock, ClockSetting, MILLISECOND, Nanos};
use lockstorm_platform::trace::{HostId, Trace};
use turmoil::Sim;

use crate::engine::interface::Process;
use crate::engine::state::State;
use crate::engine::tasks::Tasks;
use crate::engine::tasks::life::Life;
use crate::engine::turmoil::machine::TurmoilMachine;
use crate::engine::turmoil::shared::{TurmoilShared, run_host};

/// The only machine of its own small world.
const GUEST: HostId = HostId(0);

/// A handle on a machine in a user's own simulation.
///
/// Faults may strike between two steps of the simulation, or from any of its hosts. They take
/// effect when the machine's host runs next.
#[derive(Clone)]
pub struct Guest {
    shared: Rc<TurmoilShared>,
}

/// Adds a machine to a simulation, as the host `name`, and starts its process.
///
/// Clients reach it by that name, over `turmoil::net::TcpStream`. Its wall clock begins at
/// [`lockstorm_platform::time::EPOCH`] and follows the simulation's time until a fault changes it.
/// `seed` determines its draws.
///
/// # Panics
/// If the simulation gives its hosts IPv6 addresses.
pub fn add_guest(sim: &mut Sim<'_>, name: &str, process: Process, seed: u64) -> Guest {
    let IpAddr::V4(ip) = sim.lookup(name) else { panic!("a guest needs an IPv4 address") };
    let chance = Chance::new(seed, std::collections::BTreeMap::new());
    // The latency is unused: this small world has no links.
    let latency = Latency::Constant(MILLISECOND);
    let mut state = State::new(chance, latency, Trace::new(false), MILLISECOND);
    state.add_host(name, ip, ClockSetting::default());
    let elapsed = || {
        turmoil::sim_elapsed()
            .map(|elapsed| Nanos::try_from(elapsed.as_nanos()).expect("under 584 years"))
    };
    let mut tasks = Tasks::new(state, Some(Box::new(elapsed)));
    tasks.fails_in_host = true;
    let shared = Rc::new(TurmoilShared::new(tasks, None));
    shared.tasks.lives.borrow_mut().push(Life::default());
    shared.tasks.life(GUEST, |life| life.process = Some(process));
    let supervised = Rc::clone(&shared.tasks);
    sim.host(name, move || run_host(Rc::clone(&supervised), GUEST));
    shared.tasks.start(GUEST, TurmoilMachine::host(&shared, GUEST));
    Guest { shared }
}

impl Guest {
    /// The tasks, at the current time of the user's simulation.
    fn tasks(&self) -> &Tasks {
        self.shared.tasks.look_at_clock();
        &self.shared.tasks
    }
}

/// Its clocks.
impl Guest {
    /// The reading of one of its clocks, in nanoseconds.
    pub fn now(&self, clock: Clock) -> Nanos {
        self.tasks().state().readings(GUEST).of(clock)
    }

    /// Steps the wall clock by `by` nanoseconds.
    pub fn step_clock(&self, by: i64) {
        self.tasks().change_clocks(GUEST, |clocks, now| clocks.step_wall(now, by));
    }

    /// Stops the wall clock, or lets it continue.
    pub fn freeze_clock(&self, frozen: bool) {
        self.tasks().change_clocks(GUEST, |clocks, now| clocks.freeze_wall(now, frozen));
    }
}

/// Its faults.
impl Guest {
    /// Stops scheduling the process, or resumes it. Its kernel still completes connections.
    pub fn pause(&self, paused: bool) {
        self.tasks().pause(GUEST, paused);
    }

    /// Kills the process. Written data survives, memory does not; connects are refused until
    /// [`Guest::start`].
    pub fn crash(&self) {
        self.tasks().kill(GUEST);
    }

    /// As [`Guest::crash`], and data not synced to the disk is lost. Its peers see their
    /// connections close; hold the links first if they must see silence.
    pub fn lose_power(&self) {
        self.tasks().power_off(GUEST);
    }

    /// Starts a new process.
    pub fn start(&self) {
        self.tasks().start(GUEST, TurmoilMachine::host(&self.shared, GUEST));
    }

    /// Makes each command and each script take this many nanoseconds longer.
    pub fn slow(&self, command: Nanos, script: Nanos) {
        let mut state = self.tasks().state();
        state.machine(GUEST).slowness = Slowness { command, script };
    }

    /// Makes fsync return without syncing, or work again.
    pub fn lie_about_fsync(&self, lies: bool) {
        self.tasks().state().machine(GUEST).disk.borrow_mut().lies = lies;
    }
}
