//! What is deployed: a lock with its options, and the addresses of its nodes.
//!
//! It is a plan without faults. So what a scenario refuses is refused here, in the same words, and
//! the assumptions are those that a report lists.

use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::time::Duration;

use lockstorm_platform::time::{Clock, Nanos};

use crate::explain::assumption;
use crate::length;
use crate::lock::algorithm::{Algorithm, latch};
use crate::lock::catalogue::Locks;
use crate::lock::client::route::Route;
use crate::lock::client::slot_map::SlotMap;
use crate::lock::config::LockConfig;
use crate::lock::library::{self, LIBRARIES};
use crate::lock::options;
use crate::plan::base_plan::base_plan_of;
use crate::plan::{Plan, Topology, TopologyKind};
use crate::production::redis_lock::RedisLock;
use crate::production::system_clock;
use crate::production::system_host::{Login, SystemHost};
use crate::promise::Assumption;
use crate::refusal::{Place, Refusal};
use crate::scenario::Scenario;
use crate::workload::work;

/// See the module documentation. Whatever is wrong is refused when the lock is opened.
#[derive(Clone)]
pub struct LockBuilder {
    from: Source,
    locks: Locks,
    options: Vec<(String, String)>,
    hold: Option<Nanos>,
    replicas: u32,
    kind: Option<TopologyKind>,
    addresses: Vec<String>,
    /// The name of the master that Sentinels watch.
    master: String,
    login: Option<Login>,
}

/// Where the lock and its options come from.
#[derive(Clone)]
enum Source {
    /// A lock of the catalogue, a client library, or a lock of one's own.
    Name(String),
    /// The text of a scenario.
    Scenario(String),
}

impl LockBuilder {
    /// A lock of the catalogue (`redlock`), or a client library (`redis-py 8.1.0`). A lock of one's
    /// own is added with [`LockBuilder::lock`].
    pub fn of(name: &str) -> LockBuilder {
        LockBuilder::from(Source::Name(name.to_owned()))
    }

    /// The lock of a scenario, with its options, its nodes and its work: what was verified is what
    /// is deployed. `text` is that of the file, as `include_str!` gives it.
    pub fn of_scenario(text: &str) -> LockBuilder {
        LockBuilder::from(Source::Scenario(text.to_owned()))
    }

    fn from(from: Source) -> LockBuilder {
        LockBuilder {
            from,
            locks: Locks::default(),
            options: Vec::new(),
            hold: None,
            replicas: 0,
            kind: None,
            addresses: Vec::new(),
            master: String::new(),
            login: None,
        }
    }

    /// Adds a lock of one's own, which the name or the scenario means.
    ///
    /// # Panics
    /// If there is a lock of this name.
    #[must_use]
    #[track_caller]
    pub fn lock(self, own: Algorithm) -> LockBuilder {
        LockBuilder { locks: self.locks.with(own), ..self }
    }

    /// The key in Redis.
    #[must_use]
    pub fn key(self, key: &str) -> LockBuilder {
        self.option("key", key)
    }

    /// The time to live of the key.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> LockBuilder {
        self.option("ttl", &length::write(nanos(ttl)))
    }

    /// Any option of the lock, as in `[lock]` of a scenario: `option("renew_every", "2s")`.
    #[must_use]
    pub fn option(mut self, key: &str, value: &str) -> LockBuilder {
        self.options.push((key.to_owned(), value.to_owned()));
        self
    }

    /// How long callers work under the lock at most: some assumptions depend on it.
    #[must_use]
    pub fn hold(self, hold: Duration) -> LockBuilder {
        LockBuilder { hold: Some(nanos(hold)), ..self }
    }

    /// Adds a node, as `127.0.0.1:6379` or `redis-1:6379`. Several nodes are independent of each
    /// other: a grant needs a quorum of them. A name is looked up once, when the lock is opened.
    #[must_use]
    pub fn node(mut self, address: &str) -> LockBuilder {
        self.addresses.push(address.to_owned());
        self
    }

    /// How many replicas the node has, for a lock that waits for them.
    #[must_use]
    pub fn replicas(self, replicas: u32) -> LockBuilder {
        LockBuilder { replicas, ..self }
    }

    /// The Sentinels that know the address of the master of this name.
    #[must_use]
    pub fn sentinels<'a>(
        self,
        addresses: impl IntoIterator<Item = &'a str>,
        master: &str,
    ) -> LockBuilder {
        let builder = LockBuilder { master: master.to_owned(), ..self };
        builder.found_by(TopologyKind::Sentinel, addresses)
    }

    /// Nodes of a cluster that know the others.
    #[must_use]
    pub fn cluster<'a>(self, addresses: impl IntoIterator<Item = &'a str>) -> LockBuilder {
        self.found_by(TopologyKind::Cluster, addresses)
    }

    fn found_by<'a>(
        self,
        kind: TopologyKind,
        addresses: impl IntoIterator<Item = &'a str>,
    ) -> LockBuilder {
        let addresses = addresses.into_iter().map(str::to_owned).collect();
        LockBuilder { kind: Some(kind), addresses, ..self }
    }

    /// The password of the nodes; Sentinels do not receive it.
    #[must_use]
    pub fn password(self, password: &str) -> LockBuilder {
        let login = Login { user: None, password: password.to_owned(), except: Vec::new() };
        LockBuilder { login: Some(login), ..self }
    }

    /// A user of the nodes, and its password.
    #[must_use]
    pub fn user(self, user: &str, password: &str) -> LockBuilder {
        let mut builder = self.password(password);
        builder.login = builder.login.map(|login| Login { user: Some(user.to_owned()), ..login });
        builder
    }

    /// What must be true of the deployment for the lock to keep its promise, a sentence each: what
    /// a report lists as the lock's assumptions, for the same work.
    ///
    /// # Errors
    /// As [`LockBuilder::open`].
    pub fn assumptions(&self) -> Result<Vec<String>, Refusal> {
        let (algorithm, plan) = self.settled()?;
        let assumes = algorithm.promises(&plan.lock, work(&plan)).assumes;
        let words = |assumed: &Assumption| assumption::bound(assumed.what, assumed.bound);
        Ok(assumes.iter().map(words).collect())
    }

    /// Opens the lock for one caller. It connects with its first request.
    ///
    /// # Errors
    /// If the options or the nodes make no sense, an address is not found, or two independent nodes
    /// have the same.
    ///
    /// # Panics
    /// Outside of a `LocalSet` of tokio: a lock that renews could not start its task.
    pub fn open(&self) -> Result<RedisLock, Refusal> {
        let (algorithm, plan) = self.settled()?;
        let addresses = self.resolved()?;
        let login = self.login.clone().map(|login| match self.kind {
            Some(TopologyKind::Sentinel) => {
                Login { except: addresses.values().copied().collect(), ..login }
            }
            _ => login,
        });
        // Fails here, and not when the first grant has to be renewed.
        drop(tokio::task::spawn_local(async {}));
        let host = SystemHost::new(addresses, login);
        Ok(RedisLock::new(algorithm, plan.lock, self.names(), host))
    }

    /// The lock and its plan.
    fn settled(&self) -> Result<(Algorithm, Plan), Refusal> {
        let mut plan = match &self.from {
            Source::Name(name) => self.plan_of(name)?,
            Source::Scenario(text) => {
                Scenario::parse_with(&self.locks, "the scenario", text)?.plan(1)
            }
        };
        for (key, value) in &self.options {
            plan.lock = options::set(&plan.lock, key, value)?;
        }
        if let Some(hold) = self.hold {
            plan.workload.hold = hold;
        }
        if plan.lock.algorithm == latch::NAME {
            // As many processes as it needs will use it.
            plan.workload.clients = plan.workload.clients.max(latch::parties(&plan.lock));
        }
        let algorithm = *plan.validate_lock(&self.locks)?;
        self.fits(&plan)?;
        Ok((algorithm, plan))
    }

    fn plan_of(&self, name: &str) -> Result<Plan, Refusal> {
        let own = self.locks.find(name).map(|lock| (lock, None));
        let preset = || library::find(name).map(|l| (self.locks.find(l.lock), Some(l)));
        let preset = || preset().and_then(|(lock, library)| Some((lock?, library)));
        let (lock, library) = own.or_else(preset).ok_or_else(|| self.no_lock(name))?;
        let config = LockConfig { algorithm: lock.name.to_owned(), ..LockConfig::default() };
        let topology = self.topology(lock);
        let plan = Plan { topology, ..base_plan_of(lock, self.kind()) };
        let config = library.map_or(config.clone(), |library| library.of(config));
        Ok(Plan { lock: config, ..plan })
    }

    fn no_lock(&self, name: &str) -> Refusal {
        let libraries = library::names(name);
        // Of a library that is known, the versions are meant.
        let is_library = LIBRARIES.iter().any(|library| libraries.contains(&library.title()));
        let locks = self.locks.names().into_iter().filter(|_| !is_library);
        let known: Vec<&str> = locks.chain(libraries.iter().map(String::as_str)).collect();
        Refusal::choice(name, if is_library { "library" } else { "lock" }, &known)
    }

    fn kind(&self) -> TopologyKind {
        match self.kind {
            Some(kind) => kind,
            None if self.addresses.len() > 1 => TopologyKind::Independent,
            None if self.replicas > 0 => TopologyKind::Replicated,
            None => TopologyKind::Single,
        }
    }

    /// The topology that the addresses stand for.
    fn topology(&self, lock: &Algorithm) -> Topology {
        let mut topology = base_plan_of(lock, self.kind()).topology;
        match self.kind() {
            TopologyKind::Independent => {
                let each = self.replicas.saturating_add(1);
                let masters = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
                topology.nodes = masters.saturating_mul(each);
                topology.replicas_each = self.replicas;
            }
            TopologyKind::Replicated => topology.nodes = self.replicas.saturating_add(1),
            TopologyKind::Sentinel if self.replicas > 0 => {
                topology.nodes = self.replicas.saturating_add(1);
            }
            _ => {}
        }
        topology
    }

    /// Refuses addresses that are not those of the plan's nodes, and a clock that is missing here.
    fn fits(&self, plan: &Plan) -> Result<(), Refusal> {
        let (kind, given) = (plan.topology.kind, self.addresses.len());
        let (asks, what) = match kind {
            TopologyKind::Sentinel => (Some(kind), "the addresses of its Sentinels"),
            TopologyKind::Cluster => (Some(kind), "the addresses of nodes of its cluster"),
            TopologyKind::Independent => (None, "the address of each node"),
            TopologyKind::Single | TopologyKind::Replicated => (None, "the address of its node"),
        };
        let is_enough = match kind {
            TopologyKind::Single | TopologyKind::Replicated => given == 1,
            TopologyKind::Independent => given as u64 == u64::from(plan.topology.masters()),
            TopologyKind::Sentinel | TopologyKind::Cluster => given > 0,
        };
        if !is_enough || self.kind != asks {
            let instead = match (kind, plan.topology.masters()) {
                (TopologyKind::Sentinel, _) => "sentinels([..], \"mymaster\")".to_owned(),
                (TopologyKind::Cluster, _) => "cluster([..])".to_owned(),
                (_, 1) => "node(\"127.0.0.1:6379\"), once".to_owned(),
                (_, count) => format!("node(\"127.0.0.1:6379\"), {count} times"),
            };
            return Err(Refusal::new(format!("{} needs {what}", plan.lock.algorithm), instead));
        }
        let is_missing = plan.lock.clock == Some(Clock::Boot) && !system_clock::HAS_BOOT;
        let what = "this system has no clock that counts suspended time";
        let refusal = Refusal::new(what, "clock = \"monotonic\"");
        if is_missing { Err(refusal.on(Place::Field("lock.clock".to_owned()))) } else { Ok(()) }
    }

    /// The names that the lock's clients find.
    fn names(&self) -> Vec<String> {
        match self.kind {
            Some(TopologyKind::Sentinel) => vec![Route::name_of(&self.addresses, &self.master)],
            Some(_) => vec![SlotMap::name_of(&self.addresses)],
            None => self.addresses.clone(),
        }
    }

    /// The address of each name.
    ///
    /// # Errors
    /// If one has none, or if two independent nodes are the same: that one would grant twice.
    fn resolved(&self) -> Result<BTreeMap<String, SocketAddrV4>, Refusal> {
        let (mut all, mut seen) = (BTreeMap::new(), BTreeMap::new());
        for name in &self.addresses {
            let address = resolve(name)?;
            let other = seen.insert(address, name);
            if let Some(other) = other.filter(|_| self.kind.is_none()) {
                let what = format!("the nodes '{other}' and '{name}' are the same, {address}");
                return Err(Refusal::new(what, "independent nodes, each once"));
            }
            all.insert(name.clone(), address);
        }
        Ok(all)
    }
}

/// The IPv4 address of `host:port`.
fn resolve(name: &str) -> Result<SocketAddrV4, Refusal> {
    let found = name.to_socket_addrs().map(|all| {
        let v4 = |address| match address {
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        };
        all.into_iter().find_map(v4)
    });
    let no = |why: String| Refusal::new(format!("'{name}' is no address: {why}"), "127.0.0.1:6379");
    let found = found.map_err(|why| no(why.to_string()))?;
    found.ok_or_else(|| no("it has none of IPv4".to_owned()))
}

fn nanos(length: Duration) -> Nanos {
    Nanos::try_from(length.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::LockBuilder;
    use crate::lock::algorithm::Algorithm;
    use crate::lock::algorithm::none::NoLock;
    use crate::run::Lab;
    use crate::scenario::Scenario;

    const NODE: &str = "127.0.0.1:6379";
    const SCENARIO: &str = include_str!("../../scenarios/gc-pause-outlives-lease.toml");

    fn plain(name: &str) -> LockBuilder {
        LockBuilder::of(name).key("orders").ttl(Duration::from_secs(10)).node(NODE)
    }

    fn refused(builder: &LockBuilder, text: &str) {
        let refusal = builder.settled().map(drop).and_then(|()| builder.resolved().map(drop));
        let said = refusal.expect_err(text).to_string();
        assert!(said.contains(text), "'{said}' lacks '{text}'");
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_the_words_of_a_scenario() {
        refused(&plain("redlok"), "there is no lock 'redlok' (did you mean 'redlock'?)");
        refused(&plain("redis-py 1.0"), "there is no library 'redis-py 1.0'");
        let bare = LockBuilder::of("token-lua").node(NODE);
        refused(&bare, "lock.key: a lock needs a key");
        refused(&bare.key("k"), "lock.algorithm: token-lua needs a ttl");
        refused(&plain("token-lua").option("quorum", "2"), "lock.quorum: token-lua has no quorum");
        refused(&plain("token-lua").option("tll", "2s"), "there is no option 'tll'");
        refused(&plain("token-lua").node("127.0.0.1:6380"), "2 independent nodes are configured");
        refused(&plain("redlock").option("quorum", "2"), "a quorum of 2 of 1 nodes");
        refused(&plain("wait-replicas"), "wait-replicas needs replicas");
        let late = plain("token-lua-renewed").option("renew_every", "10s");
        refused(&late, "lock.renew_every: the lease would end before it is renewed");
        let deaf = plain("token-lua").option("discovery", "switch-master");
        refused(&deaf, "there is no Sentinel");
        refused(&plain("token-lua").ttl(Duration::MAX), "too long");
    }

    #[test]
    fn addresses_are_those_of_the_nodes() {
        let lock = LockBuilder::of("token-lua").key("k").ttl(Duration::from_secs(1));
        refused(&lock, "token-lua needs the address of its node");
        refused(&lock.clone().node("6379"), "'6379' is no address");
        refused(&lock.clone().node("[::1]:6379"), "it has none of IPv4");
        refused(&lock.clone().sentinels([], "m"), "needs the addresses of its Sentinels");
        let (sentinels, cluster) = (lock.clone().sentinels([NODE], "m"), lock.cluster([NODE]));
        assert_eq!(sentinels.names(), [format!("redis+sentinel://{NODE}/m")]);
        assert_eq!(cluster.names(), [format!("redis+cluster://{NODE}")]);
        for builder in [sentinels, cluster] {
            assert!(builder.settled().is_ok());
            assert_eq!(builder.resolved().unwrap()[NODE], NODE.parse().unwrap());
        }
        let thrice = plain("redlock").node("127.0.0.1:6380").node("localhost:6379");
        refused(&thrice, "the nodes '127.0.0.1:6379' and 'localhost:6379' are the same");
        let two = LockBuilder::of_scenario(SCENARIO).node(NODE).node("127.0.0.1:6380");
        refused(&two, "token-lua needs the address of its node");
    }

    #[test]
    fn a_library_is_its_lock_with_its_options() {
        let (algorithm, plan) = plain("redis-py").settled().unwrap();
        assert_eq!((algorithm.name, plan.lock.tries), ("token-lua", Some(10)));
        assert_eq!(plan.lock.key, "orders");
    }

    #[test]
    fn a_lock_of_ones_own_is_named_as_in_a_test() {
        const MINE: Algorithm = Algorithm::lease("mine", |setting| Box::new(NoLock::new(setting)));
        assert_eq!(plain("mine").lock(MINE).settled().unwrap().0.name, "mine");
        let text = SCENARIO.replace("token-lua", "mine");
        let builder = LockBuilder::of_scenario(&text).lock(MINE).node(NODE);
        assert_eq!(builder.settled().unwrap().0.name, "mine");
    }

    #[test]
    fn the_lock_of_a_scenario_is_deployed_as_it_was_verified() {
        let builder = LockBuilder::of_scenario(SCENARIO).node(NODE);
        let verified = Scenario::parse("a scenario", SCENARIO).unwrap().plan(1);
        assert_eq!(builder.settled().unwrap().1, verified);
        let assumes = Lab::default().promise(&verified).assumes;
        let assumptions = builder.assumptions().unwrap();
        assert_eq!(assumptions.len(), assumes.len());
        let pause = "no client pauses for longer than 6.97 s while it acquires or holds the lock";
        assert!(assumptions.iter().any(|said| said == pause), "{assumptions:#?}");
    }

    #[test]
    fn longer_work_leaves_less_for_pauses() {
        let told = |seconds| {
            let builder = plain("token-lua").hold(Duration::from_secs(seconds));
            builder.assumptions().unwrap()[1].clone()
        };
        assert!(told(1).starts_with("no client pauses for longer than 7."), "{}", told(1));
        assert!(told(4).starts_with("no client pauses for longer than 4."), "{}", told(4));
    }
}
