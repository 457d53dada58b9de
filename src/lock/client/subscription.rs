//! A connection that is subscribed to one channel: published messages arrive as pushes.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddrV4;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use lockstorm_platform::host::Host;
use lockstorm_redis::frame::Reply;
use lockstorm_redis::resp_client::RespClient;

/// See the module documentation. Messages that arrive between calls are kept.
pub struct Subscription(RespClient);

impl Subscription {
    /// Subscribes to the channel at a node or Sentinel and waits for the confirmation: messages
    /// published from then on will arrive.
    ///
    /// # Errors
    /// What the network reports; `InvalidData` if the subscription is refused.
    pub async fn open(
        host: &Host,
        to: SocketAddrV4,
        tag: u32,
        channel: &str,
    ) -> io::Result<Subscription> {
        let mut node = RespClient::new(host.connect(to).await?);
        node.stream.tag(tag);
        match node.request(&["SUBSCRIBE", channel]).await? {
            Reply::Array(words) if words.first() == Some(&Reply::word("subscribe")) => {
                Ok(Subscription(node))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// What the network reports: no more messages will arrive.
    pub async fn message(&mut self) -> io::Result<Bytes> {
        loop {
            if let Reply::Array(words) = self.0.reply().await?
                && let [kind, _, Reply::Bulk(text)] = &words[..]
                && *kind == Reply::word("message")
            {
                return Ok(text.clone());
            }
        }
    }

    /// The next message if it has already arrived.
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
}
