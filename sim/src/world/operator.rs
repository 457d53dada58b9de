//! Whoever types a command at a node: faults such as a failover act through real requests.

use std::net::SocketAddrV4;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::platform::Host;
use crate::time::SECOND;

/// How long the operator waits for an answer, and between two tries.
const PATIENCE: u64 = SECOND;

/// Sends a command until something is answered.
pub async fn send(host: &Host, to: SocketAddrV4, words: &[String]) {
    while host.timeout(PATIENCE, ask(host, to, words)).await.is_none_or(|answer| answer.is_err()) {
        host.sleep(PATIENCE).await;
    }
}

async fn ask(host: &Host, to: SocketAddrV4, words: &[String]) -> std::io::Result<()> {
    let mut stream = host.connect(to).await?;
    stream.write_all(&request(words)).await?;
    stream.read_u8().await.map(|_| ())
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
