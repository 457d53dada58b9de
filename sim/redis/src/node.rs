//! The state of one node, and the effects of commands on it.
//!
//! A value without a machine: it receives the time from outside, and gathers what must happen
//! outside (trace, disk, replicas) as effects that the server carries out.
//!
//! - `keys`: which keys are live, and the changes of a key
//! - `connections`, `client`: new connections, and their lines in CLIENT LIST
//! - `replication`: its master and its replicas
//! - `saving`: when its keys must be saved
//! - `cluster`, `sentinel`: the additional parts of a cluster node or a Sentinel

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod connections;
pub(crate) mod keys;
pub(crate) mod replication;
pub(crate) mod saving;
pub(crate) mod sentinel;

use std::net::SocketAddrV4;

use bytes::Bytes;
use lockstorm_platform::time::Nanos;

use crate::chance::{Dice, ScriptDice};
use crate::clients::{Clients, Pause};
use crate::clock::NodeClock;
use crate::cluster::{Cluster, ClusterConfig};
use crate::compat::{Compat, Difference};
use crate::effects::{Effects, Propagation};
use crate::figures::Figures;
use crate::history::History;
use crate::keyspace::Keyspace;
use crate::keyspace::limits::Limits;
use crate::memory::MemoryUse;
use crate::peers::Peers;
use crate::saving::{Saving, Startup};
use crate::script_state::ScriptState;
use crate::sentinel::Sentinel;
use crate::session::Session;
use crate::settings::{self, Settings};
use crate::specification::{Command, all, all_of_sentinel, look_up_in};
use crate::users::Users;

/// The append-only file that a node keeps on its disk; SAVE and BGSAVE write a file of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Append {
    /// None: `appendonly no`.
    #[default]
    None,
    /// An append-only file, synced when the kernel chooses.
    No,
    /// An append-only file, synced once a second.
    Everysec,
    /// An append-only file, synced before each reply.
    Always,
}

/// The configuration of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// The port that it listens on.
    pub port: u16,
    /// What it keeps on disk.
    pub append: Append,
    /// Whether the torn tail of an append-only file is truncated: `aof-load-truncated`.
    pub truncates_torn_file: bool,
    /// When all keys are saved, in pairs of seconds and changes: `save`.
    pub save: String,
    /// How long a background save takes, ns.
    pub save_time: Nanos,
    /// How long it takes to read a file at the start, ns.
    pub load_time: Nanos,
    /// The master that it follows from the start.
    pub replica_of: Option<SocketAddrV4>,
    /// Writes are refused with fewer good replicas; 0 means no minimum.
    pub min_replicas_to_write: u32,
    /// Maximum age of a good replica's last acknowledgement, in whole seconds.
    pub min_replicas_max_lag: u64,
    /// The preference with which a Sentinel promotes it: the smallest first, 0 never.
    pub replica_priority: u32,
    /// The size of the backlog: `repl-backlog-size`.
    pub backlog_bytes: usize,
    /// The default user's password; empty means none.
    pub password: Bytes,
    /// Classes of keyspace notifications: `notify-keyspace-events`.
    pub notify: String,
    /// Maximum bytes of memory for keys; 0 means no limit.
    pub max_memory: u64,
    /// After how many milliseconds of a script others get BUSY: `busy-reply-threshold`.
    pub busy_after_ms: u64,
    /// The server that it emulates.
    pub compat: Compat,
    /// Its cluster: `cluster-enabled yes`.
    pub cluster: Option<ClusterConfig>,
    /// Whether it records the members of collections that change, for evidence.
    pub reports_members: bool,
    /// Whether it records a digest of each other value that changes, for evidence.
    pub reports_contents: bool,
    /// Whether it records each request with its reply, for who reads what a lock sends.
    pub reports_exchanges: bool,
}

impl Default for NodeConfig {
    fn default() -> NodeConfig {
        NodeConfig {
            port: 6379,
            append: Append::None,
            truncates_torn_file: true,
            save: String::new(),
            save_time: 0,
            load_time: 0,
            replica_of: None,
            min_replicas_to_write: 0,
            min_replicas_max_lag: 10,
            replica_priority: 100,
            backlog_bytes: 1 << 20,
            password: Bytes::new(),
            notify: String::new(),
            max_memory: 0,
            busy_after_ms: 5_000,
            compat: Compat::default(),
            cluster: None,
            reports_members: false,
            reports_contents: false,
            reports_exchanges: false,
        }
    }
}

/// The state of a node. Its largest parts are boxed, because each script moves the node into the
/// machine and back.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its current configuration.
    pub(crate) config: Box<NodeConfig>,
    /// The parameters of CONFIG SET that have no field of their own.
    pub(crate) settings: Settings,
    /// Maximum sizes of small encodings, according to those settings.
    pub limits: Limits,
    /// Its keys.
    pub keyspace: Keyspace,
    /// Its time.
    pub clock: NodeClock,
    /// The effects since the server last collected them.
    pub effects: Effects,
    /// Which of its commands are propagated, and in which units.
    pub propagation: Propagation,
    /// Its start, while it reads its files.
    pub startup: Startup,
    /// The id of its process: 40 hexadecimal digits, new at each start.
    pub(crate) run_id: String,
    /// The replication history of its data.
    pub history: History,
    /// Its master and its replicas.
    pub peers: Box<Peers>,
    /// Its scripts.
    pub scripts: Box<ScriptState>,
    /// Its connected clients.
    pub clients: Box<Clients>,
    /// Its ACL users.
    pub users: Users,
    /// When all keys are saved, and the outcome.
    pub(crate) saving: Box<Saving>,
    /// What INFO counts.
    pub(crate) figures: Figures,
    /// The memory that its keys take.
    pub(crate) usage: MemoryUse,
    /// Whether DEBUG SET-ACTIVE-EXPIRE has disabled the active expire cycle.
    pub(crate) active_expire_disabled: bool,
    /// The generator behind random picks.
    pub(crate) dice: Dice,
    /// Its Sentinel state, if it is one: then it keeps no keys.
    pub sentinel: Option<Box<Sentinel>>,
    /// Its cluster state, if it is in one.
    pub(crate) cluster: Option<Box<Cluster>>,
}

/// The parameters that a configuration sets differently from Redis's defaults.
fn settings_of(config: &NodeConfig) -> Settings {
    let mut settings = Settings::default();
    if config.compat.has(Difference::ExpiryIsUnlink) {
        settings.free_lazily();
    }
    let keeps_torn = if config.truncates_torn_file { "yes" } else { "no" };
    let priority = config.replica_priority.to_string();
    for (name, value) in [
        ("save", &config.save[..]),
        ("aof-load-truncated", keeps_torn),
        ("replica-priority", &priority),
    ] {
        if let Some(parameter) = settings::find(name.as_bytes()) {
            settings.set(parameter, value.to_owned());
        }
    }
    settings
}

impl Node {
    /// An empty node that has just started. The ids are made from draws.
    pub fn new(config: NodeConfig, now_ms: u64, id: [u64; 3]) -> Node {
        let [first, second, third] = id;
        let mut history_id = format!("{first:016x}{second:016x}{third:016x}");
        history_id.truncate(40);
        let mut run_id = format!("{third:016x}{first:016x}{second:016x}");
        run_id.truncate(40);
        let mut users = Users::default();
        users.require(&config.password);
        let settings = settings_of(&config);
        let clients = Clients::new(config.compat.has(Difference::PushesStandBehind));
        Node {
            peers: Box::new(Peers { master: config.replica_of, ..Peers::default() }),
            config: Box::new(config),
            clock: NodeClock::starting_at(now_ms),
            run_id,
            saving: Box::new(Saving { saved_s: now_ms / 1_000, ..Saving::default() }),
            history: History::new(history_id),
            users,
            settings,
            clients: Box::new(clients),
            dice: Dice::new(id),
            scripts: Box::new(ScriptState {
                dice: ScriptDice::of_process(),
                ..ScriptState::default()
            }),
            ..Node::default()
        }
    }

    /// Its mode, as INFO and HELLO report it.
    pub(crate) fn mode(&self) -> &'static str {
        match (&self.sentinel, &self.cluster) {
            (Some(_), _) => "sentinel",
            (_, Some(_)) => "cluster",
            _ => "standalone",
        }
    }

    /// The commands that it has.
    pub(crate) fn commands(&self) -> &'static [Command] {
        if self.sentinel.is_some() { all_of_sentinel() } else { all() }
    }

    /// Sets the time of what is executed next, from the wall clock in nanoseconds.
    pub fn set_time(&mut self, wall_ns: u64) {
        self.clock.set(wall_ns);
    }

    /// Whether the server that it emulates differs from Redis 7.0.15 in this point.
    pub(crate) fn differs(&self, difference: Difference) -> bool {
        self.config.compat.has(difference)
    }

    /// Whether the server that it emulates has a command.
    pub(crate) fn has(&self, command: &Command) -> bool {
        command.since.is_none_or(|difference| self.differs(difference))
    }

    /// Finds the command of a request, as [`look_up_in`] does, if the node has it.
    pub(crate) fn command_of(&self, args: &[Bytes]) -> Option<&'static Command> {
        look_up_in(self.commands(), args).filter(|command| self.has(command))
    }

    /// The time at which a command of this session runs, in Unix microseconds. Within a script it
    /// advances before Redis 7.2; whether a key has expired never depends on that.
    pub(crate) fn time_us(&self, session: &Session) -> u64 {
        let moves = session.script.is_some() && !self.differs(Difference::TimeStandsStillInScripts);
        if moves { self.clock.running_us } else { self.clock.now_us }
    }

    /// What delays requests at present: CLIENT PAUSE, a failover, or both.
    pub(crate) fn pause(&self) -> Option<Pause> {
        // A failover that is under way pauses writes until it ends, however long that takes.
        let failover = self.peers.failover.map(|_| Pause { until_ms: u64::MAX, all: false });
        let client = self.clients.pause().filter(|pause| pause.until_ms > self.clock.now_ms);
        match (client, failover) {
            (Some(client), Some(failover)) => Some(Pause { all: client.all, ..failover }),
            (client, failover) => client.or(failover),
        }
    }

    /// Whether requests are paused: nothing expires then, and nothing is evicted.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause().is_some()
    }
}
