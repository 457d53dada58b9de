//! The client's end of a connection to a node: sends requests and reads replies.

use std::io;
use std::net::SocketAddrV4;

use bytes::BytesMut;
use lockstorm_platform::host::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::frame::decode::ReplyReader;
use crate::frame::{Reply, encode_command, encode_request};

/// A connection to a node. It has no timeout and retries nothing.
pub struct RespClient {
    /// The underlying stream.
    pub stream: Stream,
    replies: ReplyReader,
    inbox: BytesMut,
    /// The last request; kept to reuse its allocation.
    outbox: BytesMut,
}

impl RespClient {
    /// The client's end of a new connection.
    pub fn new(stream: Stream) -> RespClient {
        let (inbox, outbox) = (BytesMut::new(), BytesMut::new());
        RespClient { stream, replies: ReplyReader::default(), inbox, outbox }
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    /// As [`RespClient::reply`].
    pub async fn request(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        self.send(words).await?;
        self.reply().await
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.outbox.clear();
        encode_request(&mut self.outbox, words);
        self.stream.write_all(&self.outbox).await
    }

    /// Sends a command with its arguments.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn send_command(&mut self, command: &str, arguments: &[&[u8]]) -> io::Result<()> {
        self.outbox.clear();
        encode_command(&mut self.outbox, command.as_bytes(), arguments);
        self.stream.write_all(&self.outbox).await
    }

    /// Waits for the next complete reply or push message. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// Those of the connection; `UnexpectedEof` if it closes early, `InvalidData` if the bytes are
    /// not RESP.
    pub async fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let reply = self.replies.next(&mut self.inbox);
            if let Some(reply) = reply.map_err(|_| io::ErrorKind::InvalidData)? {
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.inbox).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The master in a ROLE reply, `Some(None)` if the node follows none; `None` for another reply.
pub fn role(reply: &Reply) -> Option<Option<SocketAddrV4>> {
    let Reply::Array(items) = reply else { return None };
    match &items[..] {
        [Reply::Bulk(word), Reply::Bulk(ip), Reply::Integer(port), ..] if &word[..] == b"slave" => {
            let ip = std::str::from_utf8(ip).ok()?.parse().ok()?;
            Some(Some(SocketAddrV4::new(ip, u16::try_from(*port).ok()?)))
        }
        [Reply::Bulk(word), ..] if &word[..] == b"master" => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::role;
    use crate::frame::{Reply, encode_request};

    #[test]
    fn a_request_is_an_array_of_bulks() {
        let words = ["REPLICAOF", "NO", "ONE"].map(str::to_owned);
        let mut request = BytesMut::new();
        encode_request(&mut request, &words);
        assert_eq!(&request[..], b"*3\r\n$9\r\nREPLICAOF\r\n$2\r\nNO\r\n$3\r\nONE\r\n");
    }

    #[test]
    fn a_role_is_read_and_an_error_is_none() {
        let master = Reply::Array(vec![Reply::word("master"), Reply::Integer(5)]);
        let parts = vec![Reply::word("slave"), Reply::word("127.1.0.1"), Reply::Integer(7)];
        assert_eq!(role(&master), Some(None));
        assert_eq!(role(&Reply::Array(parts)), Some("127.1.0.1:7".parse().ok()));
        assert_eq!(role(&Reply::error("LOADING")), None);
    }
}
