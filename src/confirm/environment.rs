//! The environment of a plan on real servers: machines on loopback addresses, a redis-server behind
//! each node, and real time.
//!
//! Each machine has its own IP address, as in the simulated world, and each run has its own
//! network: while a server is down, no other run can receive its port.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockstorm_platform::fault::Verb;
use lockstorm_platform::rng::Chance;
use lockstorm_platform::time::{ClockSetting, MILLISECOND, Nanos};
use lockstorm_platform::trace::Trace;
use lockstorm_redis::cluster::BUS;
use lockstorm_redis::sentinel::known::Known;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::live::ports::Ports;
use lockstorm_world::engine::live::{LiveEngine, stop};
use lockstorm_world::engine::state::State;
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};

use crate::confirm::processes::{Home, Membership, ProcessSetup, Server, Watch, free_port};
use crate::confirm::relay::{self, RelayNode};
use crate::plan::Plan;
use crate::run::address::{node_address, resource_address, sentinel_address};
use crate::run::environment::{Environment, process};
use crate::run::nodes::{cluster_of, master_of};
use crate::run::sentinels::Surroundings;
use crate::run::{self, Lab};

/// How long the world runs between two updates of the servers' state (stopped or running) and
/// clocks.
const BEAT: Nanos = 10 * MILLISECOND;
/// How often a server that exits at once is started, including the first time.
const MAX_TRIES: u32 = 5;
/// The host that waits for an interrupt of the whole program.
const WATCHMAN: &str = "watchman";
/// Its address in the simulated world. It has no connections.
const WATCHMAN_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 9, 2), 0);

/// The reason why an interrupted run has no result.
pub const ENDED: &str = "it was ended before it was over";

/// See the module documentation.
pub struct RealEnvironment {
    nodes: Vec<Rc<RelayNode>>,
    network: u8,
    places: BTreeMap<SocketAddrV4, SocketAddrV4>,
    ports: Option<Ports>,
    is_interrupted: Rc<Cell<bool>>,
    latest: Nanos,
}

/// A server that is starting. The order of the fields is the order in which they are dropped: the
/// server stops before its files are deleted.
struct Started {
    setup: ProcessSetup,
    /// `None` if the process of its node starts it.
    server: Option<Server>,
    home: Home,
}

impl Started {
    fn wait(&mut self) -> io::Result<()> {
        self.server.as_mut().map_or(Ok(()), |server| server.wait(&self.setup))
    }
}

/// A run on real servers, and how complete its evidence is.
pub struct RealRun {
    /// The run.
    pub run: run::Run,
    /// The number of gaps in the evidence: times at which a server may have failed to report
    /// something.
    pub unmatched: u32,
    /// The longest delay of the world behind its schedule, ns: how busy the machine was.
    pub latest: Nanos,
}

impl RealEnvironment {
    /// Starts a server for each node of a plan and waits until all reply.
    ///
    /// # Errors
    ///
    /// A text: what cannot be bound or started.
    pub fn prepare(plan: &Plan) -> Result<RealEnvironment, String> {
        let network = next_network();
        let mut ports = Ports::default();
        let mut places = BTreeMap::new();
        let servers = servers(plan);
        for simulated in servers.iter().map(|(_, at)| *at).chain([resource_address()]) {
            let wanted = on_loopback(network, simulated);
            let bound = match plan.topology.shards {
                Some(_) => ports.bind_pair(wanted, BUS),
                None => ports.bind(wanted),
            };
            let known = bound.map_err(|e| format!("{wanted} cannot be bound: {e}"))?;
            places.insert(simulated, known);
        }
        let mut environment = RealEnvironment {
            nodes: Vec::new(),
            network,
            places,
            ports: Some(ports),
            is_interrupted: Rc::default(),
            latest: 0,
        };
        let start = |name: &str, at| {
            environment.start(plan, name, at).map_err(|e| format!("{name} cannot be started: {e}"))
        };
        // All servers are started before the first is awaited, so that they start in parallel.
        let started = servers.iter().map(|(name, at)| start(name, *at));
        let started: Vec<Started> = started.collect::<Result<_, _>>()?;
        let mut nodes = Vec::new();
        for ((name, at), mut started) in servers.iter().zip(started) {
            let mut tries = 1;
            while let Err(error) = started.wait() {
                // A broken pipe means that another process took the port between its choice and the
                // bind.
                if error.kind() != io::ErrorKind::BrokenPipe || tries == MAX_TRIES {
                    return Err(format!("{name} does not answer: {error}"));
                }
                tries += 1;
                started = start(name, *at)?;
            }
            let Started { setup, server, home } = started;
            nodes.push(Rc::new(RelayNode::new(name.clone(), setup, home, server)));
        }
        environment.nodes = nodes;
        Ok(environment)
    }

    fn start(&self, plan: &Plan, name: &str, at: SocketAddrV4) -> io::Result<Started> {
        let (known, first) = (self.place(at), node_address(1));
        let master = self.place(first);
        let nth = (1..).zip(plan.nodes()).find(|(_, node)| node == name).map(|(nth, _)| nth);
        let is_node = nth.is_some();
        let follows = nth.and_then(|nth| master_of(plan, nth));
        let nodes: Vec<SocketAddrV4> =
            (1..=plan.topology.nodes).map(|n| self.place(node_address(n))).collect();
        let cluster = plan.topology.shards.map(|shards| {
            let config = cluster_of(&shards, &nodes);
            free_port(known).map(|bus| Membership { bus, config })
        });
        let watch = |terms| Watch { master, terms, known: self.known_to(plan, name, &nodes) };
        let setup = ProcessSetup {
            own: free_port(known)?,
            known,
            config: plan.topology.node(nth.unwrap_or(1)),
            follows: follows.map(|master| self.place(master)),
            changes_role: plan.topology.replicas() > 0,
            has_clock: has_clock(plan, name),
            watch: plan.topology.sentinels.filter(|_| !is_node).map(watch),
            cluster: cluster.transpose()?,
        };
        let home = Home::new()?;
        home.set_clock(0)?;
        // Sentinels start later, once the nodes run: otherwise they would take time to reconnect to
        // them.
        let server = match setup.watch {
            None => Some(Server::start(&setup, &home)?),
            Some(_) => None,
        };
        Ok(Started { setup, server, home })
    }

    /// The content of a Sentinel's file, as in the simulated world.
    fn known_to(&self, plan: &Plan, name: &str, nodes: &[SocketAddrV4]) -> Known {
        let names = plan.sentinels();
        let n = (1..).zip(&names).find(|(_, other)| *other == name).map_or(0, |(n, _)| n);
        let sentinels = (1..).take(names.len()).map(|n| self.place(sentinel_address(n)));
        let sentinels: Vec<SocketAddrV4> = sentinels.collect();
        let chance = Chance::new(plan.seed, plan.draws.clone());
        Surroundings { nodes, sentinels: &sentinels, chance: &chance }.known_to(n)
    }

    /// Runs the plan.
    ///
    /// # Errors
    ///
    /// A text: that the run was interrupted.
    pub fn run(mut self, lab: &Lab, plan: &Plan) -> Result<RealRun, String> {
        let run = run::run_on(&mut self, lab, plan, false);
        if self.is_interrupted.get() {
            return Err(ENDED.to_owned());
        }
        let unmatched = self.nodes.iter().map(|node| node.pending.unmatched()).sum();
        Ok(RealRun { run, unmatched, latest: self.latest })
    }

    /// Applies the state and the clock of each node in the world to its server.
    fn look_after(&self, world: &World) {
        let real = world.status(WATCHMAN).readings.wall;
        for node in &self.nodes {
            let interval = world.status(&node.name);
            let ahead = i128::from(interval.readings.wall) - i128::from(real);
            node.follow(interval.is_halted);
            node.set_clock(i64::try_from(ahead / i128::from(MILLISECOND)).unwrap_or(0));
        }
    }
}

/// The names of a plan's servers with their addresses in a simulated world: nodes, then Sentinels.
fn servers(plan: &Plan) -> Vec<(String, SocketAddrV4)> {
    let nodes = plan.nodes().into_iter().zip((1..).map(node_address));
    nodes.chain(plan.sentinels().into_iter().zip((1..).map(sentinel_address))).collect()
}

/// Whether a plan gives a node a clock that differs from the machine's.
fn has_clock(plan: &Plan, node: &str) -> bool {
    let own = plan.clocks.get(node).is_some_and(|clock| *clock != ClockSetting::default());
    let changed = plan.faults.iter().any(|fault| {
        matches!(fault.verb, Verb::ClockStep { .. }) && fault.target.hosts().contains(&node)
    });
    own || changed
}

impl Environment for RealEnvironment {
    fn place(&self, simulated: SocketAddrV4) -> SocketAddrV4 {
        let bound = self.places.get(&simulated).copied();
        bound.unwrap_or_else(|| on_loopback(self.network, simulated))
    }

    fn node(&self, _: &Plan, n: u32) -> Process {
        let node = Rc::clone(&self.nodes[n as usize - 1]);
        process(move |host| relay::run(host, Rc::clone(&node)))
    }

    fn sentinel(&self, plan: &Plan, n: u32) -> Process {
        self.node(plan, plan.topology.nodes + n)
    }

    fn world(&mut self, mut spec: WorldSpec) -> World {
        let is_interrupted = Rc::clone(&self.is_interrupted);
        let watch = process(move |_| {
            let is_interrupted = Rc::clone(&is_interrupted);
            async move {
                stop::requested().await;
                is_interrupted.set(true);
            }
        });
        let at = on_loopback(self.network, WATCHMAN_ADDRESS);
        spec.hosts.push(HostSpec::new(WATCHMAN, at, Part::Other, watch));
        let chance = Chance::new(spec.seed, spec.draws.clone());
        let state = State::new(chance, spec.latency, Trace::unhashed(), 1);
        let ports = self.ports.take().expect("an environment has one world");
        World::on(Box::new(LiveEngine::closed(state, ports)), spec)
    }

    fn pass(&mut self, world: &mut World, limit: Nanos) {
        self.look_after(world);
        while world.now() < limit && !self.is_interrupted.get() {
            let next = limit.min(world.now() + BEAT);
            world.run_until(next);
            self.latest = self.latest.max(world.now().saturating_sub(next));
            self.look_after(world);
        }
    }
}

/// The address 127.`network`.x.y, with a port that the system chooses, of a machine that has
/// 10.0.x.y in the simulated world.
fn on_loopback(network: u8, simulated: SocketAddrV4) -> SocketAddrV4 {
    let [.., net, n] = simulated.ip().octets();
    SocketAddrV4::new(Ipv4Addr::new(127, network, net, n), 0)
}

/// The networks 127.1 to 127.254 in turn. Another process begins at another one.
fn next_network() -> u8 {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let nth = RUNS.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id());
    1 + u8::try_from(nth % 254).expect("254 networks")
}
