//! Master and replica: full resynchronisation, the stream of commands, acknowledgements.
//!
//! As in Redis: PING, REPLCONF, PSYNC, then a snapshot, then every write as the master executed
//! it, with one count of bytes on both sides. There is no partial resynchronisation, no replica
//! of a replica, and the snapshot is commands instead of an RDB (`persistence`).

use std::cell::RefCell;
use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::platform::{Host, Stream};
use crate::redis::command::admission::apply;
use crate::redis::frame::decode::decode_reply;
use crate::redis::frame::request::RequestReader;
use crate::redis::frame::{Arguments, Reply, encode_request};
use crate::redis::keyspace::Keyspace;
use crate::redis::node::{Node, Replica, Told};
use crate::redis::persistence::{Script, load, snapshot};
use crate::redis::server::Server;
use crate::redis::session::Session;
use crate::redis::signal::{First, Signal, first};
use crate::time::{Clock, SECOND};
use crate::trace::{Connection, Event, Origin};

/// `repl-timeout`: a link on which so long nothing comes is given up.
const TIMEOUT_S: u64 = 60;
/// `repl-ping-replica-period`.
const PING_EVERY_S: u64 = 10;

/// The replicas that a master feeds. All of them get the same stream.
#[derive(Default)]
pub struct Feeds {
    script: Script,
    outboxes: Vec<Rc<Outbox>>,
    /// Whether [`tend`] runs.
    tended: bool,
}

/// What is on its way to one replica.
pub struct Outbox {
    session: u64,
    bytes: RefCell<BytesMut>,
    filled: Signal,
    cut: std::cell::Cell<bool>,
}

impl Feeds {
    /// Sends what was done to every replica and counts it into the offset.
    pub fn send(&mut self, host: &Host, node: &mut Node, commands: &[Told], origin: Origin) {
        if self.outboxes.is_empty() {
            return;
        }
        let before = node.offset;
        let mut stream = BytesMut::new();
        self.script.write(commands, &mut stream, |told, written| {
            let offset = before + written.len() as u64;
            let origin = if told.by_node { Origin::Node } else { origin };
            host.record(Event::Propagated { offset, origin });
        });
        self.push(node, &stream);
    }

    /// Asks every replica how far it is.
    pub fn ask_for_acknowledgement(&mut self, node: &mut Node) {
        let mut stream = BytesMut::new();
        encode_request(&mut stream, &["REPLCONF", "GETACK", "*"]);
        self.push(node, &stream);
    }

    fn push(&mut self, node: &mut Node, stream: &[u8]) {
        if self.outboxes.is_empty() {
            return;
        }
        node.offset += stream.len() as u64;
        for outbox in &self.outboxes {
            outbox.bytes.borrow_mut().extend_from_slice(stream);
            outbox.filled.raise();
        }
    }

    /// Ends every link: the node is no longer a master that they may follow.
    fn cut_all(&mut self) {
        for outbox in self.outboxes.drain(..) {
            outbox.cut.set(true);
            outbox.filled.raise();
        }
    }
}

impl Server {
    /// Makes the node follow `master`, or be one itself.
    pub fn change_role(self: &Rc<Server>, master: Option<SocketAddrV4>) {
        let mut node = self.node.borrow_mut();
        node.master = master;
        node.master_link_up = false;
        node.replicas.clear();
        drop(node);
        self.host.record(Event::Role { master });
        self.feeds.borrow_mut().cut_all();
        self.role.raise();
        self.acknowledged.raise();
        self.ends.raise();
        if master.is_some() {
            follow_anew(self);
        }
    }
}

/// Starts to follow the node's master, until its role changes again.
pub fn follow_anew(server: &Rc<Server>) {
    let server = Rc::clone(server);
    let role = server.role.count();
    server.host.clone().spawn(async move {
        first(server.role.past(role), follow(&server)).await;
    });
}

async fn follow(server: &Server) {
    loop {
        let Some(master) = server.node.borrow().master else { return };
        let _ = follow_once(server, master).await;
        server.node.borrow_mut().master_link_up = false;
        server.host.sleep(SECOND).await;
    }
}

/// One link to a master: it lasts until the connection or the master's word fails.
async fn follow_once(server: &Server, master: SocketAddrV4) -> io::Result<()> {
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    let connect = server.host.connect(master);
    let stream = server.host.timeout(TIMEOUT_S * SECOND, connect).await.ok_or_else(late)??;
    let input = BytesMut::with_capacity(4096);
    let mut link = Link { server, stream, input, received: 0, queued: None };
    let port = server.node.borrow().config.port.to_string();
    link.ask(&["PING"]).await?;
    link.ask(&["REPLCONF", "listening-port", &port]).await?;
    link.ask(&["REPLCONF", "capa", "eof", "capa", "psync2"]).await?;
    let granted = link.ask(&["PSYNC", "?", "-1"]).await?;
    let (id, offset) = full_resync(&granted).ok_or(io::ErrorKind::InvalidData)?;
    let bytes = link.payload().await?;
    let connection = link.stream.connection();
    load_snapshot(server, connection, (id, offset), &bytes).await;
    link.received = offset;
    link.follow_stream().await
}

/// Reads `FULLRESYNC id offset`.
fn full_resync(granted: &[u8]) -> Option<(String, u64)> {
    let text = std::str::from_utf8(granted).ok()?;
    let mut words = text.strip_prefix("FULLRESYNC ")?.split(' ');
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

/// Puts the master's keys in the place of the node's own: what only it had is gone.
async fn load_snapshot(
    server: &Server,
    connection: Connection,
    (id, offset): (String, u64),
    bytes: &[u8],
) {
    let keys = {
        let mut node = server.node.borrow_mut();
        node.set_time(server.host.now(Clock::Wall));
        node.keyspace = Keyspace::default();
        node.memory = None;
        node.libraries.clear();
        load(&mut node, bytes);
        node.replication_id = id;
        node.offset = offset;
        node.master_link_up = true;
        node.keyspace.keys()
    };
    server.host.record(Event::Loaded { keys, resync: Some(connection) });
    server.rewrite_log(bytes).await;
}

/// A replica's connection to its master.
struct Link<'a> {
    server: &'a Server,
    stream: Stream,
    input: BytesMut,
    /// The master's offset behind what was read.
    received: u64,
    /// A transaction whose end has not come: commands with the offsets behind them.
    queued: Option<Vec<(u64, Arguments)>>,
}

impl Link<'_> {
    async fn read(&mut self) -> io::Result<()> {
        let read = self.stream.read_buf(&mut self.input);
        match self.server.host.timeout(TIMEOUT_S * SECOND, read).await {
            Some(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(result) => result.map(drop),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Sends a request and waits for its one-line answer.
    async fn ask(&mut self, words: &[&str]) -> io::Result<Bytes> {
        let mut request = BytesMut::new();
        encode_request(&mut request, words);
        self.stream.write_all(&request).await?;
        loop {
            match decode_reply(&mut self.input) {
                Ok(Some(Reply::Simple(text))) => return Ok(text),
                Ok(None) => self.read().await?,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Reads the snapshot: a length line and so many bytes, without a line end behind them.
    async fn payload(&mut self) -> io::Result<Bytes> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let end = loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                break end;
            }
            self.read().await?;
        };
        let line = self.input[..end].strip_prefix(b"$").and_then(crate::redis::frame::integer);
        let length = line.and_then(|length| usize::try_from(length).ok()).ok_or_else(wrong)?;
        self.input.advance(end + 2);
        while self.input.len() < length {
            self.read().await?;
        }
        Ok(self.input.split_to(length).freeze())
    }

    /// Applies the master's stream and acknowledges it each second.
    async fn follow_stream(&mut self) -> io::Result<()> {
        let mut session = Session { from_master: true, ..Session::default() };
        let mut reader = RequestReader::default();
        let mut acknowledge_at = 0;
        let mut heard_at = self.server.host.now(Clock::Monotonic);
        loop {
            while self.apply_next(&mut reader, &mut session).await? {}
            let now = self.server.host.now(Clock::Monotonic);
            if now >= acknowledge_at {
                self.acknowledge().await?;
                acknowledge_at = now + SECOND;
            }
            if now >= heard_at + TIMEOUT_S * SECOND {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let tick = self.server.host.sleep_until(Clock::Monotonic, acknowledge_at);
            if let First::This(read) = first(self.stream.read_buf(&mut self.input), tick).await {
                if read? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                heard_at = self.server.host.now(Clock::Monotonic);
            }
        }
    }

    /// Takes the next whole command, if there is one. A transaction is applied, and counted as
    /// received, when its end has come: nobody sees half of it.
    async fn apply_next(
        &mut self,
        reader: &mut RequestReader,
        session: &mut Session,
    ) -> io::Result<bool> {
        let before = self.input.len();
        let args = reader.next(&mut self.input).map_err(|_| io::ErrorKind::InvalidData)?;
        let Some(args) = args else { return Ok(false) };
        self.received += (before - self.input.len()) as u64;
        let mut due = Vec::new();
        match (&args[0].to_ascii_uppercase()[..], &mut self.queued) {
            (b"MULTI", _) => self.queued = Some(Vec::new()),
            (b"EXEC", queued) => due = queued.take().unwrap_or_default(),
            (_, Some(queued)) => queued.push((self.received, args)),
            (b"PING", _) => {}
            (b"REPLCONF", _) => self.acknowledge().await?,
            _ => due.push((self.received, args)),
        }
        let turn = self.server.turn.clone().lock().await;
        for (offset, args) in due {
            self.apply(session, offset, &args);
        }
        if self.queued.is_none() {
            self.server.node.borrow_mut().offset = self.received;
        }
        self.server.write_log().await;
        drop(turn);
        Ok(true)
    }

    fn apply(&self, session: &mut Session, offset: u64, args: &Arguments) {
        let mut node = self.server.node.borrow_mut();
        node.set_time(self.server.host.now(Clock::Wall));
        let reply = apply(&mut node, session, args);
        debug_assert!(!reply.is_error(), "what a master did, its replica can do");
        drop(node);
        self.server.publish(Origin::Replication { offset });
    }

    async fn acknowledge(&mut self) -> io::Result<()> {
        let offset = self.server.node.borrow().offset.to_string();
        let mut request = BytesMut::new();
        encode_request(&mut request, &["REPLCONF", "ACK", &offset]);
        self.stream.write_all(&request).await
    }
}

/// Feeds the replica at the other end of a connection until it ends.
pub async fn feed(server: &Rc<Server>, id: u64, stream: Stream) {
    let address = stream.connection().client;
    server.host.record(Event::Snapshot { connection: stream.connection() });
    let outbox = open(server, id);
    let (reading, writing) = tokio::io::split(stream);
    let take = take_acknowledgements(server, id, address, reading);
    first(pour(&outbox, writing), take).await;
    server.feeds.borrow_mut().outboxes.retain(|other| other.session != outbox.session);
    let mut node = server.node.borrow_mut();
    node.replicas.retain(|replica| replica.session != outbox.session);
    node.recount_good_replicas();
}

/// Answers PSYNC: from here on the replica gets everything.
fn open(server: &Rc<Server>, id: u64) -> Rc<Outbox> {
    let mut node = server.node.borrow_mut();
    node.propagates = true;
    let keys = snapshot(&node);
    let (history, offset, length) = (&node.replication_id, node.offset, keys.len());
    let mut bytes =
        BytesMut::from(format!("+FULLRESYNC {history} {offset}\r\n${length}\r\n").as_bytes());
    bytes.extend_from_slice(&keys);
    let outbox = Rc::new(Outbox {
        session: id,
        bytes: RefCell::new(bytes),
        filled: Signal::default(),
        cut: std::cell::Cell::new(false),
    });
    let mut feeds = server.feeds.borrow_mut();
    feeds.script.forget_database();
    feeds.outboxes.push(Rc::clone(&outbox));
    if !std::mem::replace(&mut feeds.tended, true) {
        server.host.spawn(tend(Rc::clone(server)));
    }
    outbox
}

async fn pour(outbox: &Outbox, mut writing: WriteHalf<Stream>) {
    while !outbox.cut.get() {
        let seen = outbox.filled.count();
        let bytes = outbox.bytes.borrow_mut().split();
        if bytes.is_empty() {
            outbox.filled.past(seen).await;
        } else if writing.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn take_acknowledgements(
    server: &Server,
    id: u64,
    address: SocketAddrV4,
    mut reading: ReadHalf<Stream>,
) {
    let mut reader = RequestReader::default();
    let mut input = BytesMut::new();
    while let Ok(1..) = reading.read_buf(&mut input).await {
        while let Ok(Some(args)) = reader.next(&mut input) {
            let mut node = server.node.borrow_mut();
            node.set_time(server.host.now(Clock::Wall));
            let now_s = node.now_ms / 1_000;
            if !node.replicas.iter().any(|replica| replica.session == id) {
                let port = node.clients.get(id).map_or(0, |session| session.listening_port);
                let (session, acked_at_s) = (id, now_s);
                node.replicas.push(Replica { session, port, address, acked: 0, acked_at_s });
                node.recount_good_replicas();
            }
            node.request(id, &args);
            drop(node);
            server.acknowledged.raise();
        }
    }
}

/// `replicationCron` of a master: once a second while it has replicas.
async fn tend(server: Rc<Server>) {
    for second in 1.. {
        server.host.sleep(SECOND).await;
        let mut feeds = server.feeds.borrow_mut();
        if feeds.outboxes.is_empty() {
            feeds.tended = false;
            return;
        }
        let mut node = server.node.borrow_mut();
        node.set_time(server.host.now(Clock::Wall));
        node.recount_good_replicas();
        if second % PING_EVERY_S == 0 {
            let mut ping = BytesMut::new();
            encode_request(&mut ping, &["PING"]);
            feeds.push(&mut node, &ping);
        }
        let now_s = node.now_ms / 1_000;
        let silent = |replica: &&Replica| now_s.saturating_sub(replica.acked_at_s) > TIMEOUT_S;
        for replica in node.replicas.iter().filter(silent) {
            for outbox in feeds.outboxes.iter().filter(|o| o.session == replica.session) {
                outbox.cut.set(true);
                outbox.filled.raise();
            }
        }
    }
}
