//! The turmoil engine: the platform on `turmoil::Sim`, an independent second opinion.
//!
//! Runtime, timers, TCP and the lifecycle of hosts are turmoil's. The links stay on hold forever,
//! and each message is delivered manually when the plan's network model allows it: this supports
//! one-way partitions, loss as delay, and back-off, which turmoil's own partitions do not. Time
//! moves in ticks of one millisecond; everything that happens in a tick happens at its start.

pub mod guest;
mod machine;
mod network;
mod shared;
mod socket;

use std::cell::RefMut;
use std::net::{IpAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use lockstorm_platform::host::Host;
use lockstorm_platform::order::Naming;
use lockstorm_platform::time::{ClockSetting, HostClocks, MILLISECOND, Nanos, Stamp};
use lockstorm_platform::trace::{Event, HostId, Trace};
use turmoil::{Builder, Sim};

use crate::engine::interface::{Engine, Process, Stop};
use crate::engine::state::State;
use crate::engine::tasks::Tasks;
use crate::engine::tasks::life::Life;
use crate::engine::turmoil::machine::TurmoilMachine;
use crate::engine::turmoil::network::Network;
use crate::engine::turmoil::shared::{TurmoilShared, run_host};

/// Longer than any plan: turmoil refuses to run beyond its simulation's duration.
const FOR_EVER: Duration = Duration::from_secs(1 << 40);
/// Segments that a connection or a listener holds: turmoil's buffers must never block a sender.
const CAPACITY: usize = 1 << 16;

/// See the head of this file. Dropping it drops every task.
pub(crate) struct TurmoilEngine {
    shared: Rc<TurmoilShared>,
    sim: Option<Sim<'static>>,
    /// Whether the current tick has been run.
    is_stepped: bool,
}

impl TurmoilEngine {
    /// An engine without hosts at true time zero. None of turmoil's own draws reaches a process.
    pub(crate) fn new(state: State) -> TurmoilEngine {
        let sim = Builder::new()
            .tick_duration(Duration::from_millis(1))
            .simulation_duration(FOR_EVER)
            .tcp_capacity(CAPACITY)
            .epoch(std::time::UNIX_EPOCH)
            .rng_seed(0)
            .build();
        let shared = TurmoilShared::new(Tasks::new(state, None), Some(Network::default()));
        TurmoilEngine { shared: Rc::new(shared), sim: Some(sim), is_stepped: false }
    }

    fn sim(&mut self) -> &mut Sim<'static> {
        self.sim.as_mut().expect("the world has not ended")
    }

    /// Runs one tick.
    fn step(&mut self) {
        // In the order of the event engine: messages arrive before tasks run, and what the tasks
        // send enters the model in the same tick.
        self.shared.tasks.wake_waiting();
        let shared = Rc::clone(&self.shared);
        let sim = self.sim();
        shared.in_network(|network, state| network.deliver(state, sim));
        sim.step().expect("supervisors do not fail");
        shared.in_network(|network, state| network.collect(state, sim));
        if let Some(panic) = shared.tasks.panic.take() {
            std::panic::resume_unwind(panic);
        }
    }

    fn end(&mut self) {
        // The simulation first: its tasks still use their machine's state as they are dropped.
        drop(self.sim.take());
        self.shared.tasks.clear();
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

    fn add_host(&mut self, name: &str, address: SocketAddrV4, clocks: ClockSetting) -> HostId {
        let ip = *address.ip();
        let shared = Rc::clone(&self.shared);
        let id = shared.state().add_host(name, ip, clocks);
        let others: Vec<IpAddr> = {
            let mut state = shared.state();
            let ids: Vec<HostId> = state.names.ids().filter(|other| *other != id).collect();
            ids.into_iter().map(|other| IpAddr::V4(state.machine(other).ip)).collect()
        };
        shared.tasks.lives.borrow_mut().push(Life::default());
        let sim = self.sim();
        sim.host(IpAddr::V4(ip), move || run_host(Rc::clone(&shared.tasks), id));
        for other in others {
            sim.hold(IpAddr::V4(ip), other);
        }
        id
    }

    fn install(&mut self, host: HostId, process: Process) {
        self.shared.tasks.life(host, |life| life.process = Some(process));
    }

    fn host(&self, id: HostId) -> Host {
        TurmoilMachine::host(&self.shared, id)
    }

    fn start(&self, host: HostId) {
        self.shared.tasks.start(host, TurmoilMachine::host(&self.shared, host));
        // After the power is on, because held messages pass only to and from a machine that is up.
        self.shared.in_network(|network, state| network.retry_all(state, host));
    }

    fn kill(&self, host: HostId) {
        self.shared.tasks.kill(host);
    }

    fn power_off(&self, host: HostId) {
        self.shared.tasks.power_off(host);
        self.shared.in_network(|network, _| network.forget(host));
    }

    fn pause(&self, host: HostId, paused: bool) {
        self.shared.tasks.pause(host, paused);
    }

    fn suspend(&self, host: HostId, suspended: bool) {
        if self.shared.tasks.suspend(host, suspended) {
            self.shared.in_network(|network, state| network.retry_all(state, host));
        }
    }

    fn change_clocks(&self, host: HostId, change: &dyn Fn(&mut HostClocks, Nanos)) {
        self.shared.tasks.change_clocks(host, change);
    }

    fn block(&self, from: HostId, to: HostId, blocked: bool) {
        self.shared.in_network(|network, state| network.block(state, from, to, blocked));
    }

    fn reset(&self, one: HostId, other: HostId) -> u64 {
        self.shared.in_network(|network, _| network.reset_between(one, other)).unwrap_or(0)
    }

    fn record(&self, event: Event) -> Stamp {
        self.shared.tasks.record(None, event)
    }

    fn strike_at(&self, at: Nanos, fault: u32) {
        let at = self.state().on_grain(at);
        self.shared.tasks.agenda.borrow_mut().push(at, Stop::Strike(fault));
    }

    fn call_at(&self, at: Nanos, call: u32) {
        let at = self.state().on_grain(at);
        self.shared.tasks.agenda.borrow_mut().push(at, Stop::Call(call));
    }

    fn forget_strikes(&self) {
        self.shared.tasks.forget_strikes();
    }

    fn naming(&self) -> Naming {
        let shared = Rc::clone(&self.shared);
        Rc::new(move |name, address| shared.state().set_name(name, address))
    }

    fn run_until(&mut self, limit: Nanos) -> Stop {
        // In the order of the event engine: anchored strikes, the agenda, tasks, the next instant.
        loop {
            if let Some(fault) = self.state().strikes.pop_front() {
                return Stop::Strike(fault);
            }
            let now = self.state().now;
            debug_assert!(
                self.shared.tasks.agenda.borrow().next_at().is_none_or(|at| at >= now),
                "no strike is overdue"
            );
            if let Some(stop) = self.shared.tasks.agenda.borrow_mut().pop_due(now) {
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
