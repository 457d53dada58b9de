//! The machines of a world on their engine: they are built, started, killed and queried here.
//!
//! Nothing here knows a fault.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use lockstorm_platform::fault::HostNames;
use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::order::Operator;
use lockstorm_platform::time::{Clock, ClockSetting, Instant, Nanos};
use lockstorm_platform::trace::HostId;

use crate::engine::interface::{Engine, Process};
use crate::engine::links::Disturbance;
use crate::world::remains::ClockChange;
use crate::world::spec::{HostSpec, Part};

/// The host from which faults that act by command reach nodes.
const OPERATOR: &str = "operator";
/// The operator's address.
pub(crate) const OPERATOR_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 9, 1), 0);
/// The latency of the operator's messages; no fault touches its links.
const OPERATOR_LATENCY: Latency = Latency::Constant(100_000);

/// See the head of this file.
pub(crate) struct Machines {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) names: HostNames,
    parts: Vec<Part>,
    alive: Vec<bool>,
    /// Whether each host's process has exited on its own since it was started.
    ended: Vec<Rc<Cell<bool>>>,
    /// Every line that a clock followed, in order.
    pub(crate) clocks: Vec<ClockChange>,
    /// The operator's machine.
    pub(crate) desk: Host,
    pub(crate) operator: Option<Operator>,
    /// When the world will be healed, if that is known.
    pub(crate) heal_at: Option<Nanos>,
    /// The additional names: those of masters, which a failover redirects.
    pub(crate) masters: Vec<String>,
}

/// The process, which notes when it has exited on its own.
fn noting_its_end(process: &Process, ended: &Rc<Cell<bool>>) -> Process {
    let (process, ended) = (Rc::clone(process), Rc::clone(ended));
    Rc::new(move |host| {
        let (work, ended) = (process(host), Rc::clone(&ended));
        Box::pin(async move {
            work.await;
            ended.set(true);
        })
    })
}

impl Machines {
    /// Adds the machines of a world to an engine. None is started.
    ///
    /// # Panics
    /// If two of them share a name or an address.
    pub(crate) fn new(
        mut engine: Box<dyn Engine>,
        hosts: &[HostSpec],
        names: BTreeMap<String, SocketAddrV4>,
        operator: Option<Operator>,
    ) -> Machines {
        let (mut parts, mut ended) = (Vec::new(), Vec::new());
        for host in hosts {
            let id = engine.add_host(&host.name, host.address, host.clocks);
            engine.state().set_name(&host.name, host.address);
            engine.state().machine(id).is_one_loop = host.part.is_redis();
            debug_assert_eq!(usize::from(id.0), parts.len(), "machines are numbered in order");
            ended.push(Rc::default());
            engine.install(id, noting_its_end(&host.process, &ended[usize::from(id.0)]));
            parts.push(host.part);
        }
        let desk = engine.add_host(OPERATOR, OPERATOR_ADDRESS, ClockSetting::default());
        for (name, address) in &names {
            engine.state().set_name(name, *address);
        }
        debug_assert_eq!(usize::from(desk.0), parts.len(), "the operator's machine is the last");
        let known = engine.state().names.clone();
        Machines {
            desk: engine.host(desk),
            operator,
            heal_at: None,
            masters: names.into_keys().collect(),
            alive: vec![false; parts.len()],
            ended,
            engine,
            names: known,
            parts,
            clocks: Vec::new(),
        }
    }

    /// Sets the latency and the loss of links. The operator's links keep their own.
    pub(crate) fn set_up_links(&self, named: &[(String, String, Latency)], loss: u32) {
        let desk = self.desk.id();
        for (from, to, latency) in named {
            self.set_latency(self.id(from), self.id(to), *latency);
        }
        for host in self.names.ids() {
            self.set_latency(desk, host, OPERATOR_LATENCY);
            self.set_latency(host, desk, OPERATOR_LATENCY);
        }
        if loss > 0 {
            self.set_loss(loss);
        }
    }

    fn set_latency(&self, from: HostId, to: HostId, latency: Latency) {
        self.engine.state().links.link(from, to).latency = latency;
    }

    /// Changes what faults add to a directed link.
    pub(crate) fn disturb(&self, from: HostId, to: HostId, change: Disturbance) {
        self.engine.state().links.link(from, to).disturb(change);
    }

    fn set_loss(&self, loss: u32) {
        let desk = self.desk.id();
        for from in self.names.ids().filter(|id| *id != desk) {
            for to in self.names.ids().filter(|id| *id != desk) {
                self.engine.state().links.link(from, to).loss_per_million = u64::from(loss);
            }
        }
    }

    /// Notes the current lines of all clocks.
    pub(crate) fn note_clocks(&mut self) {
        for host in self.names.ids() {
            self.note_clocks_of(host);
        }
    }

    /// Notes the current lines of a machine's clocks, where they have changed.
    pub(crate) fn note_clocks_of(&mut self, host: HostId) {
        let from = self.instant();
        for clock in [Clock::Wall, Clock::Monotonic, Clock::Boot] {
            let line = self.engine.state().machine(host).clocks.line(clock);
            debug_assert!(self.clocks.last().is_none_or(|last| last.from <= from), "in order");
            let last = self.clocks.iter().rev().find(|c| (c.host, c.clock) == (host, clock));
            if last.is_none_or(|last| last.line != line) {
                self.clocks.push(ClockChange { host, clock, from, line });
            }
        }
    }

    /// Starts the machines that run from the beginning.
    pub(crate) fn start_all(&mut self) {
        for (id, part) in self.all() {
            if part != Part::Late {
                self.boot(id);
            }
        }
    }

    /// Starts a new process on a machine, and powers it on if necessary.
    pub(crate) fn boot(&mut self, host: HostId) {
        self.engine.start(host);
        self.alive[usize::from(host.0)] = true;
        self.ended[usize::from(host.0)].set(false);
        let mut state = self.engine.state();
        let machine = state.machine(host);
        debug_assert!(machine.powered && !machine.is_halted(), "what was started runs");
        machine.counters.starts += 1;
        drop(state);
        // A start ends a suspension, so the monotonic clock may follow a new line.
        self.note_clocks_of(host);
    }

    /// Kills the process of a machine, or cuts its power.
    pub(crate) fn take_down(&mut self, host: HostId, power: bool) {
        // Read before the kill: a fault does not kill a process that has already exited.
        let runs = !self.is_down(host);
        self.engine.state().machine(host).counters.kills += u64::from(runs);
        if power {
            self.engine.power_off(host);
        } else {
            self.engine.kill(host);
        }
        self.alive[usize::from(host.0)] = false;
        debug_assert!(!power || !self.engine.state().machine(host).powered, "it is without power");
    }

    /// Whether no fault has taken its process down, even if the process has exited on its own.
    pub(crate) fn is_alive(&self, host: HostId) -> bool {
        self.alive[usize::from(host.0)]
    }

    /// Whether it runs no process: a fault took it down, or the process has exited on its own.
    pub(crate) fn is_down(&self, host: HostId) -> bool {
        let index = usize::from(host.0);
        !self.alive[index] || self.ended[index].get()
    }

    /// Every machine except the operator's, with its part.
    pub(crate) fn all(&self) -> Vec<(HostId, Part)> {
        self.names.ids().zip(self.parts.iter().copied()).collect()
    }

    /// All nodes except one.
    pub(crate) fn other_nodes(&self, host: HostId) -> impl Iterator<Item = HostId> {
        let parts = self.names.ids().zip(&self.parts);
        parts.filter(move |(id, part)| **part == Part::Node && *id != host).map(|(id, _)| id)
    }

    /// The address of a machine.
    pub(crate) fn address(&self, host: HostId) -> SocketAddrV4 {
        self.desk.resolve(self.names.name(host)).expect("every host has an address")
    }

    /// The machine of this name.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn id(&self, name: &str) -> HostId {
        self.names.find(name).unwrap_or_else(|| panic!("a plan names the host '{name}'"))
    }

    /// True time.
    pub(crate) fn now(&self) -> Nanos {
        self.engine.state().now
    }

    /// The position of the next record in the trace.
    pub(crate) fn instant(&self) -> Instant {
        let state = self.engine.state();
        state.trace.next_instant(state.now)
    }
}
