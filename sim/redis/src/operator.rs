//! The operator: sends the commands through which faults such as a failover act, as real requests.

use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::fault::Verb;
use lockstorm_platform::host::Host;
use lockstorm_platform::order::{Operator, Order};
use lockstorm_platform::time::SECOND;
use lockstorm_platform::trace::Event;
use tokio::io::AsyncWriteExt;

use crate::frame::Reply;
use crate::resp_client::{RespClient, role};

/// Timeout of a connect, the pause between two attempts, and how often a connection without a reply
/// is tested.
const PATIENCE: u64 = SECOND;
/// What tests a connection: an empty line, which a node ignores. A machine that was started since
/// resets the connection.
const EMPTY: &[u8] = b"\r\n";

/// The operator of a world with Redis nodes.
pub fn operator() -> Operator {
    Rc::new(|order| Box::pin(carry_out(order)))
}

/// The sender of a fault's commands.
#[derive(Clone)]
struct Sender {
    host: Host,
    fault: u32,
}

/// Sends the command of an order until it gets a reply.
async fn carry_out(order: Order) {
    let words = match &order.verb {
        Verb::Failover => return fail_over(order).await,
        Verb::Evict { key } => vec!["DEBUG".to_owned(), "EVICT".to_owned(), key.clone()],
        Verb::Flush => vec!["FLUSHALL".to_owned()],
        other => panic!("'{}' is done by the world, not by a command", other.word()),
    };
    Sender { host: order.host, fault: order.fault }.send(order.node, &words).await;
}

/// Promotes a replica to master, moves the names of its old master to it, and makes the old master
/// and its other replicas follow it, as soon as they reply.
async fn fail_over(order: Order) {
    let Order { host, fault, node, others, masters, move_name, .. } = order;
    let sender = Sender { host, fault };
    // Queried before the promotion, after which the node follows no master.
    let master = sender.master_of(node).await;
    let first = || sender.host.resolve(masters.first()?);
    let Some(old) = master.or_else(first) else { return };
    sender.replicate(node, None).await;
    // After the promotion, so that no client resolves the name to a replica.
    for name in masters.iter().filter(|name| sender.host.resolve(name) == Some(old)) {
        move_name(name, node);
    }
    for other in others {
        let to_other = sender.clone();
        sender.host.spawn(async move {
            if other == old || to_other.master_of(other).await == Some(old) {
                to_other.replicate(other, Some(node)).await;
            }
        });
    }
}

impl Sender {
    /// Sends a command and waits for the reply, as `redis-cli` does: a node that stands still gets
    /// it once. It is sent again only if the connection fails, or if the node refuses it for now.
    async fn send(&self, to: SocketAddrV4, words: &[String]) -> Reply {
        loop {
            if let Some(Ok(stream)) = self.host.timeout(PATIENCE, self.host.connect(to)).await {
                let connection = stream.connection();
                self.host.record(Event::Ordered { fault: self.fault, connection });
                match self.request(RespClient::new(stream), words).await {
                    Ok(reply) if !is_for_now(&reply) => return reply,
                    _ => {}
                }
            }
            self.host.sleep(PATIENCE).await;
        }
    }

    async fn request(&self, mut node: RespClient, words: &[String]) -> std::io::Result<Reply> {
        node.send(words).await?;
        loop {
            if let Some(reply) = self.host.timeout(PATIENCE, node.reply()).await {
                return reply;
            }
            node.stream.write_all(EMPTY).await?;
        }
    }

    /// Makes a node follow a master, or become one.
    async fn replicate(&self, node: SocketAddrV4, master: Option<SocketAddrV4>) {
        let (ip, port) = match master {
            Some(master) => (master.ip().to_string(), master.port().to_string()),
            None => ("NO".to_owned(), "ONE".to_owned()),
        };
        self.send(node, &["REPLICAOF".to_owned(), ip, port]).await;
    }

    /// The master that a node reports in ROLE.
    async fn master_of(&self, node: SocketAddrV4) -> Option<SocketAddrV4> {
        role(&self.send(node, &["ROLE".to_owned()]).await).flatten()
    }
}

/// Whether an error means that the node is busy: it will accept the command later.
fn is_for_now(reply: &Reply) -> bool {
    let words: [&[u8]; 2] = [b"BUSY ", b"LOADING "];
    matches!(reply, Reply::Error(text) if words.iter().any(|word| text.starts_with(word)))
}
