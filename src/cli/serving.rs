//! `serve`: nodes on real ports, until they are stopped.

use std::fs::File;
use std::io::{BufRead, ErrorKind, Write};
use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use lockstorm_redis::cluster::BUS;
use lockstorm_redis::compat::Compat;
use lockstorm_world::engine::live::ports::Ports;

use crate::cli::args::ServeArguments;
use crate::custody::finding::CustodyVerdict;
use crate::custody::text;
use crate::edge::ending::Exit;
use crate::edge::input;
use crate::edge::terminal::say;
use crate::plan::shards::Shards;
use crate::plan::{Sentinels, Topology, TopologyKind};
use crate::refusal::Refusal;
use crate::run::contacts::WATCHED;
use crate::scenario::tables::{PERSISTENCES, TOPOLOGIES};
use crate::serve::service::Service;
use crate::serve::setup::{Addresses, Setup};

/// The default number of Sentinels that watch a master.
const SENTINELS: u32 = 3;

/// Serves the requested nodes.
pub fn serve(arguments: &ServeArguments) -> Result<Exit, Refusal> {
    let setup = setup(arguments)?;
    let mut history = arguments.history.as_deref().map(ServedHistory::create).transpose()?;
    let mut ports = Ports::default();
    let addresses = bind(arguments, &setup, &mut ports)?;
    greet(&setup, &addresses);
    let typed = keyboard();
    let mut service = Service::start(setup, addresses, ports);
    while service.beat() {
        for line in typed.try_iter() {
            service.typed(&line).iter().for_each(|line| say(line));
        }
        let lines = service.take_lines();
        if let Some(history) = &mut history {
            history.write(&lines)?;
        }
        if arguments.length.is_some_and(|length| service.now() >= length) {
            break;
        }
    }
    let (judgement, lines) = service.conclude();
    if let Some(history) = &mut history {
        history.write(&lines)?;
    }
    text::judgement(&judgement).iter().for_each(|line| say(line));
    Ok(match judgement.verdict {
        CustodyVerdict::Holds => Exit::Held,
        CustodyVerdict::Violated => Exit::Violated,
        CustodyVerdict::Unknown(_) => Exit::Unknown,
    })
}

/// The file that the history is written to as it grows.
struct ServedHistory<'a> {
    path: &'a Path,
    file: File,
}

impl ServedHistory<'_> {
    fn create(path: &Path) -> Result<ServedHistory<'_>, Refusal> {
        // An empty file may be replaced: nothing is lost.
        if path.metadata().is_ok_and(|there| there.len() > 0) {
            let what = format!("{} is there already, and would be replaced", path.display());
            let instead = "name another file with --history, or move it away";
            return Err(Refusal::new(what, instead));
        }
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(ServedHistory { path, file })
    }

    fn write(&mut self, lines: &[String]) -> Result<(), Refusal> {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        self.file.write_all(text.as_bytes()).map_err(|error| unwritable(self.path, &error))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Refusal {
    let what = format!("{} cannot be written: {error}", path.display());
    Refusal::new(what, "name another file with --history")
}

fn setup(arguments: &ServeArguments) -> Result<Setup, Refusal> {
    if let Some(path) = &arguments.scenario {
        let scenarios = input::scenarios(std::slice::from_ref(path))?;
        let [scenario] = &scenarios[..] else {
            let what = format!("{} holds more than one scenario", path.display());
            return Err(Refusal::new(what, "name one file"));
        };
        let seed = scenario.seeds().first().copied().unwrap_or(1);
        return Ok(Setup::of_plan(&scenario.plan(seed)));
    }
    let word = arguments.topology.as_deref().unwrap_or("single");
    let kind = TOPOLOGIES.iter().find(|(known, _)| *known == word);
    let kind = kind.expect("the parser knows the words").1;
    let persistence = arguments.persistence.as_deref().unwrap_or(PERSISTENCES[0].0);
    let persistence = PERSISTENCES.iter().find(|(known, _)| *known == persistence);
    let persistence = persistence.expect("the parser knows the words").1;
    let default = match kind {
        TopologyKind::Single => 1,
        TopologyKind::Replicated | TopologyKind::Sentinel => 2,
        TopologyKind::Cluster => 6,
        TopologyKind::Independent => 3,
    };
    let nodes = arguments.nodes.map_or(default, u32::from);
    match (kind, nodes) {
        (TopologyKind::Single, 2..) => {
            let what = format!("a single topology has one node, and {nodes} are requested");
            let help = "add --topology independent or --topology replicated";
            return Err(Refusal::new(what, help));
        }
        (TopologyKind::Replicated | TopologyKind::Sentinel, ..=1) => {
            let what = format!("a {word} topology has a master and replicas");
            return Err(Refusal::new(what, "--nodes 2 or more"));
        }
        (TopologyKind::Cluster, nodes) if nodes < 6 || nodes % 2 == 1 => {
            let what = "a cluster has three masters or more, and as many replicas";
            let help = "--nodes 6, 8 or more; a scenario's file may have other clusters";
            return Err(Refusal::new(what, help));
        }
        _ => {}
    }
    let compat = Compat::WORDS.iter().find(|(known, _)| *known == arguments.compat);
    let compat = compat.expect("the parser knows the words").1;
    let is = |wanted| kind == wanted;
    Ok(Setup::plain(Topology {
        persistence,
        compat,
        sentinels: is(TopologyKind::Sentinel).then(|| Sentinels::by_default(SENTINELS)),
        shards: is(TopologyKind::Cluster)
            .then_some(Shards { masters: nodes / 2, node_timeout: Shards::NODE_TIMEOUT }),
        ..Topology::plain(kind, nodes)
    }))
}

/// Binds every port before anything starts: an occupied port is refused.
fn bind(
    arguments: &ServeArguments,
    setup: &Setup,
    ports: &mut Ports,
) -> Result<Addresses, Refusal> {
    let first = arguments.port;
    let desk = arguments.admin_port.unwrap_or(first.saturating_sub(1));
    let bus = setup.topology.shards.map(|_| BUS);
    let mut places = Vec::new();
    for (nth, host) in (0..).zip(setup.hosts()) {
        let port = if first == 0 { Some(0) } else { first.checked_add(nth) };
        let Some(port) = port.filter(|port| port.checked_add(bus.unwrap_or(0)).is_some()) else {
            let what = format!("there is no port for {host}");
            return Err(Refusal::new(what, "a smaller --port"));
        };
        places.push(bind_one(SocketAddrV4::new(arguments.bind, port), bus, "--port", ports)?);
    }
    let desk = SocketAddrV4::new(arguments.bind, desk);
    let desk = bind_one(desk, None, "--admin-port", ports)?;
    let sentinels = places.split_off(setup.topology.nodes as usize);
    Ok(Addresses { nodes: places, sentinels, desk })
}

/// Binds a port, and the port of the cluster bus at this distance above it, if there is one.
fn bind_one(
    at: SocketAddrV4,
    bus: Option<u16>,
    option: &str,
    ports: &mut Ports,
) -> Result<SocketAddrV4, Refusal> {
    let bound = match bus {
        Some(bus) => ports.bind_pair(at, bus),
        None => ports.bind(at),
    };
    bound.map_err(|error| {
        let (ip, above) = (at.ip(), bus.map(|bus| format!(", or {bus} above it,")));
        let port = format!("{}{}", at.port(), above.unwrap_or_default());
        let other = format!("another {option}, or 0: the system chooses a free one");
        match error.kind() {
            ErrorKind::AddrNotAvailable => Refusal::new(
                format!("{ip} is not an address of this computer"),
                "write --bind 127.0.0.1",
            ),
            ErrorKind::AddrInUse => Refusal::new(format!("port {port} of {ip} is taken"), other),
            _ => Refusal::new(format!("port {port} of {ip} cannot be listened on: {error}"), other),
        }
    })
}

fn greet(setup: &Setup, addresses: &Addresses) {
    say(&format!("lockstorm {}: serving", env!("CARGO_PKG_VERSION")));
    for (node, address) in addresses.nodes.iter().enumerate() {
        say(&format!("n{}  {address}  {}", node + 1, setup.role(node)));
    }
    for (name, address) in setup.sentinels().iter().zip(&addresses.sentinels) {
        say(&format!("{name}  {address}  sentinel of {WATCHED}"));
    }
    let (ip, port) = (addresses.desk.ip(), addresses.desk.port());
    say(&format!("admin  {}  redis-cli -h {ip} -p {port} STATUS", addresses.desk));
    say("type here what the admin port takes too: HELP, STATUS, FAULT PAUSE n1 15s, SHUTDOWN");
    setup.left_out.iter().for_each(|line| say(line));
}

/// The typed lines, as they arrive. The end of input stops nothing.
#[expect(clippy::disallowed_methods, reason = "reading a terminal blocks: it has its own thread")]
fn keyboard() -> Receiver<String> {
    let (send, typed) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    typed
}
