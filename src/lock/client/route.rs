//! How a lock finds its node: by its name, through Sentinels, or by a cluster's slots.
//!
//! It works like client libraries. Each time that a connection is opened, the Sentinels are queried
//! in turn for the master, and the node that they name must confirm its role. A client keeps using
//! an open connection until its node closes it. If Sentinels named the node, a READONLY reply ends
//! the connection too and, for a subscriber, so does news of another master
//! ([`crate::lock::client::switch_master`]).

use std::io;
use std::net::SocketAddrV4;

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::resp_client::{RespClient, role};

use crate::lock::client::slot_map::SlotMap;

/// The prefix of the names of masters that Sentinels watch: `redis+sentinel://s1,s2,s3/mymaster`.
const SCHEME: &str = "redis+sentinel://";
/// The timeout of one Sentinel before the next is queried.
pub const PATIENCE: Nanos = 100 * MILLISECOND;

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// The node with this name; a failover may move the name.
    Name(String),
    /// The master of this name that Sentinels watch.
    Sentinels {
        /// Their names, in the order in which they are queried.
        sentinels: Vec<String>,
        /// The master's name.
        master: String,
    },
    /// The nodes of a cluster, each for its own slots.
    Cluster(SlotMap),
}

impl Route {
    /// The route for a node's name.
    pub fn of(name: &str) -> Route {
        if let Some(slots) = SlotMap::of(name) {
            return Route::Cluster(slots);
        }
        let parts = name.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/'));
        let Some((sentinels, master)) = parts else { return Route::Name(name.to_owned()) };
        let sentinels = sentinels.split(',').map(str::to_owned).collect();
        Route::Sentinels { sentinels, master: master.to_owned() }
    }

    /// The name for a master that Sentinels watch.
    pub fn name_of(sentinels: &[String], master: &str) -> String {
        format!("{SCHEME}{}/{master}", sentinels.join(","))
    }

    /// The name of the host that is queried first.
    pub fn first(&self) -> &str {
        match self {
            Route::Name(name) => name,
            Route::Sentinels { sentinels, .. } => &sentinels[0],
            Route::Cluster(slots) => slots.first(),
        }
    }

    /// The current address of the node. For a cluster, that of the first node.
    ///
    /// # Errors
    /// `NotFound` if there is no such name, or no Sentinel knows the master's address.
    pub async fn find(&self, host: &Host, tag: u32) -> io::Result<SocketAddrV4> {
        let nobody = || io::Error::from(io::ErrorKind::NotFound);
        let (sentinels, master) = match self {
            Route::Name(_) | Route::Cluster(_) => {
                return host.resolve(self.first()).ok_or_else(nobody);
            }
            Route::Sentinels { sentinels, master } => (sentinels, master),
        };
        for address in sentinels.iter().filter_map(|name| host.resolve(name)) {
            let reply = host.timeout(PATIENCE, query_sentinel(host, address, tag, master));
            if let Some(Ok(Some(found))) = reply.await {
                return Ok(found);
            }
        }
        Err(nobody())
    }

    /// Opens a connection to the node that was found. A node named by Sentinels is first queried
    /// for its role. Also returns the number of requests made on the connection.
    ///
    /// # Errors
    /// What the network reports; `NotConnected` if the node is not a master.
    pub async fn open(
        &self,
        host: &Host,
        to: SocketAddrV4,
        tag: u32,
    ) -> io::Result<(RespClient, u32)> {
        let mut node = RespClient::new(host.connect(to).await?);
        if !matches!(self, Route::Sentinels { .. }) {
            return Ok((node, 0));
        }
        node.stream.tag(tag);
        match role(&node.request(&["ROLE"]).await?) {
            Some(None) => Ok((node, 1)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether a connection is unusable after this reply: a node that rejects writes is no longer
    /// the master.
    pub fn is_spent(&self, reply: &Reply) -> bool {
        let refused = matches!(reply, Reply::Error(text) if text.starts_with(b"READONLY"));
        refused && matches!(self, Route::Sentinels { .. })
    }
}

/// SENTINEL GET-MASTER-ADDR-BY-NAME of one Sentinel; `None` if it does not know the name.
async fn query_sentinel(
    host: &Host,
    sentinel: SocketAddrV4,
    tag: u32,
    master: &str,
) -> io::Result<Option<SocketAddrV4>> {
    let mut sentinel = RespClient::new(host.connect(sentinel).await?);
    sentinel.stream.tag(tag);
    let reply = sentinel.request(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master]).await?;
    let Reply::Array(words) = reply else { return Ok(None) };
    let [Reply::Bulk(ip), Reply::Bulk(port)] = &words[..] else { return Ok(None) };
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let ip = text(ip).and_then(|ip| ip.parse().ok());
    let port = text(port).and_then(|port| port.parse().ok());
    Ok(ip.zip(port).map(|(ip, port)| SocketAddrV4::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::Route;

    #[test]
    fn a_name_with_the_scheme_is_a_way_through_sentinels() {
        let sentinels = ["s1", "s2"].map(str::to_owned);
        let name = Route::name_of(&sentinels, "mymaster");
        assert_eq!(name, "redis+sentinel://s1,s2/mymaster");
        let master = "mymaster".to_owned();
        assert_eq!(Route::of(&name), Route::Sentinels { sentinels: sentinels.to_vec(), master });
        assert_eq!(Route::of("n1"), Route::Name("n1".to_owned()));
        assert_eq!(Route::of("redis+cluster://n1,n2").first(), "n1");
    }
}
