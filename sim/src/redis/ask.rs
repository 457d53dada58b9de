//! One request on a connection that is nobody's yet, and its reply: how an operator, and who looks
//! for a master or a map of slots, ask a node.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::platform::Stream;
use crate::redis::frame::decode::decode_reply;
use crate::redis::frame::{Reply, encode_request};

/// Sends the words and waits for the whole reply; what comes behind it is dropped.
///
/// # Errors
/// As the connection has; `UnexpectedEof` if it ends before, `InvalidData` if it speaks no RESP.
pub async fn ask(stream: &mut Stream, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
    let (mut request, mut inbox) = (BytesMut::new(), BytesMut::new());
    encode_request(&mut request, words);
    stream.write_all(&request).await?;
    loop {
        let reply = decode_reply(&mut inbox).map_err(|_| io::ErrorKind::InvalidData)?;
        if let Some(reply) = reply {
            return Ok(reply);
        }
        if stream.read_buf(&mut inbox).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
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
