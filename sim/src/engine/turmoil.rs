//! The turmoil engine: the platform on `turmoil::Sim`, an independent second opinion.
//!
//! Runtime, timers, TCP and the life of hosts are turmoil's. The links stay on hold for ever, and
//! each message is delivered by hand when the plan's network model says so: this carries one-way
//! partitions, loss as delay and back-off, which turmoil's own partitions do not. Time moves in
//! ticks of a millisecond; everything that happens in a tick happens at its start.

mod agenda;
mod gate;
pub mod guest;
mod life;
mod machine;
mod network;
mod process;
mod socket;

use std::any::Any;
use std::cell::{RefCell, RefMut};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use turmoil::{Builder, Sim};

use crate::engine::state::State;
use crate::engine::turmoil::agenda::Agenda;
use crate::engine::turmoil::life::{Life, supervise};
use crate::engine::turmoil::machine::Machine;
use crate::engine::turmoil::network::Network;
use crate::engine::{Engine, Naming, Process, Stop};
use crate::platform::Host;
use crate::time::{ClockSetting, HostClocks, MILLISECOND, Nanos, Stamp};
use crate::trace::{Event, HostId, Trace};

/// Longer than any plan: turmoil refuses to run on after its simulation's duration.
const FOR_EVER: Duration = Duration::from_secs(1 << 40);
/// Segments that a connection or a listener holds: turmoil's buffers must never be what blocks.
const CAPACITY: usize = 1 << 16;

/// See the head of this file. Dropping it ends every task.
pub struct TurmoilEngine {
    shared: Rc<Shared>,
    sim: Option<Sim<'static>>,
    /// Whether the present tick has been run.
    is_stepped: bool,
}

/// What tasks, streams and timers hold on to.
struct Shared {
    state: RefCell<State>,
    agenda: RefCell<Agenda>,
    /// The plan's network; `None` where the network is the user's own.
    network: Option<RefCell<Network>>,
    lives: RefCell<Vec<Life>>,
    /// Tasks that wait until the faults of this instant have struck.
    struck: RefCell<Vec<Waker>>,
    /// What a task has panicked with: tokio would swallow it.
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl Shared {
    fn new(state: State, network: Option<Network>) -> Shared {
        Shared {
            state: RefCell::new(state),
            agenda: RefCell::default(),
            network: network.map(RefCell::new),
            lives: RefCell::default(),
            struck: RefCell::default(),
            panic: RefCell::default(),
        }
    }

    /// The state, at the present time. A user's own simulation moves time itself.
    fn state(&self) -> RefMut<'_, State> {
        let mut state = self.state.borrow_mut();
        if self.network.is_none()
            && let Some(elapsed) = turmoil::sim_elapsed()
        {
            let elapsed = Nanos::try_from(elapsed.as_nanos()).expect("under 584 years");
            state.now = state.now.max(elapsed);
        }
        state
    }

    fn record(&self, host: Option<HostId>, event: Event) -> Stamp {
        let mut state = self.state();
        let (stamp, later) = match host {
            Some(host) => state.record(host, event),
            None => state.record_world(event),
        };
        for (at, fault) in later {
            let at = state.on_grain(at);
            self.agenda.borrow_mut().push(at, Stop::Strike(fault));
        }
        stamp
    }
}

impl TurmoilEngine {
    /// An engine without hosts at true time zero. None of turmoil's own draws reaches a process.
    pub fn new(state: State) -> TurmoilEngine {
        let sim = Builder::new()
            .tick_duration(Duration::from_millis(1))
            .simulation_duration(FOR_EVER)
            .tcp_capacity(CAPACITY)
            .epoch(std::time::UNIX_EPOCH)
            .rng_seed(0)
            .build();
        let shared = Shared::new(state, Some(Network::default()));
        TurmoilEngine { shared: Rc::new(shared), sim: Some(sim), is_stepped: false }
    }

    fn sim(&mut self) -> &mut Sim<'static> {
        self.sim.as_mut().expect("the world has not ended")
    }

    /// Runs one tick.
    fn step(&mut self) {
        for waker in self.shared.struck.take() {
            waker.wake();
        }
        let shared = Rc::clone(&self.shared);
        let sim = self.sim();
        network::deliver(&shared, sim);
        sim.step().expect("supervisors do not fail");
        network::collect(&shared, sim);
        if let Some(panic) = shared.panic.take() {
            std::panic::resume_unwind(panic);
        }
    }

    fn end(&mut self) {
        drop(self.sim.take());
        self.shared.lives.borrow_mut().iter_mut().for_each(Life::clear);
    }
}

impl Drop for TurmoilEngine {
    fn drop(&mut self) {
        self.end();
    }
}

impl Engine for TurmoilEngine {
    fn state(&self) -> RefMut<'_, State> {
        self.shared.state()
    }

    fn add_host(&mut self, name: &str, ip: Ipv4Addr, clocks: ClockSetting) -> HostId {
        let shared = Rc::clone(&self.shared);
        let id = shared.state().add_host(name, ip, clocks);
        let others: Vec<IpAddr> = {
            let mut state = shared.state();
            let ids: Vec<HostId> = state.names.ids().filter(|other| *other != id).collect();
            ids.into_iter().map(|other| IpAddr::V4(state.machine(other).ip)).collect()
        };
        shared.lives.borrow_mut().push(Life::default());
        let sim = self.sim();
        sim.host(IpAddr::V4(ip), move || supervise(Rc::clone(&shared), id));
        for other in others {
            sim.hold(IpAddr::V4(ip), other);
        }
        id
    }

    fn install(&mut self, host: HostId, process: Process) {
        self.shared.life(host, |life| life.process = Some(process));
    }

    fn host(&self, id: HostId) -> Host {
        Machine::host(&self.shared, id)
    }

    fn start(&self, host: HostId) {
        self.shared.start(host);
    }

    fn kill(&self, host: HostId) {
        self.shared.kill(host);
    }

    fn power_off(&self, host: HostId) {
        self.shared.power_off(host);
    }

    fn pause(&self, host: HostId, paused: bool) {
        self.shared.pause(host, paused);
    }

    fn suspend(&self, host: HostId, suspended: bool) {
        self.shared.suspend(host, suspended);
    }

    fn change_clocks(&self, host: HostId, change: &dyn Fn(&mut HostClocks, Nanos)) {
        self.shared.change_clocks(host, change);
    }

    fn block(&self, from: HostId, to: HostId, blocked: bool) {
        network::block(&self.shared, from, to, blocked);
    }

    fn reset(&self, one: HostId, other: HostId) {
        network::reset(&self.shared, one, other);
    }

    fn record(&self, event: Event) -> Stamp {
        self.shared.record(None, event)
    }

    fn strike_at(&self, at: Nanos, fault: u32) {
        let at = self.state().on_grain(at);
        self.shared.agenda.borrow_mut().push(at, Stop::Strike(fault));
    }

    fn call_at(&self, at: Nanos, call: u32) {
        let at = self.state().on_grain(at);
        self.shared.agenda.borrow_mut().push(at, Stop::Call(call));
    }

    fn forget_strikes(&self) {
        let mut state = self.state();
        state.watches.clear();
        state.strikes.clear();
        self.shared.agenda.borrow_mut().forget_strikes();
    }

    fn naming(&self) -> Naming {
        let shared = Rc::clone(&self.shared);
        Rc::new(move |name, address| shared.state().set_name(name, address))
    }

    fn run_until(&mut self, limit: Nanos) -> Stop {
        loop {
            if let Some(fault) = self.state().strikes.pop_front() {
                return Stop::Strike(fault);
            }
            let now = self.state().now;
            if let Some(stop) = self.shared.agenda.borrow_mut().pop_due(now) {
                return stop;
            }
            if !self.is_stepped {
                self.step();
                self.is_stepped = true;
            } else if now >= limit {
                return Stop::Limit;
            } else {
                self.state().now += MILLISECOND;
                self.is_stepped = false;
            }
        }
    }

    fn finish(&mut self) -> Trace {
        self.end();
        std::mem::replace(&mut self.state().trace, Trace::new(false))
    }
}
