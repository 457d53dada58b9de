//! The process of a node: it starts a redis-server and relays to it.
//!
//! Requests of clients are counted and forwarded; a reply is forwarded once its effects are in the
//! trace, and once the faults anchored to it have struck. Traffic of other servers is forwarded
//! unchanged. The server lives as long as the process.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::BytesMut;
use lockstorm_platform::host::{Host, Listener, Stream};
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::{Event, Leg, Request};
use lockstorm_redis::cluster::BUS;
use lockstorm_redis::frame::decode::ReplyReader;
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::frame::{self, Arguments};
use lockstorm_redis::resp_client::RespClient;
use lockstorm_redis::signal::{First, first};
use lockstorm_redis::specification;
use lockstorm_world::engine::live::outside;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::confirm::lookout::{self, Followed};
use crate::confirm::peer::Peer;
use crate::confirm::pending::PendingRequests;
use crate::confirm::processes::{Home, ProcessSetup, Server};
use crate::confirm::tap::Tap;

/// The interval between two polls of a starting server.
const AGAIN: Nanos = 2 * MILLISECOND;
/// The delay before a Sentinel starts, and before a cluster's timeout is set: by then the replicas
/// have found their master, and the nodes of a cluster have found each other.
const SETTLING: Nanos = 500 * MILLISECOND;

/// A node, shared by the world and the environment.
pub struct RelayNode {
    /// Its name.
    pub name: String,
    /// The setup of its server.
    pub setup: ProcessSetup,
    /// The requests of its clients.
    pub pending: Rc<PendingRequests>,
    /// The master that its server follows.
    followed: Rc<Followed>,
    /// The running server. It is dropped before its files.
    server: RefCell<Option<Server>>,
    home: Home,
    is_halted: Cell<bool>,
    ahead_ms: Cell<i64>,
}

impl RelayNode {
    /// A node; its first server may already be running.
    pub fn new(name: String, setup: ProcessSetup, home: Home, server: Option<Server>) -> RelayNode {
        RelayNode {
            name,
            setup,
            pending: Rc::default(),
            followed: Rc::default(),
            home,
            server: RefCell::new(server),
            is_halted: Cell::new(false),
            ahead_ms: Cell::new(0),
        }
    }

    async fn tap(&self, host: &Host) -> Tap {
        let (pending, followed) = (Rc::clone(&self.pending), Rc::clone(&self.followed));
        Tap::begin(host.clone(), &self.setup, pending, followed).await
    }

    /// Stops or resumes the server as the world does with the node's process.
    pub fn follow(&self, is_halted: bool) {
        if self.is_halted.replace(is_halted) != is_halted
            && let Some(server) = self.server.borrow().as_ref()
        {
            server.halt(is_halted);
        }
    }

    /// Sets the server's clock to `ahead_ms` milliseconds ahead of the machine's.
    pub fn set_clock(&self, ahead_ms: i64) {
        if self.setup.has_clock && self.ahead_ms.replace(ahead_ms) != ahead_ms {
            let set = self.home.set_clock(ahead_ms);
            set.expect("what could be written before the run can be written in it");
        }
    }
}

/// The server of one run of a node's process: it is killed when this value is dropped.
struct RunningRelay(Rc<RelayNode>);

impl Drop for RunningRelay {
    fn drop(&mut self) {
        self.0.server.take();
        // The next server starts running, so `follow` has to halt it again.
        self.0.is_halted.set(false);
    }
}

/// Runs a node.
pub async fn run(host: Host, node: Rc<RelayNode>) {
    let running = RunningRelay(Rc::clone(&node));
    if node.setup.watch.is_some() {
        host.sleep(SETTLING).await;
    }
    if node.server.borrow().is_none() {
        match Server::start(&node.setup, &node.home) {
            Ok(server) => *node.server.borrow_mut() = Some(server),
            Err(error) => {
                let text = format!("{} cannot be started again: {error}", node.name);
                host.record(Event::Note { text });
                return;
            }
        }
    }
    while outside::connect(node.setup.own).await.is_err() {
        host.sleep(AGAIN).await;
    }
    if let Some(membership) = &node.setup.cluster {
        let Ok(bus) = host.listen(node.setup.known.port() + BUS) else { return };
        host.spawn(carry_bus(host.clone(), bus, membership.bus));
        host.spawn(settle(host.clone(), node.setup.own, membership.config.node_timeout_ms));
    }
    // A Sentinel keeps no keys.
    if node.setup.watch.is_some() {
        host.spawn(lookout::of_sentinel(host.clone(), node.setup.own));
    } else {
        // Connected before the node listens, so that no request of a client goes unreported.
        let tap = node.tap(&host).await;
        host.spawn(listen(host.clone(), Rc::clone(&node), tap));
        if node.setup.changes_role {
            host.spawn(look(host.clone(), Rc::clone(&node)));
        }
    }
    let Ok(mut listener) = host.listen(node.setup.known.port()) else { return };
    while let Ok(stream) = listener.accept().await {
        let (host_there, node) = (host.clone(), Rc::clone(&node));
        host.spawn(async move { carry(host_there, node, stream).await.unwrap_or(()) });
    }
    drop(running);
}

/// Runs the tap as long as the process lives. A server closes its connections when its role
/// changes, so the tap reconnects.
async fn listen(host: Host, node: Rc<RelayNode>, mut tap: Tap) {
    loop {
        tap.listen().await;
        // The server reported nothing of what happened between the two connections.
        node.pending.miss();
        tap = node.tap(&host).await;
    }
}

/// Polls the server's role and view as long as the process lives.
async fn look(host: Host, node: Rc<RelayNode>) {
    let ProcessSetup { own, cluster, .. } = &node.setup;
    loop {
        let (followed, pending) = (&node.followed, &node.pending);
        lookout::of_node(host.clone(), *own, cluster.is_some(), followed, pending).await;
        host.sleep(AGAIN).await;
    }
}

/// Forwards the cluster bus from the other nodes to this one, without interpreting it.
async fn carry_bus(host: Host, mut bus: Listener, server: SocketAddrV4) {
    while let Ok(mut other) = bus.accept().await {
        host.spawn(async move {
            if let Ok(mut server) = outside::connect(server).await {
                let _ = tokio::io::copy_bidirectional(&mut other, &mut server).await;
            }
        });
    }
}

/// Sets the plan's `cluster-node-timeout` on a cluster node, once it receives the bus.
async fn settle(host: Host, server: SocketAddrV4, node_timeout_ms: u64) {
    host.sleep(SETTLING).await;
    if let Ok(server) = outside::connect(server).await {
        let timeout = node_timeout_ms.to_string();
        let words = ["CONFIG", "SET", "cluster-node-timeout", &timeout];
        let _ = RespClient::new(server).request(&words).await;
    }
}

/// Forwards one connection until an end of it closes.
async fn carry(host: Host, node: Rc<RelayNode>, mut client: Stream) -> io::Result<()> {
    let mut server = outside::connect(node.setup.own).await?;
    match Peer::of(client.connection().client) {
        Peer::Server => tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop),
        peer => {
            let by = server.connection().client;
            let exchange = Exchange {
                host,
                pending: Rc::clone(&node.pending),
                waits: peer == Peer::Client && node.setup.watch.is_none(),
                client,
                server,
                requests: RequestReader::default(),
                input: BytesMut::new(),
                replies: ReplyReader::default(),
                output: BytesMut::new(),
                unanswered: VecDeque::new(),
                nth: 0,
            };
            let ended = exchange.go_on().await;
            node.pending.forget(by);
            ended
        }
    }
}

/// The requests and replies of one connection.
struct Exchange {
    host: Host,
    pending: Rc<PendingRequests>,
    /// Whether replies wait for the reports of their effects; an operator's replies do not.
    waits: bool,
    client: Stream,
    server: Stream,
    requests: RequestReader,
    input: BytesMut,
    replies: ReplyReader,
    /// Bytes of the server that are not parsed yet.
    output: BytesMut,
    /// Pending requests, with their commands.
    unanswered: VecDeque<(Request, &'static str)>,
    nth: u32,
}

impl Exchange {
    async fn go_on(mut self) -> io::Result<()> {
        loop {
            let (requested, answered) =
                (self.client.read_buf(&mut self.input), self.server.read_buf(&mut self.output));
            let came = first(requested, answered).await;
            let (First::This(read) | First::That(read)) = &came;
            match (read, &came) {
                (Ok(0) | Err(_), First::This(_)) => return self.finish().await,
                (Ok(0) | Err(_), First::That(_)) => return Ok(()),
                (_, First::This(_)) => self.pass_requests().await?,
                (_, First::That(_)) => self.pass_replies().await?,
            }
        }
    }

    /// Ends the connection of a client that has left: the server still executes what it received,
    /// and then notices the end.
    async fn finish(mut self) -> io::Result<()> {
        self.server.shutdown().await?;
        while self.server.read_buf(&mut self.output).await? > 0 {
            self.pass_replies().await?;
        }
        Ok(())
    }

    async fn pass_requests(&mut self) -> io::Result<()> {
        let wrong = |_| io::ErrorKind::InvalidData;
        while let Some(words) = self.requests.next(&mut self.input).map_err(wrong)? {
            let command = specification::find(&words[0]).map_or("UNKNOWN", |command| command.head);
            self.delay(command).await;
            let request = Request { connection: self.client.connection(), nth: self.nth };
            self.nth += 1;
            self.unanswered.push_back((request, command));
            let words = as_real(words);
            let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
            // Recorded before the write: the tap may receive the report before the write returns.
            self.pending.sent(self.server.connection().client, request, name);
            let mut bytes = BytesMut::new();
            frame::encode_request(&mut bytes, &words);
            self.server.write_all(&bytes).await?;
        }
        Ok(())
    }

    /// Applies the delay that a fault adds to a command or script, one at a time, as on the node.
    async fn delay(&self, command: &str) {
        let slowness = self.host.slowness();
        let is_script = matches!(command, "EVAL" | "EVALSHA" | "FCALL");
        let longer = slowness.command + if is_script { slowness.script } else { 0 };
        if longer > 0 {
            let _turn = self.host.lock_mutex("turn").await;
            self.host.sleep(longer).await;
        }
    }

    async fn pass_replies(&mut self) -> io::Result<()> {
        loop {
            let mut rest = self.output.clone();
            let reply = self.replies.next(&mut rest).map_err(|_| io::ErrorKind::InvalidData)?;
            let Some(reply) = reply else { return Ok(()) };
            let bytes = self.output.split_to(self.output.len() - rest.len());
            let Some((request, command)) = self.unanswered.pop_front() else {
                self.client.write_all(&bytes).await?;
                continue;
            };
            if self.waits && !reply.is_error() {
                let by = self.server.connection().client;
                self.pending.until_reported(&self.host, by, request).await;
            }
            if let Some(word) = frame::error_word(&bytes) {
                self.host.record(Event::Declined { request, word });
            }
            // Marked before the write: a fault that is anchored here strikes while the client has
            // no reply.
            self.mark(request, Leg::Applied, command).await;
            // An error is ignored, because the next read shows whether the client has left.
            let _ = self.client.write_all(&bytes).await;
            self.mark(request, Leg::Replied, command).await;
        }
    }

    async fn mark(&self, request: Request, leg: Leg, command: &'static str) {
        self.host.mark(Event::Message { request, leg, command, op: None }).await;
    }
}

/// The request in a form that a real server understands: an eviction becomes a deletion by command.
fn as_real(words: Arguments) -> Arguments {
    match &words[..] {
        [debug, evict, key]
            if debug.eq_ignore_ascii_case(b"DEBUG") && evict.eq_ignore_ascii_case(b"EVICT") =>
        {
            vec![bytes::Bytes::from_static(b"DEL"), key.clone()]
        }
        _ => words,
    }
}
