//! A world: machines, links, clocks and faults, run on an engine to its end.
//!
//! It applies and heals faults. It does not know what the processes do.

mod met;
pub mod steering;
mod strike;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use lockstorm_platform::fault::{Anchor, Fault, HostNames, Verb, Watch};
use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::order::Operator;
use lockstorm_platform::rng::{Chance, DrawKey};
use lockstorm_platform::time::{Clock, ClockSetting, Instant, Line, Nanos};
use lockstorm_platform::trace::{HostId, Trace};

use crate::engine::links::Disturbance;
use crate::engine::{Engine, EngineKind, Process, Stop};
use crate::world::strike::Struck;

/// The host from which faults that act by command reach nodes.
const OPERATOR: &str = "operator";
/// The operator's address.
const OPERATOR_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 9, 1), 0);
/// The latency of the operator's messages; no fault touches its links.
const OPERATOR_LATENCY: Latency = Latency::Constant(100_000);

/// The description of a world.
pub struct WorldSpec {
    /// The engine that drives it.
    pub engine: EngineKind,
    /// Whether all durations are whole milliseconds.
    pub whole_ms: bool,
    /// The seed of every draw.
    pub seed: u64,
    /// Draws that are fixed by hand.
    pub draws: BTreeMap<DrawKey, u64>,
    /// The latency of links that are not named.
    pub latency: Latency,
    /// Directed links with their own latency.
    pub named_links: Vec<(String, String, Latency)>,
    /// Lost tries per million, on every link.
    pub loss_per_million: u32,
    /// The machines, in the order in which they are started.
    pub hosts: Vec<HostSpec>,
    /// Additional names of addresses, such as `master`.
    pub names: BTreeMap<String, SocketAddrV4>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Carries out faults that act by command, if there can be any.
    pub operator: Option<Operator>,
    /// Whether the trace keeps a line for every record.
    pub whole_trace: bool,
}

/// One machine and its process.
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// Its address, to which its name resolves.
    pub address: SocketAddrV4,
    /// The initial setting of its clocks.
    pub clocks: ClockSetting,
    /// Its part in the world.
    pub part: Part,
    /// What its process runs.
    pub process: Process,
}

/// The part of a machine, as far as faults and the heal distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A Redis node: the heal restarts it.
    Node,
    /// A Sentinel: the heal restarts it too, but it takes no part in replication.
    Sentinel,
    /// Anything else: once dead, it stays dead.
    Other,
    /// As `Other`, and not started before [`World::start`].
    Late,
}

/// Wraps the process so that it sets `ended` when it exits on its own.
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

/// A running world.
pub struct World {
    engine: Box<dyn Engine>,
    names: HostNames,
    parts: Vec<Part>,
    alive: Vec<bool>,
    /// Whether each host's process has exited on its own since it was started.
    ended: Vec<Rc<Cell<bool>>>,
    faults: Vec<Fault>,
    struck: Vec<Struck>,
    clocks: Vec<ClockChange>,
    /// The operator's machine.
    desk: Host,
    operator: Option<Operator>,
    /// The additional names: those of masters, which a failover redirects.
    masters: Vec<String>,
}

/// A clock that follows a new line from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// The host.
    pub host: HostId,
    /// The clock.
    pub clock: Clock,
    /// The instant of the change.
    pub from: Instant,
    /// The new line.
    pub line: Line,
}

/// A fault that has struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The fault's number.
    pub fault: u32,
    /// When it struck.
    pub from: Instant,
    /// When it ended, if it has.
    pub to: Option<Instant>,
    /// How many messages, tasks, commands, writes, keys or other things it touched; 0: it had no
    /// effect. `None` if the engine does not count.
    pub met: Option<u64>,
}

/// What remains after a world has ended.
pub struct Remains {
    /// The trace.
    pub trace: Trace,
    /// The hosts' names and addresses.
    pub names: HostNames,
    /// The faults that struck, in order.
    pub strikes: Vec<Strike>,
    /// Every line that a clock followed, in order.
    pub clocks: Vec<ClockChange>,
    /// How many messages were lost or held; `None` if the engine does not count.
    pub missed: Option<Missed>,
    /// When the world ended.
    pub end: Instant,
}

/// How many messages did not arrive at their first try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Lost tries, whether by faults or by a link's own loss.
    pub lost: u64,
    /// Messages that met a link cut by a fault.
    pub cut: u64,
}

impl World {
    /// Builds the world and starts its processes; no time has passed yet.
    ///
    /// # Panics
    /// If two hosts share a name or an address, or a fault names an unknown host: plans are
    /// validated earlier.
    pub fn new(spec: WorldSpec) -> World {
        let chance = Chance::new(spec.seed, spec.draws.clone());
        let trace = Trace::new(spec.whole_trace);
        let engine = spec.engine.engine(chance, spec.latency, trace, spec.whole_ms);
        World::on(engine, spec)
    }

    /// As [`World::new`], on an existing engine.
    ///
    /// # Panics
    /// As [`World::new`].
    pub fn on(mut engine: Box<dyn Engine>, spec: WorldSpec) -> World {
        let (mut parts, mut ended) = (Vec::new(), Vec::new());
        for host in &spec.hosts {
            let id = engine.add_host(&host.name, host.address, host.clocks);
            engine.state().set_name(&host.name, host.address);
            ended.push(Rc::default());
            engine.install(id, noting_its_end(&host.process, &ended[usize::from(id.0)]));
            parts.push(host.part);
        }
        let desk = engine.add_host(OPERATOR, OPERATOR_ADDRESS, ClockSetting::default());
        for (name, address) in &spec.names {
            engine.state().set_name(name, *address);
        }
        let names = engine.state().names.clone();
        let mut world = World {
            desk: engine.host(desk),
            operator: spec.operator,
            masters: spec.names.into_keys().collect(),
            alive: vec![false; parts.len()],
            ended,
            engine,
            names,
            parts,
            faults: spec.faults,
            struck: Vec::new(),
            clocks: Vec::new(),
        };
        world.lay_links(&spec.named_links, spec.loss_per_million, desk);
        world.note_clocks();
        world.arm_faults();
        world.start_hosts();
        world
    }

    fn lay_links(&self, named: &[(String, String, Latency)], loss: u32, desk: HostId) {
        for (from, to, latency) in named {
            self.set_latency(self.id(from), self.id(to), *latency);
        }
        for host in self.names.ids() {
            self.set_latency(desk, host, OPERATOR_LATENCY);
            self.set_latency(host, desk, OPERATOR_LATENCY);
        }
        if loss > 0 {
            self.lose_everywhere(loss, desk);
        }
    }

    fn set_latency(&self, from: HostId, to: HostId, latency: Latency) {
        self.engine.state().links.link(from, to).latency = latency;
    }

    fn disturb(&self, from: HostId, to: HostId, change: Disturbance) {
        self.engine.state().links.link(from, to).disturb(change);
    }

    fn lose_everywhere(&self, loss: u32, desk: HostId) {
        for from in self.names.ids().filter(|id| *id != desk) {
            for to in self.names.ids().filter(|id| *id != desk) {
                self.engine.state().links.link(from, to).loss_per_million = u64::from(loss);
            }
        }
    }

    fn note_clocks(&mut self) {
        for host in self.names.ids() {
            self.note_clocks_of(host);
        }
    }

    fn note_clocks_of(&mut self, host: HostId) {
        let from = self.instant();
        for clock in [Clock::Wall, Clock::Monotonic, Clock::Boot] {
            let line = self.engine.state().machine(host).clocks.line(clock);
            let last = self.clocks.iter().rev().find(|c| (c.host, c.clock) == (host, clock));
            if last.is_none_or(|last| last.line != line) {
                self.clocks.push(ClockChange { host, clock, from, line });
            }
        }
    }

    fn arm_faults(&self) {
        for fault in &self.faults {
            match (&fault.anchor, Watch::of(fault)) {
                (Anchor::At(at), _) => self.engine.strike_at(*at, fault.id),
                (Anchor::After { .. }, Some(watch)) => self.engine.state().watches.push(watch),
                (Anchor::After { .. }, None) => unreachable!("an event anchor has a watch"),
            }
        }
    }

    fn start_hosts(&mut self) {
        for index in 0..self.parts.len() {
            if self.parts[index] != Part::Late {
                let id = HostId(u16::try_from(index).expect("a world has under 65,536 hosts"));
                self.boot(id);
            }
        }
    }

    /// Starts a host that was not started with the others.
    pub fn start(&mut self, name: &str) {
        let id = self.id(name);
        self.boot(id);
    }

    fn boot(&mut self, host: HostId) {
        self.engine.start(host);
        self.alive[usize::from(host.0)] = true;
        self.ended[usize::from(host.0)].set(false);
        self.engine.state().machine(host).met.starts += 1;
        self.note_clocks_of(host);
    }

    /// Runs until true time `limit`; faults strike on the way.
    pub fn run_until(&mut self, limit: Nanos) {
        loop {
            match self.engine.run_until(limit) {
                Stop::Limit => return,
                Stop::Strike(fault) => self.strike(fault),
                Stop::Call(index) => self.end_fault(index),
            }
        }
    }

    /// Whether a host runs no process: it was taken down, or its process has exited on its own.
    fn is_down(&self, host: usize) -> bool {
        !self.alive[host] || self.ended[host].get()
    }

    /// Ends every fault, disarms those that have not struck, and starts nodes that are down unless
    /// `keep_down`. Returns the instant of the heal.
    pub fn heal(&mut self, keep_down: bool) -> Instant {
        self.engine.forget_strikes();
        let healed = self.instant();
        self.count_all_met();
        for index in 0..self.struck.len() {
            let down = matches!(self.fault_of(index).verb, Verb::Crash | Verb::PowerLoss);
            if !(down && keep_down) {
                self.end_fault(u32::try_from(index).expect("faults are counted in u32"));
            }
        }
        for index in 0..self.parts.len() {
            let returns = matches!(self.parts[index], Part::Node | Part::Sentinel);
            if returns && self.is_down(index) && !keep_down {
                self.boot(HostId(u16::try_from(index).expect("under 65,536 hosts")));
            }
        }
        healed
    }

    /// True time.
    pub fn now(&self) -> Nanos {
        self.engine.state().now
    }

    /// The position of the next record in the trace.
    pub fn instant(&self) -> Instant {
        let state = self.engine.state();
        state.trace.next_instant(state.now)
    }

    /// Ends the world.
    pub fn finish(self) -> Remains {
        let end = self.instant();
        let mut world = self;
        let missed = world.missed();
        let trace = world.finish_counts(end);
        let strikes = world.struck.iter().map(|struck| struck.strike).collect();
        let World { names, clocks, .. } = world;
        Remains { trace, names, strikes, clocks, missed, end }
    }

    fn id(&self, name: &str) -> HostId {
        self.names.find(name).unwrap_or_else(|| panic!("a plan names the host '{name}'"))
    }
}
