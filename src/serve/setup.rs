//! The nodes that are served, and the faults of a scenario that can be applied to them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::rng::Chance;
use lockstorm_platform::time::ClockSetting;
use lockstorm_redis::node::NodeConfig;
use lockstorm_redis::operator::operator;
use lockstorm_redis::process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};

use crate::plan::lack::lack;
use crate::plan::{Plan, Topology, TopologyKind};
use crate::refusal::Refusal;
use crate::run::environment::process;
use crate::run::nodes::cluster_of;
use crate::run::sentinels::Surroundings;
use crate::serve::desk;
use crate::serve::desk::Desk;

/// The host that stands for all clients from outside.
pub const CLIENTS: &str = "clients";
/// The host that takes orders.
const DESK: &str = "admin";
/// The name that a failover moves to another node.
const MASTER: &str = "master";

/// The setup of a service.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How the nodes are connected, and what they keep on disk.
    pub topology: Topology,
    /// The clock settings of the nodes, by name.
    pub clocks: BTreeMap<String, ClockSetting>,
    /// The faults that strike by themselves.
    pub faults: Vec<Fault>,
    /// The parts of a scenario that are left out, and why.
    pub left_out: Vec<String>,
    /// The seed of all draws.
    pub seed: u64,
}

/// The addresses on which the hosts listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The nodes, `n1` first.
    pub nodes: Vec<SocketAddrV4>,
    /// The Sentinels, `s1` first.
    pub sentinels: Vec<SocketAddrV4>,
    /// The address that takes orders.
    pub desk: SocketAddrV4,
}

impl Setup {
    /// Nodes without a scenario.
    pub fn plain(topology: Topology) -> Setup {
        Setup {
            topology,
            clocks: BTreeMap::new(),
            faults: Vec::new(),
            left_out: Vec::new(),
            seed: 1,
        }
    }

    /// The nodes and Sentinels of a plan, with those of its faults that can be applied to them.
    pub fn of_plan(plan: &Plan) -> Setup {
        let mut setup = Setup::plain(plan.topology.clone());
        let hosts = setup.hosts();
        let own = plan.clocks.iter().filter(|(host, _)| hosts.contains(host));
        setup.clocks = own.map(|(host, clock)| (host.clone(), *clock)).collect();
        setup.seed = plan.seed;
        for fault in &plan.faults {
            match fitted(fault, plan) {
                Ok(fault) => setup.faults.push(fault),
                Err(why) => setup.left_out.push(format!(
                    "fault {} of the scenario, {} {}, is left out: {why}",
                    fault.id,
                    fault.verb.word(),
                    fault.target
                )),
            }
        }
        drop_orphans(&mut setup);
        if !plan.links.named.is_empty() || plan.links.loss_per_million > 0 {
            setup.left_out.push(
                "the links of the scenario are left out: here they are those of this machine; \
                 LINK DELAY and LINK LOSS add to them"
                    .to_owned(),
            );
        }
        setup
    }

    /// The names of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        self.topology.node_names()
    }

    /// The names of the Sentinels.
    pub fn sentinels(&self) -> Vec<String> {
        self.topology.sentinel_names()
    }

    /// The names of all hosts that a fault can strike.
    pub fn hosts(&self) -> Vec<String> {
        [self.nodes(), self.sentinels()].concat()
    }

    /// How many nodes must agree.
    pub fn quorum(&self) -> usize {
        match self.topology.kind {
            TopologyKind::Independent => self.topology.masters() as usize / 2 + 1,
            TopologyKind::Single
            | TopologyKind::Replicated
            | TopologyKind::Sentinel
            | TopologyKind::Cluster => 1,
        }
    }

    /// The role of a node when it starts.
    pub fn role(&self, node: usize) -> &'static str {
        if self.master_of(node).is_some() { "replica" } else { "master" }
    }

    /// The node that a node follows when it starts; both are indices.
    fn master_of(&self, node: usize) -> Option<usize> {
        let nth = u32::try_from(node + 1).ok()?;
        self.topology.master_of(nth).map(|master| master as usize - 1)
    }

    /// The world of these nodes, without the faults.
    pub fn world(&self, addresses: &Addresses, desk: &Desk) -> WorldSpec {
        let nodes = (0..addresses.nodes.len()).map(|node| self.node(addresses, node));
        let mut hosts: Vec<HostSpec> = nodes.collect();
        hosts.extend(self.sentinel_hosts(addresses));
        let outside = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        hosts.push(HostSpec::new(
            CLIENTS,
            outside,
            Part::Late,
            process(|_| std::future::pending()),
        ));
        let desk = desk.clone();
        let port = addresses.desk.port();
        let run = process(move |host| desk::attend(host, port, desk.clone()));
        hosts.push(HostSpec::new(DESK, addresses.desk, Part::Other, run));
        WorldSpec {
            names: [(MASTER.to_owned(), addresses.nodes[0])].into(),
            operator: Some(operator()),
            ..WorldSpec::new(EngineKind::Live, self.seed, hosts)
        }
    }

    fn node(&self, addresses: &Addresses, node: usize) -> HostSpec {
        let name = format!("n{}", node + 1);
        let address = addresses.nodes[node];
        let cluster = self.topology.shards.map(|s| cluster_of(&s, &addresses.nodes));
        // The nodes of a cluster read their masters from its configuration.
        let master = self.master_of(node).filter(|_| cluster.is_none());
        let config = NodeConfig {
            port: address.port(),
            replica_of: master.map(|master| addresses.nodes[master]),
            cluster,
            ..self.topology.node(u32::try_from(node + 1).unwrap_or(1))
        };
        let clocks = self.clocks.get(&name).copied().unwrap_or_default();
        let run = process(move |host| process::serve(host, config.clone()));
        HostSpec { clocks, ..HostSpec::new(name, address, Part::Node, run) }
    }

    fn sentinel_hosts(&self, addresses: &Addresses) -> Vec<HostSpec> {
        let Some(terms) = self.topology.sentinels else { return Vec::new() };
        let chance = Chance::new(self.seed, BTreeMap::new());
        let Addresses { nodes, sentinels, .. } = addresses;
        let around = Surroundings { nodes, sentinels, chance: &chance };
        let sentinel = |(n, (name, address)): (u32, (String, &SocketAddrV4))| {
            let config = around.config(&terms, n);
            let run = process(move |host| process::sentinel::serve(host, config.clone()));
            let clocks = self.clocks.get(&name).copied().unwrap_or_default();
            HostSpec { clocks, ..HostSpec::new(name, *address, Part::Sentinel, run) }
        };
        (1..).zip(self.sentinels().into_iter().zip(sentinels)).map(sentinel).collect()
    }
}

/// A scenario's fault as it can be applied here, where the scenario's clients do not exist.
fn fitted(fault: &Fault, plan: &Plan) -> Result<Fault, String> {
    let target = match &fault.target {
        Target::Host(host) if is_served(plan, host) => fault.target.clone(),
        Target::Host(host) => return Err(format!("'{host}' is not of this world")),
        Target::Links { from, to, both } => {
            let (from, to) = (side(from, plan)?, side(to, plan)?);
            Target::Links { from, to, both: *both }
        }
    };
    match &fault.anchor {
        Anchor::At(_)
        | Anchor::After { event: Pattern::Fault { .. } | Pattern::Node { .. }, .. } => {}
        Anchor::After { .. } => return Err("it waits for what a client does".to_owned()),
    }
    Ok(Fault { target, ..fault.clone() })
}

fn is_served(plan: &Plan, host: &String) -> bool {
    plan.nodes().contains(host) || plan.sentinels().contains(host)
}

/// One side of links: all clients of a scenario together become [`CLIENTS`].
fn side(hosts: &[String], plan: &Plan) -> Result<Vec<String>, String> {
    let (served, others): (Vec<&String>, Vec<&String>) =
        hosts.iter().partition(|host| is_served(plan, host));
    let mut side: Vec<String> = served.into_iter().cloned().collect();
    if others.is_empty() {
        return Ok(side);
    }
    let clients = plan.clients();
    if others.iter().any(|host| !clients.contains(host)) {
        return Err("the resource is not of this world".to_owned());
    }
    if others.len() < clients.len() {
        return Err("one client cannot be distinguished from another".to_owned());
    }
    side.push(CLIENTS.to_owned());
    Ok(side)
}

/// Leaves out the faults that are anchored to a fault that is left out, until no such fault
/// remains.
fn drop_orphans(setup: &mut Setup) {
    loop {
        let known: Vec<u32> = setup.faults.iter().map(|fault| fault.id).collect();
        let orphan = setup
            .faults
            .iter()
            .position(|fault| fault.anchor.other_fault().is_some_and(|id| !known.contains(&id)));
        let Some(orphan) = orphan else { return };
        let fault = setup.faults.remove(orphan);
        let what = format!("fault {} of the scenario, {}", fault.id, fault.verb.word());
        setup.left_out.push(format!("{what}, is left out: it waits for one that is left out"));
    }
}

/// Refuses a verb that needs more than the topology offers.
pub fn suits(topology: &Topology, verb: &Verb) -> Result<(), Refusal> {
    let Some(lack) = lack(topology, verb.row()) else { return Ok(()) };
    Err(Refusal::new(lack.refusal(verb.word()), format!("start with {}", lack.option())))
}
