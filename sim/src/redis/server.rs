//! A node as a process: connections, the order in which requests are executed, the trace.
//!
//! One task a connection. What a request does is decided by `command`; here its effects go to
//! the trace, the file and the replicas, and its reply to the client, in the order of Redis:
//! executed, written to the file (and synced, if every write is), answered.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::platform::{Host, HostMutex, Stream};
use crate::redis::command::{apply, name};
use crate::redis::cycle;
use crate::redis::frame::{Arguments, Reply, RequestReader};
use crate::redis::node::{After, Append, Effects, Node, NodeConfig, Session};
use crate::redis::persistence::{FILE, Script, load};
use crate::redis::replication::{Feeds, feed, follow_anew};
use crate::redis::signal::Signal;
use crate::redis::witness;
use crate::rng::Purpose;
use crate::time::{Clock, MILLISECOND};
use crate::trace::{Event, Leg, Origin, Request};

/// A running node. Its tasks share it.
pub struct Server {
    /// The machine.
    pub host: Host,
    /// The state.
    pub node: RefCell<Node>,
    /// Held while something is executed: a slow script lets everybody wait.
    pub turn: HostMutex,
    /// The replicas that are fed.
    pub feeds: RefCell<Feeds>,
    /// Raised when a replica has acknowledged, or the node became one.
    pub acknowledged: Signal,
    /// Raised when the node follows another master, or none.
    pub role: Signal,
    /// Raised when a key has an earlier end than the expiry cycle waits for.
    pub ends: Signal,
    /// Until when that cycle waits, in Unix milliseconds.
    pub waits_until_ms: Cell<Option<u64>>,
    log: RefCell<Log>,
    sessions: Cell<u64>,
}

/// The append-only file between execution and disk.
#[derive(Default)]
struct Log {
    script: Script,
    /// Executed and not yet written.
    pending: BytesMut,
    /// Bytes written since the start, and how many of them are known to be synced.
    written: u64,
    synced: u64,
}

/// Runs a node until its process ends.
///
/// # Panics
/// If its port is taken: a world gives each process ports of its own.
pub async fn serve(host: Host, config: NodeConfig) {
    let mut listener = host.listen(config.port).expect("the node's port is free");
    let server = Rc::new(Server::start(&host, config));
    cycle::start(&server);
    if server.node.borrow().master.is_some() {
        follow_anew(&server);
    }
    while let Ok(stream) = listener.accept().await {
        host.spawn(converse(Rc::clone(&server), stream));
    }
}

impl Server {
    /// Loads what the disk holds and tells the trace.
    fn start(host: &Host, config: NodeConfig) -> Server {
        let wall = host.now(Clock::Wall);
        let id =
            [0, 1, 2].map(|ordinal| host.draw(Purpose::Server, wall / MILLISECOND * 3 + ordinal));
        let mut node = Node::new(config, wall / MILLISECOND, id);
        node.set_time(wall);
        if node.config.append != Append::None {
            let bytes = host.disk().read(FILE);
            let whole = load(&mut node, &bytes);
            if whole < bytes.len() {
                host.disk().replace(FILE, &bytes[..whole]);
            }
            node.propagates = true;
        }
        host.record(Event::Role { master: node.master });
        host.record(Event::Loaded { keys: node.keyspace.keys(), resync: None });
        Server {
            host: host.clone(),
            node: RefCell::new(node),
            turn: HostMutex::default(),
            feeds: RefCell::default(),
            acknowledged: Signal::default(),
            role: Signal::default(),
            ends: Signal::default(),
            waits_until_ms: Cell::new(None),
            log: RefCell::default(),
            sessions: Cell::new(0),
        }
    }

    /// The number of the next connection.
    pub fn next_session(&self) -> u64 {
        self.sessions.set(self.sessions.get() + 1);
        self.sessions.get()
    }

    /// Executes a request when it is its turn.
    async fn execute(&self, session: &mut Session, request: Request, args: &Arguments) -> Reply {
        let turn = self.turn.clone().lock().await;
        let wall = self.host.now(Clock::Wall);
        let slowness = self.host.slowness();
        let runs_script = args[0].len() >= 4 && args[0][..4].eq_ignore_ascii_case(b"EVAL");
        let extra = slowness.command + if runs_script { slowness.script } else { 0 };
        if extra > 0 {
            self.host.sleep(extra).await;
        }
        let mut node = self.node.borrow_mut();
        node.set_time(wall);
        let heard = witness::hear(&self.host, session, args);
        let reply = apply(&mut node, session, args);
        witness::tell(&self.host, &node, session, request, args, heard);
        drop(node);
        if self.publish(Origin::Request(request)) {
            session.last_write = self.node.borrow().offset;
        }
        drop(turn);
        reply
    }

    /// Tells trace, file and replicas what was done; whether a command was passed on.
    pub fn publish(&self, origin: Origin) -> bool {
        let mut node = self.node.borrow_mut();
        if node.effects.is_empty() {
            return false;
        }
        let Effects { mut changes, mut commands } = std::mem::take(&mut node.effects);
        for change in changes.drain(..) {
            let origin = if change.by_node { Origin::Node } else { origin };
            let (key, until_ms) = (change.key.to_vec(), change.until_ms);
            self.host.record(Event::Key { key, change: change.change, origin, until_ms });
        }
        let passed = !commands.is_empty();
        if passed && node.config.append != Append::None {
            let mut log = self.log.borrow_mut();
            let Log { script, pending, .. } = &mut *log;
            script.write(&commands, pending, |_, _| {});
        }
        if passed && node.master.is_none() {
            self.feeds.borrow_mut().send(&self.host, &mut node, &commands, origin);
        }
        commands.clear();
        node.effects = Effects { changes, commands };
        self.watch_ends(&node);
        passed
    }

    /// Wakes the expiry cycle if it waits too long.
    fn watch_ends(&self, node: &Node) {
        if node.master.is_some() {
            return;
        }
        let (next, waits) = (node.keyspace.next_end_ms(), self.waits_until_ms.get());
        if next.is_some_and(|next| waits.is_none_or(|waits| next < waits)) {
            self.ends.raise();
        }
    }

    /// Writes what was executed to the file, and syncs it if every write is: to be done before
    /// any reply goes out.
    pub async fn write_log(&self) {
        self.append_pending();
        if self.node.borrow().config.append == Append::Always {
            self.sync_log().await;
        }
    }

    fn append_pending(&self) {
        let mut log = self.log.borrow_mut();
        if !log.pending.is_empty() {
            self.host.disk().append(FILE, &log.pending);
            log.written += log.pending.len() as u64;
            log.pending.clear();
        }
    }

    /// Syncs the file, if anything was written that is not known to be synced. Who comes while
    /// another sync is under way waits for one of his own.
    pub async fn sync_log(&self) {
        let written = self.log.borrow().written;
        if self.log.borrow().synced < written {
            self.host.disk().sync(FILE).await;
            let mut log = self.log.borrow_mut();
            log.synced = log.synced.max(written);
        }
    }

    /// Puts this keyspace in the place of the file, after a full resynchronisation.
    pub async fn rewrite_log(&self, bytes: &[u8]) {
        if self.node.borrow().config.append == Append::None {
            return;
        }
        self.host.disk().replace(FILE, bytes);
        *self.log.borrow_mut() = Log { written: 1, ..Log::default() };
        self.sync_log().await;
    }
}

/// What a connection is about to do after its requests were executed.
struct Conversation {
    server: Rc<Server>,
    session: Session,
    stream: Stream,
    nth: u32,
    output: BytesMut,
    /// Executed requests whose replies are not yet written.
    unanswered: Vec<(Request, &'static str)>,
}

/// Serves one connection until it ends.
async fn converse(server: Rc<Server>, stream: Stream) {
    let session = Session { id: server.next_session(), ..Session::default() };
    let mut input = BytesMut::with_capacity(1024);
    let mut reader = RequestReader::default();
    let output = BytesMut::with_capacity(1024);
    let mut talk = Conversation { server, session, stream, nth: 0, output, unanswered: Vec::new() };
    loop {
        match reader.next(&mut input) {
            Ok(Some(args)) => {
                talk.serve(&args).await;
                match std::mem::take(&mut talk.session.after) {
                    After::Close => break,
                    After::Feed => {
                        if talk.flush().await.is_ok() {
                            feed(talk.server, talk.session, talk.stream).await;
                        }
                        return;
                    }
                    _ => {}
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => {
                error.reply().encode(&mut talk.output);
                break;
            }
        }
        if talk.flush().await.is_err() {
            return;
        }
        match talk.stream.read_buf(&mut input).await {
            Ok(1..) => {}
            _ => return,
        }
    }
    if talk.flush().await.is_ok() {
        let _ = talk.stream.shutdown().await;
    }
}

impl Conversation {
    /// Executes one request and puts its reply behind the others.
    async fn serve(&mut self, args: &Arguments) {
        let request = Request { connection: self.stream.connection(), nth: self.nth };
        self.nth += 1;
        let command = name(&args[0]).unwrap_or("UNKNOWN");
        let mut reply = self.server.execute(&mut self.session, request, args).await;
        if let After::Follow(master) = self.session.after {
            self.server.change_role(master);
            self.session.after = After::Nothing;
        }
        self.mark(request, Leg::Applied, command).await;
        if let After::Wait { replicas, timeout_ms } = self.session.after {
            if self.flush().await.is_err() {
                self.session.after = After::Close;
                return;
            }
            reply = cycle::wait(&self.server, &self.session, replicas, timeout_ms).await;
            self.session.after = After::Nothing;
        }
        if !matches!(self.session.after, After::Silence | After::Feed) {
            reply.encode(&mut self.output);
            self.unanswered.push((request, command));
        }
    }

    /// Writes all replies that are due.
    async fn flush(&mut self) -> std::io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        self.server.write_log().await;
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        let mut answered = std::mem::take(&mut self.unanswered);
        for (request, command) in answered.drain(..) {
            self.mark(request, Leg::Replied, command).await;
        }
        self.unanswered = answered;
        Ok(())
    }

    async fn mark(&self, request: Request, leg: Leg, command: &'static str) {
        self.server.host.mark(Event::Message { request, leg, command, op: None }).await;
    }
}
