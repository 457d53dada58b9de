//! Simulated nodes and an installed redis-server as each other's replicas, over real sockets.
//! Skipped if redis-server is not installed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use lockstorm_platform::time::MILLISECOND;
use lockstorm_redis::node::NodeConfig;
use lockstorm_redis::process::serve;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::engine::live;
use lockstorm_world::engine::live::LiveEngine;
use lockstorm_world::engine::live::ports::Ports;
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};
use tempfile::TempDir;

/// A running redis-server; it is killed when this value is dropped.
struct Real {
    child: Child,
    port: u16,
    /// The directory of its files.
    _folder: TempDir,
}

impl Real {
    /// Starts one and waits until it listens. Nobody owns a port between the look for a free one
    /// and the start, so a server that ends at once is started again on another.
    fn start() -> Option<Real> {
        for _ in 0..20 {
            let mut real = Real::on_a_free_port()?;
            while matches!(real.child.try_wait(), Ok(None)) {
                if TcpStream::connect((Ipv4Addr::LOCALHOST, real.port)).is_ok() {
                    return Some(real);
                }
                std::thread::yield_now();
            }
        }
        panic!("redis-server is installed and did not start twenty times");
    }

    fn on_a_free_port() -> Option<Real> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let port = free.local_addr().ok()?.port();
        drop(free);
        let number = port.to_string();
        let words = ["--port", &number, "--save", "", "--repl-diskless-sync-delay", "0"];
        let mut command = Command::new("redis-server");
        let folder = TempDir::new().ok()?;
        command.args(words).arg("--dir").arg(folder.path());
        let child = command.stdout(Stdio::null()).spawn().ok()?;
        Some(Real { child, port, _folder: folder })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A world with one node on a real port.
fn world() -> (World, u16) {
    let mut ports = Ports::default();
    let address = ports.bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let config = NodeConfig { port: address.port(), ..NodeConfig::default() };
    let process: Process = Rc::new(move |host| Box::pin(serve(host, config.clone())));
    let spec = WorldSpec::new(
        EngineKind::Live,
        1,
        vec![
            HostSpec::new("n1", address, Part::Node, process),
            HostSpec::new(
                "clients",
                SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
                Part::Late,
                Rc::new(|_| Box::pin(std::future::pending())),
            ),
        ],
    );
    let engine = LiveEngine::new(live::state(1), ports);
    (World::on(Box::new(engine), spec), address.port())
}

/// Runs the world for 10 ms.
fn run(world: &mut World) {
    let limit = world.now() + 10 * MILLISECOND;
    while world.now() < limit {
        world.run_until(limit);
    }
}

/// Sends a request while the world runs; returns what arrives within half a second.
fn query(world: &mut World, port: u16, line: &str) -> String {
    run(world);
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return String::new();
    };
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a time-out can be set");
    let sent = stream.write_all(format!("{line}\r\n").as_bytes());
    let mut text = Vec::new();
    for _ in 0..50 {
        run(world);
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(count) if sent.is_ok() => text.extend_from_slice(&bytes[..count]),
            _ if !text.is_empty() => break,
            _ => {}
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Repeats the request until the reply is `answer`.
#[track_caller]
fn wait_for(world: &mut World, port: u16, line: &str, answer: &str) {
    let mut last = String::new();
    for _ in 0..1000 {
        last = query(world, port, line);
        if last.contains(answer) {
            return;
        }
    }
    panic!("{line} is answered {last:?}, not {answer:?}");
}

/// One follows the other, receives the existing and the new data, and has the same offset.
#[track_caller]
fn check(of_ours: bool) {
    let Some(real) = Real::start() else {
        eprintln!("SKIPPED: redis-server is not installed; nobody of it was followed");
        return;
    };
    let (mut world, ours) = world();
    let (master, replica) = if of_ours { (ours, real.port) } else { (real.port, ours) };
    for port in [master, replica] {
        wait_for(&mut world, port, "PING", "+PONG");
    }
    query(&mut world, master, "SET before 1 PX 90000");
    query(&mut world, master, "ZADD scores 1.5 a 2 b");
    query(&mut world, replica, &format!("REPLICAOF 127.0.0.1 {master}"));
    wait_for(&mut world, replica, "INFO replication", "master_link_status:up");
    wait_for(&mut world, replica, "ZRANGE scores 0 -1 WITHSCORES", "1.5");
    query(&mut world, master, "SET after 1");
    wait_for(&mut world, replica, "MGET before after", "*2\r\n$1\r\n1\r\n$1\r\n1");
    wait_for(&mut world, master, "INFO replication", "state=online");
    query(&mut world, replica, "REPLICAOF NO ONE");
    query(&mut world, master, &format!("REPLICAOF 127.0.0.1 {replica}"));
    wait_for(&mut world, master, "INFO replication", "master_link_status:up");
    query(&mut world, replica, "SET swapped 1");
    wait_for(&mut world, master, "GET swapped", "$1\r\n1");
    wait_for(&mut world, replica, "INFO stats", "sync_partial_ok:1");
}

#[test]
fn an_installed_redis_follows_a_node_of_ours_and_leads_it_afterwards() {
    check(true);
}

#[test]
fn a_node_of_ours_follows_an_installed_redis_and_leads_it_afterwards() {
    check(false);
}
