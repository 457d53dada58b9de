//! A world of nodes and of clients that follow scripts, for the tests in this folder.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::node::{Append, NodeConfig};
use lockstorm_redis::operator::operator;
use lockstorm_redis::process::serve;
use lockstorm_redis::resp_client::RespClient;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::World;
use lockstorm_world::world::remains::Remains;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};

pub const MS: Nanos = MILLISECOND;

type Log = Rc<RefCell<String>>;

pub fn address(host: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 6379)
}

/// Connects to the node with this number.
async fn connect(host: &Host, node: u8) -> Option<RespClient> {
    Some(RespClient::new(host.timeout(SECOND, host.connect(address(node))).await?.ok()?))
}

fn show(reply: Option<Reply>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match reply {
        None => "(end)".to_owned(),
        Some(Reply::Simple(s)) => text(&s),
        Some(Reply::Error(s)) => text(&s),
        Some(Reply::Integer(n)) => n.to_string(),
        Some(Reply::Bulk(s)) => text(&s),
        Some(Reply::Nil | Reply::NilArray) => "nil".to_owned(),
        Some(Reply::Array(items)) => {
            let items: Vec<String> = items.into_iter().map(|item| show(Some(item))).collect();
            format!("[{}]", items.join(" "))
        }
        Some(other) => unreachable!("RESP2 has no {other:?}"),
    }
}

/// Follows a script: `@ms` waits until that time, `n request` sends to node n on one connection and
/// logs the reply with its time.
async fn follow(host: Host, script: &'static str, log: Log) {
    let mut clients: BTreeMap<u8, RespClient> = BTreeMap::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(at) = line.strip_prefix('@') {
            let at: u64 = at.parse().expect("a time");
            host.sleep_until(Clock::Boot, at * MS).await;
            continue;
        }
        let (node, request) = line.split_once(' ').expect("a node and a request");
        let node: u8 = node.parse().expect("a node");
        if let std::collections::btree_map::Entry::Vacant(entry) = clients.entry(node) {
            match connect(&host, node).await {
                Some(client) => drop(entry.insert(client)),
                None => {
                    log.borrow_mut().push_str(&format!("{line}: no connection\n"));
                    continue;
                }
            }
        }
        let client = clients.get_mut(&node).expect("it is connected");
        let words: Vec<&str> = request.split(' ').map(|word| word.trim_matches('"')).collect();
        let answer = show(client.request(&words).await.ok());
        if answer == "(end)" {
            clients.remove(&node);
        }
        let at = host.now(Clock::Boot) / MS;
        log.borrow_mut().push_str(&format!("{at} {line}: {answer}\n"));
    }
}

fn machine(name: &str, last: u8, part: Part, process: Process) -> HostSpec {
    HostSpec::new(name, address(last), part, process)
}

/// A world of nodes 1, 2, ... and one client per script, on links of one millisecond.
pub fn run(
    nodes: &[NodeConfig],
    scripts: &[&'static str],
    faults: Vec<Fault>,
) -> (String, Remains) {
    let log = Log::default();
    let node = |(index, config): (usize, &NodeConfig)| {
        let number = u8::try_from(index + 1).unwrap();
        let config = config.clone();
        let process: Process = Rc::new(move |host| Box::pin(serve(host, config.clone())));
        machine(&format!("n{number}"), number, Part::Node, process)
    };
    let client = |(index, script): (usize, &&'static str)| {
        let (number, script, log) = (u8::try_from(index).unwrap(), *script, Rc::clone(&log));
        let process: Process = Rc::new(move |host| Box::pin(follow(host, script, Rc::clone(&log))));
        machine(&format!("c{number}"), 100 + number, Part::Other, process)
    };
    let hosts = nodes.iter().enumerate().map(node);
    let mut world = World::new(WorldSpec {
        latency: Latency::Constant(MS),
        faults,
        operator: Some(operator()),
        ..WorldSpec::new(
            EngineKind::Event,
            1,
            hosts.chain(scripts.iter().enumerate().map(client)).collect(),
        )
    });
    world.run_until(60 * SECOND);
    let remains = world.finish();
    (log.take(), remains)
}

#[track_caller]
pub fn check(nodes: &[NodeConfig], scripts: &[&'static str], faults: Vec<Fault>, expected: &str) {
    let (log, _) = run(nodes, scripts, faults);
    let expected: String = expected.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert_eq!(log, expected);
}

pub fn fault(verb: Verb, target: &str, at: Nanos, length: Option<Nanos>) -> Fault {
    let target = Target::try_from(target.to_owned()).expect("a target");
    Fault { id: 1, verb, target, anchor: Anchor::At(at), length }
}

pub fn append(append: Append) -> NodeConfig {
    NodeConfig { append, ..NodeConfig::default() }
}

pub fn replica() -> NodeConfig {
    NodeConfig { replica_of: Some(address(1)), ..NodeConfig::default() }
}
