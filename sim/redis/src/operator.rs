//! The operator: sends the commands through which faults such as a failover act, as real requests.

use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::fault::Verb;
use lockstorm_platform::host::Host;
use lockstorm_platform::order::{Operator, Order};
use lockstorm_platform::time::SECOND;

use crate::ask::{Asker, role};
use crate::frame::Reply;

/// Timeout of a reply, and the pause between two attempts.
const PATIENCE: u64 = SECOND;

/// The operator of a world with Redis nodes.
pub fn operator() -> Operator {
    Rc::new(|order| Box::pin(carry_out(order)))
}

/// Sends the command of an order until it gets a reply.
async fn carry_out(order: Order) {
    let words = match &order.verb {
        Verb::Failover => return fail_over(order).await,
        Verb::Evict { key } => vec!["DEBUG".to_owned(), "EVICT".to_owned(), key.clone()],
        Verb::Flush => vec!["FLUSHALL".to_owned()],
        other => panic!("'{}' is done by the world, not by a command", other.word()),
    };
    send(&order.host, order.node, &words).await;
}

/// Promotes a replica to master, moves the names of its old master to it, and makes the old master
/// and its other replicas follow it, as soon as they reply.
async fn fail_over(order: Order) {
    let Order { host, node, others, masters, move_name, .. } = order;
    // Queried before the promotion, after which the node follows no master.
    let told = master_of(&host, node).await;
    let first = || host.resolve(masters.first()?);
    let Some(old) = told.or_else(first) else { return };
    replicate(&host, node, None).await;
    // After the promotion, so that no client resolves the name to a replica.
    for name in masters.iter().filter(|name| host.resolve(name) == Some(old)) {
        move_name(name, node);
    }
    for other in others {
        let operator = host.clone();
        host.spawn(async move {
            if other == old || master_of(&operator, other).await == Some(old) {
                replicate(&operator, other, Some(node)).await;
            }
        });
    }
}

/// Sends a command until it gets a reply.
async fn send(host: &Host, to: SocketAddrV4, words: &[String]) -> Reply {
    loop {
        if let Some(Ok(reply)) = host.timeout(PATIENCE, ask(host, to, words)).await {
            return reply;
        }
        host.sleep(PATIENCE).await;
    }
}

/// Makes a node follow a master, or become one.
async fn replicate(host: &Host, node: SocketAddrV4, master: Option<SocketAddrV4>) {
    let (ip, port) = match master {
        Some(master) => (master.ip().to_string(), master.port().to_string()),
        None => ("NO".to_owned(), "ONE".to_owned()),
    };
    send(host, node, &["REPLICAOF".to_owned(), ip, port]).await;
}

/// The master that a node reports in ROLE.
async fn master_of(host: &Host, node: SocketAddrV4) -> Option<SocketAddrV4> {
    role(&send(host, node, &["ROLE".to_owned()]).await).flatten()
}

async fn ask(host: &Host, to: SocketAddrV4, words: &[String]) -> std::io::Result<Reply> {
    Asker::new(host.connect(to).await?).ask(words).await
}
