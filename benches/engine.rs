//! How many requests a second the event engine handles, compared with plain turmoil in the same
//! run.
//!
//! Five nodes reply `+OK`; three clients each loop over two rounds of one SET NX PX request to each
//! node in turn, then sleep 400 ms. Links take 3 ms. Ends with one plain line.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time, turmoil uses tokio")]

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, SECOND};
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const REQUEST: &[u8] =
    b"*6\r\n$3\r\nSET\r\n$4\r\nlock\r\n$5\r\ntoken\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n";
const PORT: u16 = 6379;
const NODES: u8 = 5;
const CLIENTS: u8 = 3;
const EVENT_SECONDS: u64 = 6_000;
const TURMOIL_SECONDS: u64 = 60;

fn main() {
    let (event, event_count) = timed(|| on_event_engine(EVENT_SECONDS));
    let (turmoil, turmoil_count) = timed(|| on_turmoil(TURMOIL_SECONDS));
    println!("event engine: {event_count} requests in {EVENT_SECONDS} simulated seconds");
    println!("turmoil: {turmoil_count} requests in {TURMOIL_SECONDS} simulated seconds");
    println!("engine event={event:.0} turmoil={turmoil:.0} ratio={:.0}", event / turmoil);
}

/// Requests a second of real time, and requests in all.
fn timed(run: impl FnOnce() -> u64) -> (f64, u64) {
    let start = Instant::now();
    let count = run();
    (count as f64 / start.elapsed().as_secs_f64(), count)
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut request = [0; REQUEST.len()];
    while stream.read_exact(&mut request).await.is_ok() {
        if stream.write_all(b"+OK\r\n").await.is_err() {
            return;
        }
    }
}

async fn two_rounds(streams: &mut [impl AsyncRead + AsyncWrite + Unpin], count: &Cell<u64>) {
    let mut reply = [0; 5];
    for _ in 0..2 {
        for stream in &mut *streams {
            stream.write_all(REQUEST).await.expect("nothing breaks here");
            stream.read_exact(&mut reply).await.expect("nothing breaks here");
            count.set(count.get() + 1);
        }
    }
}

fn on_event_engine(seconds: u64) -> u64 {
    let count = Rc::new(Cell::new(0));
    let node = |n| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, n), PORT);
    let mut hosts: Vec<HostSpec> =
        (1..=NODES).map(|n| host(format!("n{n}"), node(n), serve)).collect();
    for n in 1..=CLIENTS {
        let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, n), PORT);
        let count = Rc::clone(&count);
        hosts.push(host(format!("c{n}"), address, move |host| {
            send_requests(host, Rc::clone(&count))
        }));
    }
    let mut world = World::new(WorldSpec {
        latency: Latency::Constant(3 * MILLISECOND),
        ..WorldSpec::new(lockstorm_world::engine::kind::EngineKind::Event, 1, hosts)
    });
    world.run_until(seconds * SECOND);
    count.get()
}

fn host<R>(name: String, address: SocketAddrV4, run: impl Fn(Host) -> R + 'static) -> HostSpec
where
    R: Future<Output = ()> + 'static,
{
    let process: lockstorm_world::engine::interface::Process =
        Rc::new(move |host| Box::pin(run(host)));
    HostSpec::new(name, address, Part::Other, process)
}

async fn serve(host: Host) {
    let mut listener = host.listen(PORT).expect("the port is free");
    while let Ok(stream) = listener.accept().await {
        host.spawn(answer(stream));
    }
}

async fn send_requests(host: Host, count: Rc<Cell<u64>>) {
    let mut streams = Vec::new();
    for n in 1..=NODES {
        let node = host.resolve(&format!("n{n}")).expect("the nodes have names");
        streams.push(host.connect(node).await.expect("the nodes listen"));
    }
    loop {
        two_rounds(&mut streams, &count).await;
        host.sleep(400 * MILLISECOND).await;
    }
}

fn on_turmoil(seconds: u64) -> u64 {
    let latency = Duration::from_millis(3);
    let mut sim = turmoil::Builder::new()
        .simulation_duration(Duration::from_secs(seconds + 1))
        .min_message_latency(latency)
        .max_message_latency(latency)
        .build();
    for n in 1..=NODES {
        sim.host(format!("n{n}"), || async {
            let listener = turmoil::net::TcpListener::bind(("0.0.0.0", PORT)).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(answer(stream));
            }
        });
    }
    let count = Rc::new(Cell::new(0));
    for n in 1..=CLIENTS {
        let count = Rc::clone(&count);
        sim.host(format!("c{n}"), move || {
            let count = Rc::clone(&count);
            async move {
                let mut streams = Vec::new();
                for n in 1..=NODES {
                    streams.push(turmoil::net::TcpStream::connect((format!("n{n}"), PORT)).await?);
                }
                loop {
                    two_rounds(&mut streams, &count).await;
                    tokio::time::sleep(Duration::from_millis(400)).await;
                }
            }
        });
    }
    while sim.elapsed() < Duration::from_secs(seconds) {
        sim.step().expect("the hosts run on");
    }
    count.get()
}
