//! The other end of a node's connection: who puts requests and reads replies.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::platform::Stream;
use crate::redis::frame::decode::ReplyReader;
use crate::redis::frame::{Reply, encode_request};

/// A connection to a node. It gives no time-out and tries nothing twice.
pub struct Asker {
    /// What it goes over.
    pub stream: Stream,
    replies: ReplyReader,
    inbox: BytesMut,
    /// The request that was sent last; kept for its room.
    outbox: BytesMut,
}

impl Asker {
    /// The client's end of a new connection.
    pub fn new(stream: Stream) -> Asker {
        let (inbox, outbox) = (BytesMut::new(), BytesMut::new());
        Asker { stream, replies: ReplyReader::default(), inbox, outbox }
    }

    /// Puts a request and waits for its reply.
    ///
    /// # Errors
    /// As [`Asker::reply`].
    pub async fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        self.send(words).await?;
        self.reply().await
    }

    /// Puts a request.
    ///
    /// # Errors
    /// As the connection has.
    pub async fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.outbox.clear();
        encode_request(&mut self.outbox, words);
        self.stream.write_all(&self.outbox).await
    }

    /// Waits for the next whole reply, or for what is told without a request. Nothing is lost if
    /// this is given up.
    ///
    /// # Errors
    /// As the connection has; `UnexpectedEof` if it ends before, `InvalidData` if it speaks no
    /// RESP.
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

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use crate::redis::frame::encode_request;

    #[test]
    fn a_request_is_an_array_of_bulks() {
        let words = ["REPLICAOF", "NO", "ONE"].map(str::to_owned);
        let mut request = BytesMut::new();
        encode_request(&mut request, &words);
        assert_eq!(&request[..], b"*3\r\n$9\r\nREPLICAOF\r\n$2\r\nNO\r\n$3\r\nONE\r\n");
    }
}
