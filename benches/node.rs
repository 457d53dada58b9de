//! What one request costs a node: sent over the simulated wire, parsed, executed and replied to.
//!
//! `direct` is the node alone, bytes in and bytes out; `wire` is the same in a world, with one
//! client that waits for each reply, or sends sixteen requests at a time. Ends with one plain line
//! per figure; a word after `--` measures that request alone.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::SECOND;
use lockstorm_redis::frame::decode::decode_reply;
use lockstorm_redis::frame::encode_request;
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::node::{Node, NodeConfig};
use lockstorm_redis::process::serve;
use lockstorm_redis::requests;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ROUNDS: usize = 5;
const REQUESTS: u32 = 200_000;
const WORLDS: u32 = 200;
const UNLOCK: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

const CASES: [(&str, &[&str]); 5] = [
    ("get", &["GET", "lock:1"]),
    ("set", &["SET", "lock:1", "6f1c2a9b03d7e845"]),
    ("set_px", &["SET", "lock:1", "6f1c2a9b03d7e845", "PX", "30000"]),
    ("set_nx", &["SET", "lock:1", "6f1c2a9b03d7e845", "NX", "PX", "30000"]),
    ("unlock", &["EVAL", UNLOCK, "1", "lock:1", "another"]),
];

fn main() {
    println!("median of {ROUNDS} rounds of {REQUESTS} requests, nanoseconds a request");
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    for (name, words) in CASES.into_iter().filter(|(name, _)| is_wanted(name)) {
        let mut request = BytesMut::new();
        encode_request(&mut request, words);
        let alone = median(|| direct(&request));
        let one = median(|| wire(&request, 1));
        let sixteen = median(|| wire(&request, 16));
        println!("node {name} direct_ns={alone:.0} wire_ns={one:.0} pipelined_ns={sixteen:.0}");
    }
    println!("node five_nodes_us={:.1}", median(five_nodes));
}

fn median(round: impl Fn() -> f64) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Bytes into a node and bytes out of it.
fn direct(request: &[u8]) -> f64 {
    let mut node = Node::new(NodeConfig::default(), 1_000_000, [1, 2, 3]);
    let nowhere = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
    let id = node.connect([nowhere; 2]);
    let mut reader = RequestReader::default();
    let mut input = BytesMut::new();
    let start = Instant::now();
    for _ in 0..REQUESTS {
        input.extend_from_slice(request);
        let args = reader.next(&mut input).expect("well formed").expect("whole");
        requests::request(&mut node, id, &args);
        node.effects.changes.clear();
        let session = node.clients.get_mut(id).expect("it is connected");
        assert!(session.replies.buffer.len() > 3);
        session.replies.buffer.clear();
    }
    nanos(start) / f64::from(REQUESTS)
}

/// The same in a world, with `at_a_time` requests at a time.
fn wire(request: &BytesMut, at_a_time: u32) -> f64 {
    let answered = Rc::new(Cell::new(0));
    let batch = request.repeat(at_a_time as usize);
    let client: Process = {
        let answered = Rc::clone(&answered);
        Rc::new(move |host| {
            Box::pin(send_requests(host, batch.clone(), at_a_time, Rc::clone(&answered)))
        })
    };
    let hosts = vec![node(1), host("c1", Ipv4Addr::new(10, 0, 1, 1), client)];
    let start = Instant::now();
    let mut world = world(hosts);
    world.run_until(3_600 * SECOND);
    drop(world);
    assert!(answered.get() >= REQUESTS);
    nanos(start) / f64::from(answered.get())
}

async fn send_requests(host: Host, batch: Vec<u8>, at_a_time: u32, answered: Rc<Cell<u32>>) {
    let node = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 6379);
    let mut stream = host.connect(node).await.expect("the node listens");
    let mut input = BytesMut::new();
    while answered.get() < REQUESTS {
        stream.write_all(&batch).await.expect("the node reads");
        let mut missing = at_a_time;
        while missing > 0 {
            match decode_reply(&mut input).expect("a reply") {
                Some(_) => missing -= 1,
                None => drop(stream.read_buf(&mut input).await.expect("the node answers")),
            }
        }
        answered.set(answered.get() + at_a_time);
    }
}

/// Builds, starts and drops a world of five nodes; microseconds each.
fn five_nodes() -> f64 {
    let start = Instant::now();
    for _ in 0..WORLDS {
        let mut world = world((1..=5).map(node).collect());
        world.run_until(SECOND);
    }
    nanos(start) / f64::from(WORLDS) / 1_000.0
}

fn nanos(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64
}

fn node(nth: u8) -> HostSpec {
    let process: Process = Rc::new(|host| Box::pin(serve(host, NodeConfig::default())));
    let mut spec = host(&format!("n{nth}"), Ipv4Addr::new(10, 0, 0, nth), process);
    spec.part = Part::Node;
    spec
}

fn host(name: &str, ip: Ipv4Addr, process: Process) -> HostSpec {
    HostSpec::new(name, SocketAddrV4::new(ip, 6379), Part::Other, process)
}

fn world(hosts: Vec<HostSpec>) -> World {
    World::new(WorldSpec {
        latency: Latency::Constant(50_000),
        ..WorldSpec::new(EngineKind::Event, 1, hosts)
    })
}
