//! The master's side of replication: what replicas receive, and their acknowledgements.

use std::cell::{Cell, RefCell};
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::BytesMut;
use lockstorm_platform::host::{Host, Stream};
use lockstorm_platform::time::{Clock, SECOND};
use lockstorm_platform::trace::{Event, Origin};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::compat::Difference;
use crate::frame::encode_request;
use crate::frame::request::RequestReader;
use crate::node::{Node, Told};
use crate::peers::{Announced, Replica};
use crate::persistence::{Script, dump};
use crate::server::Server;
use crate::session::Psync;
use crate::signal::{Signal, first};

/// The replicas that a node feeds. All of them get the same stream.
#[derive(Default)]
pub struct Feeds {
    script: Script,
    outboxes: Vec<Rc<Outbox>>,
    /// Whether [`tend`] runs.
    tended: bool,
}

/// The output to one replica.
pub struct Outbox {
    session: u64,
    bytes: RefCell<BytesMut>,
    filled: Signal,
    cut: Cell<bool>,
}

impl Outbox {
    fn cut(&self) {
        self.cut.set(true);
        self.filled.raise();
    }
}

impl Feeds {
    /// Propagates the effects of a master to every replica and advances the replication offset.
    pub fn send(&mut self, host: &Host, node: &mut Node, commands: &[Told], origin: Origin) {
        if !node.history.is_kept() {
            return count(node, Script::length(commands));
        }
        let (history, before) = (node.history.number(), node.history.offset);
        let mut stream = BytesMut::new();
        self.script.write(commands, &mut stream, |told, written| {
            let offset = before + written.len() as u64;
            let origin = if told.by_node { Origin::Node } else { origin };
            host.record(Event::Propagated { history, offset, origin });
        });
        self.pass(node, &stream);
    }

    /// Requests an acknowledgement from every replica: REPLCONF GETACK.
    pub fn ask_for_acknowledgement(&mut self, node: &mut Node) {
        if !node.history.is_kept() {
            return count(node, 1);
        }
        self.say(node, &["REPLCONF", "GETACK", "*"]);
    }

    fn say(&mut self, node: &mut Node, words: &[&str]) {
        if !self.outboxes.is_empty() {
            let mut stream = BytesMut::new();
            encode_request(&mut stream, words);
            self.pass(node, &stream);
        }
    }

    /// Adds bytes to the stream of every replica.
    pub fn pass(&mut self, node: &mut Node, stream: &[u8]) {
        node.stream(stream);
        for outbox in &self.outboxes {
            outbox.bytes.borrow_mut().extend_from_slice(stream);
            outbox.filled.raise();
        }
    }

    /// Closes every replica's link: each has to resynchronise, since the history has changed.
    pub fn cut_all(&mut self) {
        self.script.forget_database();
        for outbox in self.outboxes.drain(..) {
            outbox.cut();
        }
    }

    fn cut(&self, session: u64) {
        for outbox in self.outboxes.iter().filter(|outbox| outbox.session == session) {
            outbox.cut();
        }
    }
}

/// Counts commands that reach no replica, where WAITAOF may need the offset.
fn count(node: &mut Node, commands: u64) {
    if node.differs(Difference::WaitAof) {
        node.history.count(commands);
    }
}

/// Feeds the replica at the other end of a connection until it closes.
pub async fn feed(server: &Rc<Server>, id: u64, stream: Stream, asked: &Psync) {
    let address = stream.connection().client;
    if asked.promotes {
        server.change_role(None);
    }
    let outbox = open(server, id, address, asked, &stream);
    let (reading, writing) = tokio::io::split(stream);
    first(pour(&outbox, writing), take_acknowledgements(server, id, reading)).await;
    server.feeds.borrow_mut().outboxes.retain(|other| other.session != outbox.session);
    let mut node = server.node.borrow_mut();
    node.replicas.retain(|replica| replica.session != outbox.session);
    node.recount_good_replicas();
    drop(node);
    server.acknowledged.raise();
}

/// Replies to PSYNC, with a partial or a full resynchronisation. From here on the replica gets the
/// whole stream.
fn open(
    server: &Rc<Server>,
    id: u64,
    address: SocketAddrV4,
    asked: &Psync,
    stream: &Stream,
) -> Rc<Outbox> {
    let mut node = server.node.borrow_mut();
    node.set_time(server.host.now(Clock::Wall));
    let announced = node.clients.get(id).map_or(Announced::default(), |s| s.announced);
    let lacking = node.history.since(&asked.id, asked.next);
    let partial = lacking.is_some();
    let address = SocketAddrV4::new(announced.ip.unwrap_or(*address.ip()), announced.port);
    let now_s = node.now_ms / 1_000;
    node.replicas.push(Replica {
        session: id,
        address,
        online: partial,
        acked: 0,
        synced: 0,
        acked_at_s: now_s,
    });
    let mut feeds = server.feeds.borrow_mut();
    let bytes = match lacking {
        Some(lacking) => go_on(&mut node, announced, &lacking),
        None => {
            server.host.record(Event::Snapshot { connection: stream.connection() });
            feeds.script.forget_database();
            begin_anew(&mut node, asked)
        }
    };
    node.recount_good_replicas();
    let outbox = Rc::new(Outbox {
        session: id,
        bytes: RefCell::new(bytes),
        filled: Signal::default(),
        cut: Cell::new(false),
    });
    feeds.outboxes.push(Rc::clone(&outbox));
    if !std::mem::replace(&mut feeds.tended, true) {
        server.host.spawn(tend(Rc::clone(server)));
    }
    outbox
}

/// A partial resynchronisation: only the bytes that the replica lacks.
fn go_on(node: &mut Node, announced: Announced, lacking: &[u8]) -> BytesMut {
    node.figures.syncs[1] += 1;
    let head = match announced.psync2 {
        true => format!("+CONTINUE {}\r\n", node.history.id),
        false => "+CONTINUE\r\n".to_owned(),
    };
    let mut bytes = BytesMut::from(head.as_bytes());
    bytes.extend_from_slice(lacking);
    bytes
}

/// A full resynchronisation: all keys, as of now.
fn begin_anew(node: &mut Node, asked: &Psync) -> BytesMut {
    node.figures.syncs[0] += 1;
    node.figures.syncs[2] += u64::from(&asked.id[..] != b"?");
    if node.master.is_none() {
        node.begin_stream();
    }
    let keys = dump(node);
    let (history, length) = (&node.history, keys.len());
    let head = format!("+FULLRESYNC {} {}\r\n${length}\r\n", history.id, history.offset);
    let mut bytes = BytesMut::from(head.as_bytes());
    bytes.extend_from_slice(&keys);
    bytes
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

async fn take_acknowledgements(server: &Rc<Server>, id: u64, mut reading: ReadHalf<Stream>) {
    let mut reader = RequestReader::default();
    let mut input = BytesMut::new();
    while let Ok(1..) = reading.read_buf(&mut input).await {
        while let Ok(Some(args)) = reader.next(&mut input) {
            let mut node = server.node.borrow_mut();
            node.set_time(server.host.now(Clock::Wall));
            node.request(id, &args);
            drop(node);
            server.acknowledged.raise();
        }
    }
}

/// `replicationCron` of a master: once a second while there are replicas.
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
        let period = node.settings.number("repl-ping-replica-period");
        // A failover with a deadline waits for a replica to catch up, so no PING is added to the
        // stream.
        let hurries = node.failover.is_some_and(|failover| failover.until_ms.is_some());
        if second % period.max(1) == 0 && node.master.is_none() && !hurries {
            feeds.say(&mut node, &["PING"]);
        }
        let timeout_s = u64::try_from(node.settings.number("repl-timeout")).unwrap_or(0);
        let now_s = node.now_ms / 1_000;
        for replica in &node.replicas {
            if now_s.saturating_sub(replica.acked_at_s) > timeout_s {
                feeds.cut(replica.session);
            }
        }
    }
}
