//! Whoever types a command at a node: faults such as a failover act through real requests.

use std::net::SocketAddrV4;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::platform::Host;
use crate::redis::frame::Reply;
use crate::redis::frame::decode::decode_reply;
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
    let Reply::Array(role) = send(host, node, &["ROLE".to_owned()]).await else { return None };
    let [_, Reply::Bulk(ip), Reply::Integer(port), ..] = &role[..] else { return None };
    let ip = std::str::from_utf8(ip).ok()?.parse().ok()?;
    Some(SocketAddrV4::new(ip, u16::try_from(*port).ok()?))
}

async fn ask(host: &Host, to: SocketAddrV4, words: &[String]) -> std::io::Result<Reply> {
    let mut stream = host.connect(to).await?;
    stream.write_all(&request(words)).await?;
    let mut input = BytesMut::new();
    loop {
        let reply = decode_reply(&mut input).map_err(|_| std::io::ErrorKind::InvalidData)?;
        if let Some(reply) = reply {
            return Ok(reply);
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn request(words: &[String]) -> Vec<u8> {
    let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulks.collect::<String>()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::request;

    #[test]
    fn a_request_is_an_array_of_bulks() {
        let words = ["REPLICAOF", "NO", "ONE"].map(str::to_owned);
        assert_eq!(request(&words), b"*3\r\n$9\r\nREPLICAOF\r\n$2\r\nNO\r\n$3\r\nONE\r\n");
    }
}
