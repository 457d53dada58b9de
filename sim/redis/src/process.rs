//! A node as a process: from its start to its exit.
//!
//! - `cluster`: the bus of a node that is in a cluster
//! - `sentinel`: a Sentinel as a process

pub(crate) mod cluster;
pub mod sentinel;

use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::host::{Host, Listener};
use lockstorm_platform::rng::Purpose;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};
use lockstorm_platform::trace::Event;

use crate::cluster::file::FILE;
use crate::conversation::converse;
use crate::cycle;
use crate::files::{has_file, read_files};
use crate::node::{Node, NodeConfig};
use crate::replication::follow::follow_anew;
use crate::server::Server;
use crate::signal::{First, first};

/// Runs a node until its process stops.
///
/// # Panics
/// If its port is in use: a world gives each process its own ports.
pub async fn serve(host: Host, config: NodeConfig) {
    serve_shown(host, config, |_| {}).await;
}

/// As [`serve`], and passes the server to `show` before it loads its files, for code that observes
/// it from outside its machine.
///
/// # Panics
/// As [`serve`].
pub async fn serve_shown(host: Host, config: NodeConfig, show: impl FnOnce(&Rc<Server>)) {
    run(&host, config, show).await;
    host.record(Event::Exited);
    host.exit();
}

async fn run(host: &Host, config: NodeConfig, show: impl FnOnce(&Rc<Server>)) {
    // Before the files are loaded: clients that connect meanwhile get LOADING, not a refusal.
    let listener = host.listen(config.port).expect("the node's port is free");
    let server = Rc::new(begin(host, config));
    show(&server);
    let load_time = server.node.borrow().config.load_time;
    if load_time > 0 && has_file(host, &server.node.borrow()) {
        host.spawn(start_after(Rc::clone(&server), load_time));
    } else if !start(&server) {
        return;
    }
    accept_all(server, listener).await;
}

/// Serves every connection until the process must stop.
pub(crate) async fn accept_all(server: Rc<Server>, mut listener: Listener) {
    loop {
        // Zero, so that a stop before this point is not missed.
        match first(listener.accept(), server.ended.past(0)).await {
            First::This(Ok(stream)) => {
                server.host.spawn(converse(Rc::clone(&server), stream));
            }
            _ => return,
        }
    }
}

/// Draws for the ids of a process that starts now; a restart at a later time gets other ids.
pub(crate) fn ids(host: &Host) -> [u64; 3] {
    let wall = host.now(Clock::Wall);
    [0, 1, 2].map(|ordinal| host.draw(Purpose::Server, wall / MILLISECOND * 3 + ordinal))
}

/// The process in its initial state.
fn begin(host: &Host, config: NodeConfig) -> Server {
    let wall = host.now(Clock::Wall);
    let mut node = Node::new(config, wall / MILLISECOND, ids(host));
    node.set_time(wall);
    if let Some(own) = host.resolve(host.name()) {
        let file = host.disk().read(FILE);
        let own = SocketAddrV4::new(*own.ip(), node.config.port);
        node.begin_cluster(own, &String::from_utf8_lossy(&file));
    }
    host.record(Event::Role { master: node.peers.master });
    Server::new(host, node, follow_anew)
}

/// Loads from disk, records it in the trace and starts. False if the node must not start with
/// what it found.
fn start(server: &Rc<Server>) -> bool {
    let mut node = server.node.borrow_mut();
    node.startup.since_ms = None;
    let Some(place) = read_files(&server.host, &mut node) else { return false };
    let keys = node.keyspace.keys();
    server.host.record(Event::Loaded { keys: keys.clone(), resync: None, file: Some(place) });
    server.report_contents(&node, keys, true);
    let follows = node.peers.master.is_some();
    if let Some(continued) = node.history.continued().filter(|_| !follows) {
        server.host.record(continued);
    }
    drop(node);
    cycle::start(server);
    cluster::start(server);
    if follows {
        follow_anew(server);
    }
    true
}

/// Starts after the file is loaded, which takes time; requests meanwhile get a LOADING error.
/// Expiry is decided by the time at which loading began, as in Redis.
async fn start_after(server: Rc<Server>, load_time: Nanos) {
    server.node.borrow_mut().startup.since_ms = Some(server.host.now(Clock::Wall) / MILLISECOND);
    server.host.sleep(load_time).await;
    let turn = server.turn.clone().lock().await;
    let began_ms = server.node.borrow().startup.since_ms.unwrap_or(0);
    server.node.borrow_mut().set_time(began_ms * MILLISECOND);
    if !start(&server) {
        server.ended.raise();
    }
    drop(turn);
}
