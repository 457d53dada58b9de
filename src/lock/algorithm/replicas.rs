//! The replicas of a node, as Redisson waits for them: WAIT counts those that have the last write
//! of its connection, and the client knows from INFO how many are connected.

use lockstorm_platform::host::Host;
use lockstorm_platform::time::Nanos;
use lockstorm_redis::frame::Reply;

use crate::lock::Call;
use crate::lock::client::{Client, RequestError, milliseconds};

/// What a client knows of the replicas of its node.
pub struct Replicas {
    host: Host,
    /// How many of them must have a write.
    acks: u32,
    /// Timeout of one request, ns.
    timeout: Nanos,
    /// The maximum time that WAIT waits, ns.
    within: Nanos,
    /// How many were connected; `None` if the node has to be queried.
    connected: Option<u32>,
}

impl Replicas {
    /// Nothing is known yet.
    pub fn new(host: Host, acks: u32, timeout: Nanos, within: Nanos) -> Replicas {
        Replicas { host, acks, timeout, within, connected: None }
    }

    /// Queries the node for the number of connected replicas, unless it is known.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn count(&mut self, client: &mut Client, call: Call) -> Result<(), RequestError> {
        if self.connected.is_none() {
            let args: [&[u8]; 1] = [b"replication"];
            let reply = client.request(call, self.timeout, "INFO", &args).await?;
            self.connected = Some(connected(&reply).unwrap_or(0));
        }
        Ok(())
    }

    /// Whether enough of the connected replicas have the last write. If none is connected, nobody
    /// is waited for: the write counts, as in Redisson.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn have_it(&mut self, client: &mut Client, call: Call) -> Result<bool, RequestError> {
        let connected = self.connected.unwrap_or(0);
        if connected == 0 {
            // One may connect until the next request.
            self.connected = None;
            return Ok(true);
        }
        self.host.step("waiting-for-replicas").await;
        let (count, ms) = (connected.to_string(), milliseconds(self.within));
        let args: [&[u8]; 2] = [count.as_bytes(), ms.as_bytes()];
        // The node may reply late, by up to one tick of its cron.
        let reply = client.request(call, self.within + self.timeout, "WAIT", &args).await?;
        let Reply::Integer(have) = reply else { return Ok(false) };
        if have != i64::from(connected) {
            self.connected = None;
        }
        Ok(have >= i64::from(self.acks.min(connected)))
    }
}

/// The number of replicas in the reply to INFO.
fn connected(reply: &Reply) -> Option<u32> {
    let Reply::Bulk(text) = reply else { return None };
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| line.trim().strip_prefix("connected_slaves:")?.parse().ok())
}
