//! The machines of a run, and what runs on them: nodes, Sentinels, clients, the guarded resource
//! and the probe. An [`Environment`] has either simulated nodes in a simulated world, or real
//! servers.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::sync::Arc;

use lockstorm_platform::host::{Host, HostMutex};
use lockstorm_platform::rng::Chance;
use lockstorm_platform::time::Nanos;
use lockstorm_redis::node::NodeConfig;
use lockstorm_redis::operator::operator;
use lockstorm_redis::process::{sentinel, serve};
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};

use crate::history::{PROBE, RESOURCE};
use crate::plan::Plan;
use crate::run::address::{
    client_address, node_address, probe_address, resource_address, sentinel_address,
};
use crate::run::contacts::{MASTER, masters};
use crate::run::nodes::node_config;
use crate::run::sentinels::Surroundings;
use crate::workload::critical_section::CriticalSection;
use crate::workload::resource::Resource;
use crate::workload::{Job, client, probe};

/// The environment of a run: addresses of machines, processes of nodes, passage of time.
pub trait Environment {
    /// The address of the machine that has address `simulated` in a simulated world.
    fn place(&self, simulated: SocketAddrV4) -> SocketAddrV4;
    /// The process of the `n`th node, counted from 1.
    fn node(&self, plan: &Plan, n: u32) -> Process;
    /// The process of the `n`th Sentinel, counted from 1.
    fn sentinel(&self, plan: &Plan, n: u32) -> Process;
    /// The world of these machines.
    fn world(&mut self, spec: WorldSpec) -> World;
    /// Runs the world until true time `limit`.
    fn pass(&mut self, world: &mut World, limit: Nanos);
}

/// Fake nodes in a simulated world.
pub struct Simulated {
    /// Whether nodes record the members of collections: each holder of a semaphore may have one,
    /// and each waiter in a queue.
    pub reports_members: bool,
    /// Whether nodes record each request with its reply.
    pub reports_exchanges: bool,
}

impl Environment for Simulated {
    fn place(&self, simulated: SocketAddrV4) -> SocketAddrV4 {
        simulated
    }

    fn node(&self, plan: &Plan, n: u32) -> Process {
        let Simulated { reports_members, reports_exchanges } = *self;
        let reports_contents = true;
        let config = NodeConfig {
            reports_members,
            reports_contents,
            reports_exchanges,
            ..node_config(plan, n)
        };
        process(move |host| serve(host, config.clone()))
    }

    fn sentinel(&self, plan: &Plan, n: u32) -> Process {
        let terms = plan.topology.sentinels.expect("a topology with Sentinels has their settings");
        let nodes: Vec<SocketAddrV4> = (1..=plan.topology.nodes).map(node_address).collect();
        let sentinels: Vec<SocketAddrV4> = (1..=terms.count).map(sentinel_address).collect();
        let chance = Chance::new(plan.seed, plan.draws.clone());
        let around = Surroundings { nodes: &nodes, sentinels: &sentinels, chance: &chance };
        let config = around.config(&terms, n);
        process(move |host| sentinel::serve(host, config.clone()))
    }

    fn world(&mut self, spec: WorldSpec) -> World {
        World::new(spec)
    }

    fn pass(&mut self, world: &mut World, limit: Nanos) {
        world.run_until(limit);
    }
}

/// The names that failovers redirect, with their initial nodes.
fn moving_names(plan: &Plan) -> BTreeMap<String, SocketAddrV4> {
    if plan.topology.replicas_each == 0 {
        return [(MASTER.to_owned(), node_address(1))].into();
    }
    masters(plan).into_iter().zip((1..).map(node_address)).collect()
}

/// The world of a plan in an environment, on the event engine with whole nanoseconds and without a
/// whole trace.
pub fn spec(
    environment: &dyn Environment,
    plan: &Plan,
    job: &Job,
    section: &Arc<dyn CriticalSection>,
) -> WorldSpec {
    let nodes = (1..=plan.topology.nodes).map(|n| {
        let name = format!("n{n}");
        host(plan, name, node_address(n), Part::Node, environment.node(plan, n))
    });
    let mut hosts: Vec<HostSpec> = nodes.collect();
    let sentinels = (1..=plan.topology.sentinels.map_or(0, |sentinels| sentinels.count)).map(|n| {
        let name = format!("s{n}");
        host(plan, name, sentinel_address(n), Part::Sentinel, environment.sentinel(plan, n))
    });
    hosts.extend(sentinels);
    hosts.push(resource_host(plan, job, section.initial(&plan.workload)));
    hosts.extend((1..=plan.workload.clients).map(|n| client_host(plan, job, section, n)));
    hosts.push(probe_host(plan, job));
    for host in &mut hosts {
        host.address = environment.place(host.address);
    }
    let links = plan.links.named.iter().filter_map(|(link, latency)| {
        let (from, to) = link.split_once("->")?;
        Some((from.trim().to_owned(), to.trim().to_owned(), *latency))
    });
    WorldSpec {
        engine: EngineKind::Event,
        whole_ms: false,
        seed: plan.seed,
        draws: plan.draws.clone(),
        latency: plan.links.latency,
        named_links: links.collect(),
        loss_per_million: plan.links.loss_per_million,
        hosts,
        names: moving_names(plan)
            .into_iter()
            .map(|(name, address)| (name, environment.place(address)))
            .collect(),
        faults: plan.faults.clone(),
        heal_at: Some(plan.heal_at),
        operator: Some(operator()),
        whole_trace: false,
    }
}

fn host(plan: &Plan, name: String, address: SocketAddrV4, part: Part, run: Process) -> HostSpec {
    let clocks = plan.clocks.get(&name).copied().unwrap_or_default();
    HostSpec { name, address, clocks, part, process: run }
}

/// A process from the function that it runs on its host.
pub fn process<F, R>(run: F) -> Process
where
    F: Fn(Host) -> R + 'static,
    R: Future<Output = ()> + 'static,
{
    Rc::new(move |host| Box::pin(run(host)))
}

fn resource_host(plan: &Plan, job: &Job, value: i64) -> HostSpec {
    // The resource's data outlives its process, as a database's does.
    let resource = Resource::new(&plan.workload, value, job.recorder.clone());
    let run = process(move |host| resource.clone().run(host));
    host(plan, RESOURCE.to_owned(), resource_address(), Part::Other, run)
}

/// The job on the host of the client that is number `n`, counted from 1: each host has a mutex, and
/// the probe has that of the first one, so that it is no other host.
fn on_host(job: &Job, n: u32) -> Job {
    let mutex = if n == 1 { job.mutex.clone() } else { HostMutex::default() };
    Job { mutex, ..job.clone() }
}

fn client_host(plan: &Plan, job: &Job, section: &Arc<dyn CriticalSection>, n: u32) -> HostSpec {
    let (job, section) = (on_host(job, n), Arc::clone(section));
    let run = process(move |host| client::run(host, job.clone(), Arc::clone(&section), n - 1));
    host(plan, format!("c{n}"), client_address(n), Part::Other, run)
}

fn probe_host(plan: &Plan, job: &Job) -> HostSpec {
    let job = job.clone();
    let run = process(move |host| probe::run(host, job.clone()));
    host(plan, PROBE.to_owned(), probe_address(), Part::Late, run)
}
