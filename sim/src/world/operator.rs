//! Whoever types a command at a node: faults such as a failover act through real requests.

use std::net::SocketAddrV4;

use crate::platform::Host;
use crate::redis::ask::{Asker, role};
use crate::redis::frame::Reply;
use crate::time::SECOND;

/// How long the operator waits for an answer, and between two tries.
const PATIENCE: u64 = SECOND;

/// Sends a command until it is answered.
pub async fn send(host: &Host, to: SocketAddrV4, words: &[String]) -> Reply {
    loop {
        if let Some(Ok(reply)) = host.timeout(PATIENCE, ask(host, to, words)).await {
            return reply;
        }
        host.sleep(PATIENCE).await;
    }
}

/// Makes a node follow a master, or be one.
pub async fn replicate(host: &Host, node: SocketAddrV4, master: Option<SocketAddrV4>) {
    let (ip, port) = match master {
        Some(master) => (master.ip().to_string(), master.port().to_string()),
        None => ("NO".to_owned(), "ONE".to_owned()),
    };
    send(host, node, &["REPLICAOF".to_owned(), ip, port]).await;
}

/// The master that a node says it follows.
pub async fn master_of(host: &Host, node: SocketAddrV4) -> Option<SocketAddrV4> {
    role(&send(host, node, &["ROLE".to_owned()]).await).flatten()
}

async fn ask(host: &Host, to: SocketAddrV4, words: &[String]) -> std::io::Result<Reply> {
    Asker::new(host.connect(to).await?).ask(words).await
}
