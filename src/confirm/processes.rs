//! Real redis-servers: setup, start, SIGSTOP and SIGCONT, kill.
//!
//! This is the only place that starts processes and sends signals. A server lives as long as its
//! [`Server`], its files as long as its [`Home`]: both are dropped when a run ends, however it
//! ends. Its clock is the machine's, unless libfaketime is preloaded.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lockstorm_platform::time::MILLISECOND;
use lockstorm_redis::cluster::{self, BUS, ClusterConfig};
use lockstorm_redis::node::{Append, NodeConfig};
use lockstorm_redis::sentinel::known::Known;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::plan::{PRIORITY, Sentinels};
use crate::run::contacts::WATCHED;

/// The program, searched for on the PATH.
const PROGRAM: &str = "redis-server";
/// The file in a home where a Sentinel keeps its state.
const SENTINEL_FILE: &str = "sentinel.conf";
/// `cluster-node-timeout` of a server that starts, ms. Until the world begins, nothing carries the
/// bus between the nodes, and no node may mark another as failed in that time.
const PATIENT_MS: u64 = 60_000;
/// The number of polls of a starting server, and the interval between them.
const LOOKS: u32 = 2_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// Paths where distributions install libfaketime.
const CLOCK_LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
];
/// The file in a home with the offset of the server's clock.
const CLOCK: &str = "clock";

/// The setup of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSetup {
    /// Where it listens. Only the node's relay connects here.
    pub own: SocketAddrV4,
    /// The node's address for others: its relay.
    pub known: SocketAddrV4,
    /// Its persistence, and when it refuses writes.
    pub config: NodeConfig,
    /// The master that it follows.
    pub follows: Option<SocketAddrV4>,
    /// Whether its role can change, because the topology has replicas.
    pub changes_role: bool,
    /// Whether its clock can be set.
    pub has_clock: bool,
    /// What it monitors, if it is a Sentinel.
    pub watch: Option<Watch>,
    /// Its cluster, if any.
    pub cluster: Option<Membership>,
}

/// Membership in a cluster whose nodes know each other from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Where the server listens for the cluster bus. Only the node's relay connects here.
    pub bus: SocketAddrV4,
    /// All members, with their addresses for others.
    pub config: ClusterConfig,
}

/// What a Sentinel monitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The address of the initial master.
    pub master: SocketAddrV4,
    /// When a majority considers the master down, and how the failover proceeds.
    pub terms: Sentinels,
    /// What the Sentinel has learned by the time the run begins.
    pub known: Known,
}

impl ProcessSetup {
    /// The command line of the server. It connects to others from its node's address, so that the
    /// links between nodes are those of the plan.
    pub fn arguments(&self) -> Vec<String> {
        if self.watch.is_some() {
            return [SENTINEL_FILE, "--sentinel"].map(str::to_owned).to_vec();
        }
        let (own, known) = (self.own, self.known);
        let mut lines = vec![
            format!("port {}", own.port()),
            format!("bind {}", own.ip()),
            format!("bind-source-addr {}", own.ip()),
            format!("replica-announce-ip {}", known.ip()),
            format!("replica-announce-port {}", known.port()),
            "protected-mode no".to_owned(),
            format!("save '{}'", self.config.save),
            "notify-keyspace-events EA".to_owned(),
            "repl-diskless-sync-delay 0".to_owned(),
            "logfile log".to_owned(),
        ];
        let fsync = match self.config.append {
            Append::None => None,
            Append::Always => Some("always"),
            Append::Everysec => Some("everysec"),
            Append::No => Some("no"),
        };
        if let Some(fsync) = fsync {
            lines.extend(["appendonly yes".to_owned(), format!("appendfsync {fsync}")]);
        }
        let NodeConfig { min_replicas_to_write, min_replicas_max_lag, .. } = &self.config;
        if *min_replicas_to_write > 0 {
            lines.push(format!("min-replicas-to-write {min_replicas_to_write}"));
            lines.push(format!("min-replicas-max-lag {min_replicas_max_lag}"));
        }
        if self.config.replica_priority != PRIORITY {
            lines.push(format!("replica-priority {}", self.config.replica_priority));
        }
        if let Some(Membership { bus, .. }) = &self.cluster {
            lines.extend([
                "cluster-enabled yes".to_owned(),
                format!("cluster-node-timeout {PATIENT_MS}"),
                format!("cluster-port {}", bus.port()),
                format!("cluster-announce-ip {}", known.ip()),
                format!("cluster-announce-port {}", known.port()),
                format!("cluster-announce-bus-port {}", known.port() + BUS),
            ]);
        }
        if let Some(master) = self.follows {
            lines.push(format!("replicaof {} {}", master.ip(), master.port()));
        }
        let words = |line: String| {
            let (option, value) = line.split_once(' ').expect("every line has an option");
            let mut words = vec![format!("--{option}")];
            words.extend(value.split(' ').map(|word| word.trim_matches('\'').to_owned()));
            words
        };
        lines.into_iter().flat_map(words).collect()
    }

    /// The file where the server keeps its state of other nodes, with its initial content.
    fn file(&self) -> Option<(&'static str, String)> {
        if let Some(watch) = &self.watch {
            return Some((SENTINEL_FILE, self.sentinel_file(watch)));
        }
        let members = &self.cluster.as_ref()?.config.members;
        Some((cluster::file::FILE, cluster::file::first(self.known, members)))
    }

    fn sentinel_file(&self, watch: &Watch) -> String {
        let (own, known, master, terms) = (self.own, self.known, watch.master, watch.terms);
        let mut lines = vec![
            format!("port {}", own.port()),
            format!("bind {}", own.ip()),
            format!("bind-source-addr {}", own.ip()),
            "protected-mode no".to_owned(),
            "logfile log".to_owned(),
            format!("sentinel announce-ip {}", known.ip()),
            format!("sentinel announce-port {}", known.port()),
            format!(
                "sentinel monitor {WATCHED} {} {} {}",
                master.ip(),
                master.port(),
                terms.quorum
            ),
            format!(
                "sentinel down-after-milliseconds {WATCHED} {}",
                terms.down_after / MILLISECOND
            ),
            format!("sentinel failover-timeout {WATCHED} {}", terms.failover_timeout / MILLISECOND),
            format!("sentinel parallel-syncs {WATCHED} {}", terms.parallel_syncs),
        ];
        lines.extend(watch.known.lines(WATCHED));
        lines.join("\n") + "\n"
    }
}

/// A directory for the files of one server; it is deleted when this value is dropped.
pub struct Home(TempDir);

impl Home {
    /// Creates an empty directory.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new() -> io::Result<Home> {
        tempfile::Builder::new().prefix("lockstorm-").tempdir().map(Home)
    }

    /// Sets the clock of the server in this home to `ahead_ms` milliseconds ahead of the machine's.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_clock(&self, ahead_ms: i64) -> io::Result<()> {
        let (sign, ms) = (if ahead_ms < 0 { '-' } else { '+' }, ahead_ms.unsigned_abs());
        // Written to another file and renamed, because the server reads the file whenever it reads
        // the clock.
        let (new, clock) = (self.0.path().join("clock.new"), self.0.path().join(CLOCK));
        fs::write(&new, format!("{sign}{}.{:03}\n", ms / 1_000, ms % 1_000))?;
        fs::rename(new, clock)
    }
}

/// A running server; it is killed when this value is dropped.
pub struct Server(Child);

impl Server {
    /// Starts a server. It may not reply yet.
    ///
    /// # Errors
    /// Those of the system; `NotFound` if there is no redis-server on the PATH.
    pub fn start(setup: &ProcessSetup, home: &Home) -> io::Result<Server> {
        if let Some((name, text)) = setup.file() {
            let file = home.0.path().join(name);
            if !file.exists() {
                fs::write(&file, text)?;
            }
        }
        let mut command = Command::new(PROGRAM);
        command.args(setup.arguments()).current_dir(home.0.path());
        if let (true, Some(library)) = (setup.has_clock, clock_library()) {
            // The C library's allocator must come before jemalloc's, which reads the clock before
            // libfaketime is initialised.
            command.env("LD_PRELOAD", format!("{library} libc.so.6"));
            command.env("FAKETIME_TIMESTAMP_FILE", home.0.path().join(CLOCK));
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Server)
    }

    /// Stops scheduling the process, or resumes it. Has no effect on a server that has exited.
    pub fn halt(&self, halted: bool) {
        let signal = if halted { Signal::STOP } else { Signal::CONT };
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }

    /// Waits until the server replies and, if it is in a cluster, reports the cluster state as ok.
    ///
    /// # Errors
    /// `TimedOut` if it does not, `BrokenPipe` if it has exited.
    #[expect(clippy::disallowed_methods, reason = "no world has begun yet")]
    pub fn wait(&mut self, setup: &ProcessSetup) -> io::Result<()> {
        for _ in 0..LOOKS {
            if is_ready(setup) {
                return Ok(());
            }
            if self.0.try_wait()?.is_some() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_ready(setup: &ProcessSetup) -> bool {
    let (question, wanted) = match setup.cluster {
        None => ("PING\r\n", "+PONG"),
        Some(_) => ("CLUSTER INFO\r\n", "cluster_state:ok"),
    };
    let is_ready = || -> io::Result<bool> {
        let mut stream = TcpStream::connect(SocketAddr::V4(setup.own))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(question.as_bytes())?;
        let mut answer = [0; 64];
        let length = stream.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..length]).contains(wanted))
    };
    is_ready().unwrap_or(false)
}

/// A port that is currently free.
///
/// # Errors
/// Those of the system.
pub fn free_port(at: SocketAddrV4) -> io::Result<SocketAddrV4> {
    let listener = TcpListener::bind(SocketAddrV4::new(*at.ip(), 0))?;
    let port = listener.local_addr()?.port();
    Ok(SocketAddrV4::new(*at.ip(), port))
}

/// The library that gives a process its own clock, if it is installed.
pub fn clock_library() -> Option<&'static str> {
    CLOCK_LIBRARIES.into_iter().find(|path| Path::new(path).exists())
}

/// The version that the installed redis-server reports: `7.0.15`; `None` if there is none.
pub fn version() -> Option<String> {
    let output = Command::new(PROGRAM).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Some(version.unwrap_or("of an unknown version").to_owned())
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::SECOND;

    use super::{Membership, ProcessSetup};
    use crate::plan::shards::Shards;
    use crate::plan::{MinReplicas, Persistence, Topology, TopologyKind};
    use crate::run::nodes::cluster_of;

    fn setup(topology: &Topology) -> ProcessSetup {
        ProcessSetup {
            own: "127.1.0.2:9000".parse().expect("an address"),
            known: "127.1.0.2:7002".parse().expect("an address"),
            config: topology.node(1),
            follows: None,
            changes_role: true,
            has_clock: false,
            watch: None,
            cluster: None,
        }
    }

    #[test]
    fn a_node_of_a_cluster_knows_everybody_from_the_start() {
        let mut setup = setup(&Topology::plain(TopologyKind::Cluster, 2));
        let (one, own) = ("127.1.0.1:7001".parse().expect("an address"), setup.known);
        let shards = Shards { masters: 1, node_timeout: 2 * SECOND };
        let config = cluster_of(&shards, &[one, own]);
        let bus = "127.1.0.2:9001".parse().expect("an address");
        setup.cluster = Some(Membership { bus, config });
        let line = setup.arguments().join(" ");
        let wanted = "--cluster-port 9001 --cluster-announce-ip 127.1.0.2 \
                      --cluster-announce-port 7002 --cluster-announce-bus-port 17002";
        assert!(line.ends_with(wanted), "{line}");
        let (name, text) = setup.file().expect("it has a file");
        assert_eq!(name, "nodes.conf");
        let master = "127.1.0.1:7001@17001 master - 0 0 1 disconnected 0-16383\n";
        assert!(text.contains(master), "{text}");
        assert!(text.contains(" 127.1.0.2:7002@17002 myself,slave "), "{text}");
        assert!(text.ends_with("vars currentEpoch 1 lastVoteEpoch 0\n"), "{text}");
    }

    fn check(persistence: Persistence, follows: bool, wanted: &str) {
        let min_replicas = follows.then_some(MinReplicas { to_write: 1, max_lag: 2 * SECOND });
        let topology = Topology::plain(TopologyKind::Replicated, 2);
        let topology = Topology { persistence, min_replicas, ..topology };
        let master = "127.1.0.1:7001".parse().expect("an address");
        let setup = ProcessSetup { follows: follows.then_some(master), ..setup(&topology) };
        let line = setup.arguments().join(" ");
        let head = "--port 9000 --bind 127.1.0.2 --bind-source-addr 127.1.0.2 \
                      --replica-announce-ip 127.1.0.2 --replica-announce-port 7002 ";
        assert!(line.starts_with(head), "{line}");
        assert!(line.ends_with(wanted), "{line}");
    }

    #[test]
    fn a_plan_becomes_options() {
        check(Persistence::None, false, "--logfile log");
        check(Persistence::AofAlways, false, "--appendonly yes --appendfsync always");
        let follows =
            "--min-replicas-to-write 1 --min-replicas-max-lag 2 --replicaof 127.1.0.1 7001";
        check(Persistence::Rdb, true, follows);
    }
}
