//! A connection that listens to one channel: what is published there comes by itself.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddrV4;
use std::pin::pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use lockstorm_sim::platform::{Host, Stream};
use lockstorm_sim::redis::frame::decode::ReplyReader;
use lockstorm_sim::redis::frame::{Reply, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// See the head of this file. Messages that come while nobody asks are kept.
pub struct Subscription {
    stream: Stream,
    replies: ReplyReader,
    inbox: BytesMut,
}

impl Subscription {
    /// Subscribes to the channel at a node or Sentinel and waits until that is confirmed: what is
    /// published from then on will come.
    ///
    /// # Errors
    /// What the network reports; `InvalidData` if the subscription is refused.
    pub async fn open(
        host: &Host,
        to: SocketAddrV4,
        tag: u32,
        channel: &str,
    ) -> io::Result<Subscription> {
        let stream = host.connect(to).await?;
        stream.tag(tag);
        let (replies, inbox) = (ReplyReader::default(), BytesMut::new());
        let mut subscription = Subscription { stream, replies, inbox };
        let mut request = BytesMut::new();
        encode_request(&mut request, &["SUBSCRIBE", channel]);
        subscription.stream.write_all(&request).await?;
        match subscription.next().await? {
            Reply::Array(words) if words.first() == Some(&Reply::word("subscribe")) => {
                Ok(subscription)
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// What the network reports: nothing will come any more.
    pub async fn message(&mut self) -> io::Result<Bytes> {
        loop {
            if let Reply::Array(words) = self.next().await?
                && let [kind, _, Reply::Bulk(text)] = &words[..]
                && *kind == Reply::word("message")
            {
                return Ok(text.clone());
            }
        }
    }

    /// The next message if it has come by now.
    ///
    /// # Errors
    /// As [`Subscription::message`].
    pub async fn arrived(&mut self) -> io::Result<Option<Bytes>> {
        let mut message = pin!(self.message());
        poll_fn(|cx| match message.as_mut().poll(cx) {
            Poll::Ready(message) => Poll::Ready(message.map(Some)),
            Poll::Pending => Poll::Ready(Ok(None)),
        })
        .await
    }

    async fn next(&mut self) -> io::Result<Reply> {
        loop {
            let decoded = self.replies.next(&mut self.inbox);
            if let Some(reply) = decoded.map_err(|_| io::ErrorKind::InvalidData)? {
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.inbox).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
