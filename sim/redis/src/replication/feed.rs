//! The master's side of replication: what replicas receive, and their acknowledgements.

use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::BytesMut;
use lockstorm_platform::host::Stream;
use lockstorm_platform::time::{Clock, SECOND};
use lockstorm_platform::trace::Event;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::feeds::Outbox;
use crate::frame::request::RequestReader;
use crate::node::Node;
use crate::peers::{Announced, Replica};
use crate::persistence::dump;
use crate::requests::request;
use crate::server::Server;
use crate::session::Psync;
use crate::signal::first;

/// Feeds the replica at the other end of a connection until it closes.
pub async fn feed(server: &Rc<Server>, id: u64, stream: Stream, psync: &Psync) {
    let address = stream.connection().client;
    if psync.promotes {
        // First, because the peer continues from the history that begins with this promotion.
        server.change_role(None);
    }
    let outbox = open(server, id, address, psync, &stream);
    let (reading, writing) = tokio::io::split(stream);
    first(pour(&outbox, writing), take_acknowledgements(server, id, reading)).await;
    server.feeds.borrow_mut().close(id);
    let mut node = server.node.borrow_mut();
    node.peers.replicas.retain(|replica| replica.session != id);
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
    psync: &Psync,
    stream: &Stream,
) -> Rc<Outbox> {
    let mut node = server.node.borrow_mut();
    node.set_time(server.host.now(Clock::Wall));
    let announced = node.clients.get(id).map_or(Announced::default(), |s| s.replication.announced);
    let lacking = node.history.since(&psync.id, psync.next);
    debug_assert!(
        lacking.as_ref().is_none_or(|bytes| {
            psync.next.unsigned_abs() + bytes.len() as u64 == node.history.offset + 1
        }),
        "a partial resynchronisation ends at the current offset"
    );
    let partial = lacking.is_some();
    let address = SocketAddrV4::new(announced.ip.unwrap_or(*address.ip()), announced.port);
    let now_s = node.clock.now_ms / 1_000;
    node.peers.replicas.push(Replica {
        session: id,
        address,
        online: partial,
        acked: 0,
        synced: 0,
        acked_at_s: now_s,
    });
    // No await between the snapshot and `feeds.open`: a write in between would be in neither.
    let mut feeds = server.feeds.borrow_mut();
    let bytes = match lacking {
        Some(lacking) => go_on(&mut node, announced, &lacking),
        None => {
            server.host.record(Event::Snapshot { connection: stream.connection() });
            // A new replica does not know which database the stream has selected.
            feeds.forget_database();
            begin_anew(&mut node, psync)
        }
    };
    // Not left to `tend`: until it counts again, writes would be refused for want of this replica.
    node.recount_good_replicas();
    let outbox = feeds.open(id, bytes);
    if feeds.begin_tending() {
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
fn begin_anew(node: &mut Node, psync: &Psync) -> BytesMut {
    node.figures.syncs[0] += 1;
    node.figures.syncs[2] += u64::from(&psync.id[..] != b"?");
    // Before the dump, which contains the id. A replica passes on its master's history and begins
    // none of its own.
    if node.peers.master.is_none() {
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
    while !outbox.is_cut() {
        let bytes = outbox.next().await;
        if writing.write_all(&bytes).await.is_err() {
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
            request(&mut node, id, &args);
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
        if feeds.end_tending() {
            return;
        }
        let mut node = server.node.borrow_mut();
        node.set_time(server.host.now(Clock::Wall));
        node.recount_good_replicas();
        let period = node.settings.number("repl-ping-replica-period");
        // A failover with a deadline waits for a replica to catch up, so no PING is added to the
        // stream.
        let hurries = node.peers.failover.is_some_and(|failover| failover.until_ms.is_some());
        if second % period.max(1) == 0 && node.peers.master.is_none() && !hurries {
            feeds.say(&mut node, &["PING"]);
        }
        let timeout_s = u64::try_from(node.settings.number("repl-timeout")).unwrap_or(0);
        let now_s = node.clock.now_ms / 1_000;
        for replica in &node.peers.replicas {
            if now_s.saturating_sub(replica.acked_at_s) > timeout_s {
                feeds.cut(replica.session);
            }
        }
    }
}
