//! A server with its replicas on real sockets: a live world, controlled by verbs of the fault
//! table.
//!
//! Faults strike the current master; a clock change applies to all servers. All functions run
//! between two steps of the world, on the thread that drives it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::host::Host;
use lockstorm_platform::order::{Operator, Order};
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::Leg;
use lockstorm_redis::node::NodeConfig;
use lockstorm_redis::resp_client::RespClient;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::engine::live::{self, LiveEngine, ports::Ports};
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};
use tokio::sync::Notify;

use crate::builder::Builder;
use crate::look::{Look, Requests};

/// The host that represents all outside clients.
const CLIENTS: &str = "clients";
/// Timeout of a reply, and the pause between two attempts.
const PATIENCE: Nanos = SECOND;
const PAUSE: Nanos = 20 * MILLISECOND;

/// What other threads share with the servers.
#[derive(Clone)]
pub struct Access {
    /// The addresses of the servers.
    pub addresses: Vec<SocketAddrV4>,
    /// The index of the master.
    pub master: Arc<AtomicUsize>,
    /// Makes the world return early.
    pub bell: Arc<Notify>,
}

impl Access {
    /// The index of the master.
    pub fn master(&self) -> usize {
        let master = self.master.load(Ordering::SeqCst);
        debug_assert!(master < self.addresses.len(), "the master is one of the servers");
        master
    }
}

/// The running servers.
pub struct Live {
    world: World,
    looks: Vec<Look>,
    /// The requests that the servers executed.
    pub requests: Requests,
    /// What other threads share.
    pub access: Access,
    next_fault: u32,
}

impl Live {
    /// Starts the servers on free ports of the loopback.
    ///
    /// # Errors
    /// If the system gives no port.
    pub fn start(builder: &Builder) -> io::Result<Live> {
        let mut ports = Ports::default();
        let free = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        // Bound first, because each server's configuration names the ports of the others.
        let addresses = (0..=builder.replicas).map(|_| ports.bind(free));
        let addresses: Vec<SocketAddrV4> = addresses.collect::<io::Result<_>>()?;
        let engine = LiveEngine::new(live::state(builder.seed), ports);
        let access = Access { addresses, master: Arc::default(), bell: engine.bell() };
        let requests = Requests::default();
        let looks: Vec<Look> = access.addresses.iter().map(|_| Look::default()).collect();
        let hosts = looks.iter().enumerate().map(|(place, look)| {
            let config = config(builder, &access, place);
            let process = look.process(builder, &requests, config);
            HostSpec::new(name(place), access.addresses[place], Part::Node, process)
        });
        let mut hosts: Vec<HostSpec> = hosts.collect();
        let outside = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let nothing = Rc::new(|_| Box::pin(std::future::pending()) as _);
        hosts.push(HostSpec::new(CLIENTS, outside, Part::Late, nothing));
        let spec = WorldSpec {
            operator: Some(operator(builder)),
            ..WorldSpec::new(EngineKind::Live, builder.seed, hosts)
        };
        let world = World::on(Box::new(engine), spec);
        Ok(Live { world, looks, requests, access, next_fault: 1 })
    }

    /// Runs the world for this long, or until its bell rings.
    pub fn run(&mut self, length: Nanos) {
        self.world.run_until(self.world.now().saturating_add(length));
        // `requests` keeps what tests query; without a drain the trace would grow.
        self.world.drain(&mut Vec::new());
    }

    /// Whether every replica follows the master and has all its keys.
    pub fn is_settled(&self) -> bool {
        let master = &self.looks[self.access.master()];
        master.is_up() && master.replicas() + 1 == self.looks.len()
    }

    fn strike(&mut self, verb: Verb, target: Target, anchor: Anchor) {
        let id = self.next_fault;
        self.next_fault += 1;
        self.world.inject(Fault { id, verb, target, anchor, length: None });
    }

    /// Makes a fault strike a server; it lasts until `relieve` ends it.
    fn strike_host(&mut self, verb: Verb, place: usize) {
        self.strike(verb, Target::Host(name(place)), Anchor::At(0));
    }

    fn strike_links(&mut self, verb: Verb, from: Vec<String>, to: Vec<String>, both: bool) {
        self.strike(verb, Target::Links { from, to, both }, Anchor::At(0));
    }

    /// Makes a fault strike the master.
    pub fn strike_master(&mut self, verb: Verb) {
        self.strike_host(verb, self.access.master());
    }

    /// Makes a fault strike the link from the master to the clients, or both directions of it.
    pub fn strike_clients(&mut self, verb: Verb, both: bool) {
        let master = vec![name(self.access.master())];
        self.strike_links(verb, master, vec![CLIENTS.to_owned()], both);
    }

    /// Makes a fault strike all servers.
    pub fn strike_all(&mut self, verb: &Verb) {
        (0..self.looks.len()).for_each(|place| self.strike_host(verb.clone(), place));
    }

    /// Makes a fault strike the links between the master and its replicas.
    pub fn strike_replication(&mut self, verb: Verb) {
        let master = self.access.master();
        let others = (0..self.looks.len()).filter(|place| *place != master).map(name).collect();
        self.strike_links(verb, vec![name(master)], others, true);
    }

    /// Makes a fault strike each replica.
    pub fn strike_replicas(&mut self, verb: &Verb) {
        let master = self.access.master();
        let others = (0..self.looks.len()).filter(|place| *place != master);
        others.for_each(|place| self.strike_host(verb.clone(), place));
    }

    /// Lets the master execute the next request of this command without a reply.
    pub fn cut_next_reply(&mut self, command: String) {
        let (from, to) = (CLIENTS.to_owned(), name(self.access.master()));
        let target = Target::Links { from: vec![from.clone()], to: vec![to.clone()], both: false };
        let event = Pattern::Message { from, to, command: Some(command), leg: Leg::Applied };
        self.strike(Verb::CutReply, target, Anchor::After { event, nth: 1, plus: 0 });
    }

    /// Ends the faults that `which` selects.
    pub fn relieve(&mut self, which: impl Fn(&Verb) -> bool) {
        self.world.end_faults(|fault| which(&fault.verb));
    }

    /// Whether the master runs no process.
    pub fn is_down(&self) -> bool {
        !self.looks[self.access.master()].is_up()
    }

    /// Starts the servers that are down; if none is, kills and starts the master. Returns the
    /// expected number of starts of each affected server.
    pub fn restart(&mut self) -> Vec<(usize, u32)> {
        let mut places: Vec<usize> =
            (0..self.looks.len()).filter(|place| !self.looks[*place].is_up()).collect();
        if places.is_empty() {
            places.push(self.access.master());
        }
        // Read before any server starts: a start that is already counted would be expected twice.
        let begun = |live: &Live, place: usize| (place, live.looks[place].starts() + 1);
        let started = places.iter().map(|place| begun(self, *place)).collect();
        for place in places {
            let target = Target::Host(name(place));
            let ended = self.world.end_faults(|fault| fault.verb.kills() && fault.target == target);
            if ended == 0 {
                self.strike_host(Verb::Restart, place);
            }
        }
        started
    }

    /// Whether each of these servers has reached this number of starts.
    pub fn have_started(&self, started: &[(usize, u32)]) -> bool {
        started.iter().all(|(place, starts)| self.looks[*place].starts() >= *starts)
    }

    /// Ends every fault and starts the servers that are down. Returns the expected starts as
    /// `restart` does.
    pub fn heal(&mut self) -> Vec<(usize, u32)> {
        // A reply cut that still waits for its request must not strike after the heal.
        self.world.disarm();
        let all_up = self.looks.iter().all(Look::is_up);
        // Before the other faults end: `restart` must still see which servers are down.
        let started = if all_up { Vec::new() } else { self.restart() };
        self.relieve(|_| true);
        started
    }

    /// Makes the operator promote the first replica that is up and not paused; returns its index.
    pub fn promote(&mut self) -> Option<usize> {
        let (master, count) = (self.access.master(), self.looks.len());
        let others = (1..count).map(|step| (master + step) % count);
        let new = others.into_iter().find(|place| {
            self.looks[*place].is_up() && !self.world.status(&name(*place)).is_halted
        })?;
        debug_assert_ne!(new, master, "the promoted server is a replica");
        // Stored first: a server that starts from now on reads this index and follows the new
        // master.
        self.access.master.store(new, Ordering::SeqCst);
        self.strike_host(Verb::Failover, new);
        Some(new)
    }

    /// Whether a server is a master now.
    pub fn is_master(&self, place: usize) -> bool {
        self.looks[place].is_master()
    }

    /// Observes the master.
    pub fn look<T>(&self, look: impl FnOnce(&Look, Nanos) -> T) -> T {
        let master = self.access.master();
        look(&self.looks[master], self.world.status(&name(master)).readings.wall)
    }
}

fn name(place: usize) -> String {
    format!("n{}", place + 1)
}

/// The configuration of a server at each start: every server but the current master follows it.
fn config(builder: &Builder, access: &Access, place: usize) -> impl Fn() -> NodeConfig + use<> {
    let (plain, access) = (builder.config.clone(), access.clone());
    move || {
        let master = access.master();
        NodeConfig {
            port: access.addresses[place].port(),
            replica_of: (master != place).then(|| access.addresses[master]),
            ..plain.clone()
        }
    }
}

/// The operator of a failover: sends REPLICAOF to the new master, then to all others, and retries
/// each until it replies.
fn operator(builder: &Builder) -> Operator {
    let password = String::from_utf8_lossy(&builder.config.password).into_owned();
    Rc::new(move |order| Box::pin(fail_over(order, password.clone())))
}

async fn fail_over(order: Order, password: String) {
    let Order { host, node, others, .. } = order;
    let nobody = ["REPLICAOF", "NO", "ONE"].map(str::to_owned);
    // First, because the others must not follow a server that is still a replica.
    send(&host, node, &password, &nobody).await;
    // One task for each, so that a server that is down does not delay the others.
    for other in others {
        let (operator, password) = (host.clone(), password.clone());
        let words = ["REPLICAOF".to_owned(), node.ip().to_string(), node.port().to_string()];
        host.spawn(async move { send(&operator, other, &password, &words).await });
    }
}

/// Sends a command until it gets a reply.
async fn send(host: &Host, to: SocketAddrV4, password: &str, words: &[String]) {
    let attempt = async || {
        let mut client = RespClient::new(host.connect(to).await?);
        if !password.is_empty() {
            client.request(&["AUTH", password]).await?;
        }
        client.request(words).await
    };
    while !matches!(host.timeout(PATIENCE, attempt()).await, Some(Ok(_))) {
        host.sleep(PAUSE).await;
    }
}
