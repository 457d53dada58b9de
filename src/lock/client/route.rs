//! The way to the node that a lock asks: by its name, through Sentinels, or by a cluster's slots.
//!
//! As client libraries do. The Sentinels are asked in turn where the master is, each time that a
//! connection is to be opened, and the node that they name has to say itself that it is one. Who
//! has a connection goes on using it, until its node closes it or answers READONLY, or, for who
//! listens, until Sentinels tell of another master ([`crate::lock::client::switch_master`]).

use std::io;
use std::net::SocketAddrV4;

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_redis::ask::{Asker, role};
use lockstorm_redis::frame::Reply;

use crate::lock::client::slot_map::SlotMap;

/// How names of masters begin that Sentinels know: `redis+sentinel://s1,s2,s3/mymaster`.
const SCHEME: &str = "redis+sentinel://";
/// How long one Sentinel is waited for before the next is asked.
pub const PATIENCE: Nanos = 100 * MILLISECOND;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// The node with this name; a failover may move the name.
    Name(String),
    /// The master of this name that Sentinels watch.
    Sentinels {
        /// Their names, in the order in which they are asked.
        sentinels: Vec<String>,
        /// The master's.
        master: String,
    },
    /// The nodes of a cluster, each for the slots that are its own.
    Cluster(SlotMap),
}

impl Route {
    /// The way that a node's name stands for.
    pub fn of(name: &str) -> Route {
        if let Some(slots) = SlotMap::of(name) {
            return Route::Cluster(slots);
        }
        let parts = name.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/'));
        let Some((sentinels, master)) = parts else { return Route::Name(name.to_owned()) };
        let sentinels = sentinels.split(',').map(str::to_owned).collect();
        Route::Sentinels { sentinels, master: master.to_owned() }
    }

    /// The name that stands for a master which Sentinels watch.
    pub fn name_of(sentinels: &[String], master: &str) -> String {
        format!("{SCHEME}{}/{master}", sentinels.join(","))
    }

    /// The name of whom is asked first.
    pub fn first(&self) -> &str {
        match self {
            Route::Name(name) => name,
            Route::Sentinels { sentinels, .. } => &sentinels[0],
            Route::Cluster(slots) => slots.first(),
        }
    }

    /// Where the node is now. Of a cluster it is the first.
    ///
    /// # Errors
    /// `NotFound` if there is no such name, or no Sentinel knows where the master is.
    pub async fn find(&self, host: &Host, tag: u32) -> io::Result<SocketAddrV4> {
        let nobody = || io::Error::from(io::ErrorKind::NotFound);
        let (sentinels, master) = match self {
            Route::Name(_) | Route::Cluster(_) => {
                return host.resolve(self.first()).ok_or_else(nobody);
            }
            Route::Sentinels { sentinels, master } => (sentinels, master),
        };
        for address in sentinels.iter().filter_map(|name| host.resolve(name)) {
            let asked = host.timeout(PATIENCE, ask_sentinel(host, address, tag, master));
            if let Some(Ok(Some(found))) = asked.await {
                return Ok(found);
            }
        }
        Err(nobody())
    }

    /// Opens a connection to the node that was found; one that Sentinels name is asked for its
    /// role first. Also says how many requests were made on it.
    ///
    /// # Errors
    /// What the network reports; `NotConnected` if it is no master.
    pub async fn open(&self, host: &Host, to: SocketAddrV4, tag: u32) -> io::Result<(Asker, u32)> {
        let mut node = Asker::new(host.connect(to).await?);
        if !matches!(self, Route::Sentinels { .. }) {
            return Ok((node, 0));
        }
        node.stream.tag(tag);
        match role(&node.ask(&["ROLE"]).await?) {
            Some(None) => Ok((node, 1)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether a connection is no good after this reply: a node that takes no writes is not the
    /// master any more.
    pub fn is_spent(&self, reply: &Reply) -> bool {
        let refused = matches!(reply, Reply::Error(text) if text.starts_with(b"READONLY"));
        refused && matches!(self, Route::Sentinels { .. })
    }
}

/// SENTINEL GET-MASTER-ADDR-BY-NAME of one Sentinel; `None` if it does not know the name.
async fn ask_sentinel(
    host: &Host,
    sentinel: SocketAddrV4,
    tag: u32,
    master: &str,
) -> io::Result<Option<SocketAddrV4>> {
    let mut sentinel = Asker::new(host.connect(sentinel).await?);
    sentinel.stream.tag(tag);
    let reply = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master]).await?;
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
