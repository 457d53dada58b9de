//! Worlds on the live engine: real sockets and real time, with both ends of each connection in the
//! world. No test depends on an exact time, only on the order of events.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_redis::node::{Append, NodeConfig};
use lockstorm_redis::process::serve;
use lockstorm_world::engine::interface::Process;
use lockstorm_world::engine::kind::EngineKind;
use lockstorm_world::engine::live;
use lockstorm_world::engine::live::LiveEngine;
use lockstorm_world::engine::live::ports::Ports;
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Log = Rc<RefCell<Vec<(Nanos, String)>>>;

fn process<F, R>(run: F) -> Process
where
    F: Fn(Host) -> R + 'static,
    R: Future<Output = ()> + 'static,
{
    Rc::new(move |host| Box::pin(run(host)))
}

/// A node `n1` on a port chosen by the system, and a client `c1` that runs `send_requests`.
fn world<F, R>(append: Append, send_requests: F) -> (World, Log)
where
    F: Fn(Host, SocketAddrV4, Log) -> R + 'static,
    R: Future<Output = ()> + 'static,
{
    let mut ports = Ports::default();
    let node = ports.bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let log = Log::default();
    let kept = Rc::clone(&log);
    let config = NodeConfig { port: node.port(), append, ..NodeConfig::default() };
    let run_node = process(move |host| serve(host, config.clone()));
    let run_client = process(move |host| send_requests(host, node, Rc::clone(&kept)));
    let client = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 1), 0);
    let spec = WorldSpec::new(
        EngineKind::Live,
        1,
        vec![
            HostSpec::new("n1", node, Part::Node, run_node),
            HostSpec::new("c1", client, Part::Other, run_client),
        ],
    );
    let engine = LiveEngine::new(live::state(1), ports);
    (World::on(Box::new(engine), spec), log)
}

/// Sends a line every 10 ms, reconnects after a failure, and logs the replies.
async fn asks(host: Host, node: SocketAddrV4, log: Log, line: &'static str) {
    let note = |text: String| log.borrow_mut().push((host.now(Clock::Monotonic), text));
    loop {
        match host.connect(node).await {
            Err(error) => note(format!("{:?}", error.kind())),
            Ok(mut stream) => loop {
                let mut bytes = [0; 256];
                let sent = stream.write_all(line.as_bytes()).await;
                match (sent, stream.read(&mut bytes).await) {
                    (Ok(()), Ok(count @ 1..)) => {
                        note(String::from_utf8_lossy(&bytes[..count]).into_owned());
                    }
                    _ => break note("ended".to_owned()),
                }
                host.sleep(10 * MILLISECOND).await;
            },
        }
        host.sleep(10 * MILLISECOND).await;
    }
}

fn strike(world: &mut World, id: u32, verb: Verb, target: &str, length: Option<Nanos>) {
    let target = Target::try_from(target.to_owned()).expect("a target");
    world.inject(Fault { id, verb, target, anchor: Anchor::At(0), length });
}

fn run(world: &mut World, ms: u64) {
    let limit = world.now() + ms * MILLISECOND;
    while world.now() < limit {
        world.run_until(limit);
    }
}

/// Runs until the log contains `text`.
#[track_caller]
fn run_until_said(world: &mut World, log: &Log, text: &str) {
    for _ in 0..500 {
        if log.borrow().iter().any(|(_, said)| said == text) {
            return;
        }
        run(world, 10);
    }
    panic!("nobody said '{text}': {:?}", log.borrow());
}

fn said(log: &Log) -> Vec<String> {
    log.take().into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_pause_is_waited_out_and_a_death_is_seen() {
    let ping = |host, node, log| asks(host, node, log, "PING\r\n");
    let (mut world, log) = world(Append::None, ping);
    run_until_said(&mut world, &log, "+PONG\r\n");
    strike(&mut world, 1, Verb::Pause, "n1", Some(200 * MILLISECOND));
    run(&mut world, 50);
    said(&log);
    run(&mut world, 50);
    assert!(said(&log).is_empty(), "a paused node says nothing");
    run_until_said(&mut world, &log, "+PONG\r\n");
    assert!(!said(&log).contains(&"ended".to_owned()), "its sockets stay");
    strike(&mut world, 2, Verb::Crash, "n1", None);
    run_until_said(&mut world, &log, "ended");
    run_until_said(&mut world, &log, "ConnectionRefused");
    assert!(!world.status("n1").is_up);
    strike(&mut world, 3, Verb::Restart, "n1", None);
    run_until_said(&mut world, &log, "+PONG\r\n");
}

/// All connections are closed, not only the one that sent SHUTDOWN.
#[test]
fn a_node_that_is_shut_down_ends_every_connection() {
    let (mut world, log) = world(Append::None, |host: Host, node, log: Log| async move {
        let mut other = host.connect(node).await.expect("the node is up");
        asks_once(&host, node, b"SHUTDOWN NOSAVE\r\n").await;
        let end = other.read(&mut [0]).await;
        let text = if matches!(end, Ok(0) | Err(_)) { "ended" } else { "served" };
        log.borrow_mut().push((0, text.to_owned()));
        asks(host, node, log, "PING\r\n").await;
    });
    run_until_said(&mut world, &log, "ConnectionRefused");
    assert_eq!(said(&log)[0], "ended");
}

async fn asks_once(host: &Host, node: SocketAddrV4, line: &[u8]) {
    let mut stream = host.connect(node).await.expect("the node is up");
    stream.write_all(line).await.expect("it is sent");
    let _ = stream.read(&mut [0]).await;
}

#[test]
fn a_client_stands_still_like_a_node() {
    let ping = |host, node, log| asks(host, node, log, "PING\r\n");
    let (mut world, log) = world(Append::None, ping);
    run_until_said(&mut world, &log, "+PONG\r\n");
    strike(&mut world, 1, Verb::Suspend, "c1", Some(200 * MILLISECOND));
    let before = world.status("c1").readings;
    run(&mut world, 100);
    let asleep = world.status("c1").readings;
    assert_eq!(asleep.mono, before.mono, "the monotonic clock stands");
    assert!(asleep.boot >= before.boot + 90 * MILLISECOND);
    run(&mut world, 200);
    assert!(world.status("c1").readings.mono > before.mono);
}

#[test]
fn keys_expire_by_the_nodes_own_clock() {
    let get = |host, node, log| asks(host, node, log, "SET k v NX PX 60000\r\n");
    let (mut world, log) = world(Append::None, get);
    run_until_said(&mut world, &log, "$-1\r\n");
    said(&log);
    let unix = world.status("n1").readings.wall;
    let by = i64::try_from(120 * SECOND).unwrap();
    strike(&mut world, 1, Verb::ClockStep { by }, "n1", None);
    run_until_said(&mut world, &log, "+OK\r\n");
    assert!(world.status("n1").readings.wall >= unix + 120 * SECOND);
    strike(&mut world, 2, Verb::ClockFreeze, "n1", None);
    let frozen = world.status("n1").readings.wall;
    run(&mut world, 30);
    assert_eq!(world.status("n1").readings.wall, frozen);
    assert_eq!(world.end_faults(|_| true), 1);
    run(&mut world, 30);
    assert!(world.status("n1").readings.wall > frozen);
}

#[test]
fn what_was_synced_outlives_a_loss_of_power() {
    for (append, there) in [(Append::Always, "$-1\r\n"), (Append::No, "+OK\r\n")] {
        let set = |host, node, log| asks(host, node, log, "SET k v NX\r\n");
        let (mut world, log) = world(append, set);
        run_until_said(&mut world, &log, "$-1\r\n");
        strike(&mut world, 1, Verb::PowerLoss, "n1", None);
        run(&mut world, 50);
        said(&log);
        run(&mut world, 50);
        assert!(said(&log).is_empty(), "a machine without power says nothing at all");
        strike(&mut world, 2, Verb::Restart, "n1", None);
        run_until_said(&mut world, &log, "$-1\r\n");
        assert_eq!(said(&log)[1], there, "{append:?}");
    }
}

#[test]
fn links_hold_bytes_back_in_order() {
    let ping = |host, node, log| asks(host, node, log, "PING\r\n");
    let (mut world, log) = world(Append::None, ping);
    run_until_said(&mut world, &log, "+PONG\r\n");
    strike(&mut world, 1, Verb::Delay { extra: 60 * MILLISECOND }, "c1 <-> n1", None);
    run(&mut world, 30);
    log.take();
    run(&mut world, 600);
    let times: Vec<Nanos> = log.take().into_iter().map(|(at, _)| at).collect();
    assert!(times.len() >= 2, "bytes arrive at last");
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.min().unwrap() >= 120 * MILLISECOND, "each way counts once: {times:?}");
    world.end_faults(|_| true);
    strike(&mut world, 2, Verb::Partition, "n1 -> c1", None);
    run(&mut world, 200);
    log.take();
    run(&mut world, 100);
    assert!(log.take().is_empty(), "nothing passes");
    world.end_faults(|_| true);
    run_until_said(&mut world, &log, "+PONG\r\n");
    strike(&mut world, 3, Verb::Reset, "c1 <-> n1", None);
    run_until_said(&mut world, &log, "ended");
}
