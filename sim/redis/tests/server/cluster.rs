//! A cluster in whole worlds: which nodes reply, what a failover loses, what a restart keeps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_redis::cluster::slots::SlotSet;
use lockstorm_redis::cluster::{ClusterConfig, Member};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::node::NodeConfig;
use lockstorm_redis::process::serve;
use lockstorm_redis::resp_client::RespClient;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};

const MS: Nanos = MILLISECOND;

type Log = Rc<RefCell<String>>;

fn address(host: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 6379)
}

/// Masters 1, 2, 3 with the replicas 4, 5, 6, and a timeout of two seconds. The key `lock` belongs
/// to a slot of 2.
fn config() -> NodeConfig {
    let ranges = [(0, 5460), (5461, 10921), (10922, 16383)];
    let masters = (1..).zip(ranges).map(|(n, ends)| Member {
        address: address(n),
        master: None,
        slots: SlotSet::range(ends),
    });
    let replicas = (4..=6).map(|n| Member {
        address: address(n),
        master: Some(address(n - 3)),
        slots: SlotSet::default(),
    });
    let members = masters.chain(replicas).collect();
    let cluster = Some(ClusterConfig { members, node_timeout_ms: 2_000 });
    NodeConfig { cluster, ..NodeConfig::default() }
}

/// Sends a request, unless the line is a dot, and receives the next reply.
async fn query(node: &mut RespClient, line: &str) -> Option<Reply> {
    if line == "." {
        return node.reply().await.ok();
    }
    node.request(&line.split(' ').collect::<Vec<_>>()).await.ok()
}

fn show(reply: Option<Reply>) -> String {
    match reply {
        None => "(end)".to_owned(),
        Some(Reply::Simple(s) | Reply::Error(s) | Reply::Bulk(s)) => {
            String::from_utf8_lossy(&s).into_owned()
        }
        Some(Reply::Integer(n)) => n.to_string(),
        Some(Reply::Nil | Reply::NilArray) => "nil".to_owned(),
        Some(Reply::Array(items)) => {
            items.into_iter().map(|item| show(Some(item))).collect::<Vec<_>>().join(" ")
        }
        Some(other) => unreachable!("RESP2 has no {other:?}"),
    }
}

/// Follows a script: `@ms` waits until that time, `n request` sends to node n on one connection.
async fn follow(host: Host, script: &'static str, log: Log) {
    let mut clients: BTreeMap<u8, RespClient> = BTreeMap::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(at) = line.strip_prefix('@') {
            host.sleep_until(Clock::Boot, at.parse::<u64>().expect("a time") * MS).await;
            continue;
        }
        let (node, request) = line.split_once(' ').expect("a node and a request");
        let node: u8 = node.parse().expect("a node");
        let mut client = match clients.remove(&node) {
            Some(client) => client,
            None => RespClient::new(host.connect(address(node)).await.expect("the node is up")),
        };
        let answer = show(query(&mut client, request).await);
        if answer != "(end)" {
            clients.insert(node, client);
        }
        log.borrow_mut().push_str(&format!("{line}: {answer}\n"));
    }
}

#[track_caller]
fn check(script: &'static str, faults: Vec<Fault>, expected: &str) {
    let log = Log::default();
    let node = |n: u8| {
        let process: Process = Rc::new(|host| Box::pin(serve(host, config())));
        HostSpec::new(format!("n{n}"), address(n), Part::Node, process)
    };
    let own = Rc::clone(&log);
    let process: Process = Rc::new(move |host| Box::pin(follow(host, script, Rc::clone(&own))));
    let client = HostSpec::new("c1", address(101), Part::Other, process);
    let mut world = World::new(WorldSpec {
        latency: Latency::Constant(MS),
        faults,
        ..WorldSpec::new(EngineKind::Event, 1, (1..=6).map(node).chain([client]).collect())
    });
    world.run_until(60 * SECOND);
    world.finish();
    let expected: String = expected.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert_eq!(log.take(), expected);
}

fn fault(verb: Verb, target: &str, at: Nanos, length: Nanos) -> Vec<Fault> {
    let target = Target::try_from(target.to_owned()).expect("a target");
    vec![Fault { id: 1, verb, target, anchor: Anchor::At(at), length: Some(length) }]
}

#[test]
fn a_replica_takes_over_what_it_has_and_the_old_master_follows_it() {
    let script = "2 SET lock x\n1 GET lock\n@500\n5 GET lock\n5 READONLY\n5 GET lock\n5 SET lock z\n\
                  @9000\n1 GET lock\n5 GET lock\n5 SET lock y\n5 WAIT 1 100\n\
                  @16000\n2 GET lock\n2 READONLY\n2 GET lock\n5 WAIT 1 500";
    let moved = "MOVED 8718 10.0.0";
    let expected = format!(
        "2 SET lock x: OK\n1 GET lock: {moved}.2:6379\n5 GET lock: {moved}.2:6379\n\
         5 READONLY: OK\n5 GET lock: x\n5 SET lock z: {moved}.2:6379\n\
         1 GET lock: {moved}.5:6379\n5 GET lock: x\n5 SET lock y: OK\n5 WAIT 1 100: 0\n\
         2 GET lock: (end)\n2 READONLY: OK\n2 GET lock: y\n5 WAIT 1 500: 1"
    );
    check(script, fault(Verb::Crash, "n2", 3 * SECOND, 10 * SECOND), &expected);
}

#[test]
fn a_master_that_is_cut_off_answers_for_the_time_out_and_loses_what_it_took() {
    let script = "2 SET lock x\n@3500\n2 SET {lock}b 1\n@6500\n2 SET {lock}b 2\n2 GET {lock}b\n\
                  @12000\n5 GET lock\n5 GET {lock}b\n@26000\n2 GET {lock}b\n5 GET {lock}b\n2 ROLE";
    let down = "CLUSTERDOWN The cluster is down";
    let expected = format!(
        "2 SET lock x: OK\n2 SET {{lock}}b 1: OK\n2 SET {{lock}}b 2: {down}\n2 GET {{lock}}b: {down}\n\
         5 GET lock: x\n5 GET {{lock}}b: nil\n2 GET {{lock}}b: MOVED 8718 10.0.0.5:6379\n\
         5 GET {{lock}}b: nil\n2 ROLE: slave 10.0.0.5 6379 connected 0"
    );
    let cut = fault(Verb::Partition, "n2 <-> n1 n3 n4 n5 n6", 3 * SECOND, 17 * SECOND);
    check(script, cut, &expected);
}

#[test]
fn a_master_that_is_back_before_the_time_out_has_its_slots_and_nothing_in_them() {
    let script = "2 SET lock x\n@4000\n2 GET lock\n2 GET lock\n@6500\n2 GET lock\n\
                  2 CLUSTER COUNTKEYSINSLOT 8718\n5 GET lock";
    let expected = "2 SET lock x: OK\n2 GET lock: (end)\n\
                    2 GET lock: CLUSTERDOWN The cluster is down\n2 GET lock: nil\n\
                    2 CLUSTER COUNTKEYSINSLOT 8718: 0\n5 GET lock: MOVED 8718 10.0.0.2:6379";
    check(script, fault(Verb::Crash, "n2", 3 * SECOND, 500 * MS), expected);
}

/// The link to the master stays open and silent. After ten timeouts and ten seconds the replica's
/// data is too old for it to start an election, and no node serves the slots of its master.
#[test]
fn a_replica_that_hears_nothing_for_long_does_not_stand_though_its_link_is_open() {
    let script = "2 SET lock x\n@58000\n1 GET lock\n5 GET lock";
    let down = "CLUSTERDOWN The cluster is down";
    for (dies_at, asked, got) in [(25, "MOVED 8718 10.0.0.5:6379", "x"), (40, down, down)] {
        let cut = fault(Verb::Partition, "n2 <-> n5", 3 * SECOND, 57 * SECOND);
        let dies = fault(Verb::Crash, "n2", dies_at * SECOND, 30 * SECOND);
        let dies = dies.into_iter().map(|fault| Fault { id: 2, ..fault });
        let expected = format!("2 SET lock x: OK\n1 GET lock: {asked}\n5 GET lock: {got}");
        check(script, cut.into_iter().chain(dies).collect(), &expected);
    }
}

#[test]
fn what_is_published_on_one_node_is_heard_on_another() {
    let script = "1 SUBSCRIBE news\n@500\n6 PUBLISH news hello\n1 .";
    let expected = "1 SUBSCRIBE news: subscribe news 1\n6 PUBLISH news hello: 0\n\
                    1 .: message news hello";
    check(script, Vec::new(), expected);
}
