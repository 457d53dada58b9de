//! What a world costs before anything happens in it: to build, start and drop it.
//!
//! Eight hosts: three each open a connection to each of the five others. Ends with one plain line.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lockstorm_platform::host::Host;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, SECOND};
use lockstorm_world::world::World;
use lockstorm_world::world::spec::{HostSpec, Part, WorldSpec};

const PORT: u16 = 6379;
const SERVERS: u8 = 5;
const CALLERS: u8 = 3;
const ROUNDS: usize = 5;
const WORLDS: u32 = 2_000;

fn main() {
    let mut rounds: Vec<Cost> = (0..ROUNDS).map(|_| round()).collect();
    println!("{ROUNDS} rounds of {WORLDS} worlds");
    println!(
        "setup build_us={:.1} connect_us={:.1} drop_us={:.1}",
        median(&mut rounds, |cost| cost.build),
        median(&mut rounds, |cost| cost.connect),
        median(&mut rounds, |cost| cost.drop)
    );
}

/// What [`WORLDS`] worlds cost together.
#[derive(Clone, Copy, Default)]
struct Cost {
    build: Duration,
    connect: Duration,
    drop: Duration,
}

fn round() -> Cost {
    let mut cost = Cost::default();
    for _ in 0..WORLDS {
        let start = Instant::now();
        let mut world = build();
        let built = Instant::now();
        world.run_until(SECOND);
        let connected = Instant::now();
        drop(world);
        cost.build += built - start;
        cost.connect += connected - built;
        cost.drop += connected.elapsed();
    }
    cost
}

/// The median of the rounds, in microseconds a world.
fn median(rounds: &mut [Cost], part: impl Fn(&Cost) -> Duration) -> f64 {
    rounds.sort_by_key(&part);
    part(&rounds[ROUNDS / 2]).as_secs_f64() * 1e6 / f64::from(WORLDS)
}

fn build() -> World {
    let server = |n| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, n), PORT);
    let caller = |n| SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, n), PORT);
    let servers = (1..=SERVERS).map(|n| host(format!("n{n}"), server(n), serve));
    let callers = (1..=CALLERS).map(|n| host(format!("c{n}"), caller(n), call));
    World::new(WorldSpec {
        latency: Latency::Constant(MILLISECOND),
        ..WorldSpec::new(
            lockstorm_world::engine::kind::EngineKind::Event,
            1,
            servers.chain(callers).collect(),
        )
    })
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
    let mut streams = Vec::new();
    while let Ok(stream) = listener.accept().await {
        streams.push(stream);
    }
}

async fn call(host: Host) {
    let mut streams = Vec::new();
    for n in 1..=SERVERS {
        let server = host.resolve(&format!("n{n}")).expect("the servers have names");
        streams.push(host.connect(server).await.expect("the servers listen"));
    }
    std::future::pending::<()>().await;
}
