//! How a client finds the node that serves a key's slot, as clients of Redis Cluster do.
//!
//! The client fetches a map of slots from any node that replies (CLUSTER SLOTS), before the first
//! request and after each failure of a connection. A MOVED reply corrects the map; an ASK reply
//! applies to one request.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddrV4;

use bytes::Bytes;
use lockstorm_platform::host::Host;
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::permission::redirect;
use lockstorm_redis::resp_client::RespClient;
use lockstorm_redis::specification::find;

/// The prefix of the names of clusters: `redis+cluster://n1,n2,n3`.
const SCHEME: &str = "redis+cluster://";
/// The timeout of one node before the next is queried for the map.
pub(crate) const PATIENCE: Nanos = 200 * MILLISECOND;

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// The names of nodes, in the order in which they are queried for the map.
    nodes: Vec<String>,
    /// The master of each range of slots, inclusive.
    ranges: Vec<(u16, u16, SocketAddrV4)>,
    /// Slots that a node has reported as moved.
    moved: BTreeMap<u16, SocketAddrV4>,
    /// The node for the next request only.
    redirected: Option<SocketAddrV4>,
    /// The node whose connection failed: it is queried for the map last.
    doubted: Option<SocketAddrV4>,
}

/// A redirect in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// The node owns the slot now.
    Moved(u16, SocketAddrV4),
    /// Only this request goes to that node, after ASKING.
    Ask(SocketAddrV4),
}

impl Redirect {
    /// Parses `MOVED slot ip:port` and `ASK slot ip:port`.
    pub fn of(reply: &Reply) -> Option<Redirect> {
        let Reply::Error(text) = reply else { return None };
        let words: Vec<&str> = std::str::from_utf8(text).ok()?.split(' ').collect();
        match words[..] {
            ["MOVED", slot, to] => Some(Redirect::Moved(slot.parse().ok()?, to.parse().ok()?)),
            ["ASK", _, to] => Some(Redirect::Ask(to.parse().ok()?)),
            _ => None,
        }
    }
}

impl SlotMap {
    /// The map for a cluster's name; `None` for the name of one node.
    pub fn of(name: &str) -> Option<SlotMap> {
        let nodes = name.strip_prefix(SCHEME)?.split(',').map(str::to_owned).collect();
        Some(SlotMap { nodes, ..SlotMap::default() })
    }

    /// The name for the cluster of these nodes.
    pub fn name_of(nodes: &[String]) -> String {
        format!("{SCHEME}{}", nodes.join(","))
    }

    /// The name of the node that is queried first.
    pub fn first(&self) -> &str {
        self.nodes.first().map_or("", String::as_str)
    }

    /// The slot of the first key of a request, if it has one.
    pub fn slot_of(command: &str, args: &[&[u8]]) -> Option<u16> {
        let mut words = vec![Bytes::copy_from_slice(command.as_bytes())];
        words.extend(args.iter().map(|arg| Bytes::copy_from_slice(arg)));
        redirect::slot_of(find(command.as_bytes())?, &words)
    }

    /// The target of a request for this slot, and whether ASKING precedes it. The map is fetched if
    /// there is none.
    ///
    /// # Errors
    /// `NotFound` if no node knows a node that serves the slot.
    pub async fn find(
        &mut self,
        host: &Host,
        tag: u32,
        slot: u16,
    ) -> io::Result<(SocketAddrV4, bool)> {
        if let Some(to) = self.redirected.take() {
            return Ok((to, true));
        }
        if self.ranges.is_empty() {
            self.fetch(host, tag).await;
        }
        let serves =
            |(first, last, _): &&(u16, u16, SocketAddrV4)| (*first..=*last).contains(&slot);
        let known = self.ranges.iter().find(serves).map(|(_, _, node)| *node);
        let to = self.moved.get(&slot).copied().or(known);
        to.map(|to| (to, false)).ok_or(io::ErrorKind::NotFound.into())
    }

    /// Applies a redirect in a reply; returns whether there was one.
    pub fn follow(&mut self, reply: &Reply) -> bool {
        match Redirect::of(reply) {
            None => return false,
            Some(Redirect::Moved(slot, to)) => {
                self.moved.insert(slot, to);
            }
            Some(Redirect::Ask(to)) => self.redirected = Some(to),
        }
        true
    }

    /// Records that the connection to a node has failed: the map may be outdated.
    pub fn doubt(&mut self, node: Option<SocketAddrV4>) {
        *self = SlotMap { nodes: std::mem::take(&mut self.nodes), ..SlotMap::default() };
        self.doubted = node;
    }

    async fn fetch(&mut self, host: &Host, tag: u32) {
        let known = self.nodes.iter().filter_map(|name| host.resolve(name));
        let (others, doubted): (Vec<_>, Vec<_>) =
            known.partition(|node| Some(*node) != self.doubted);
        for node in others.into_iter().chain(doubted) {
            let reply = host.timeout(PATIENCE, slots(host, node, tag)).await;
            if let Some(Ok(Some(ranges))) = reply {
                self.ranges = ranges;
                return;
            }
        }
    }
}

/// CLUSTER SLOTS of one node: ranges of slots and their masters.
async fn slots(
    host: &Host,
    node: SocketAddrV4,
    tag: u32,
) -> io::Result<Option<Vec<(u16, u16, SocketAddrV4)>>> {
    let mut node = RespClient::new(host.connect(node).await?);
    node.stream.tag(tag);
    Ok(ranges(&node.request(&["CLUSTER", "SLOTS"]).await?))
}

fn ranges(reply: &Reply) -> Option<Vec<(u16, u16, SocketAddrV4)>> {
    let Reply::Array(rows) = reply else { return None };
    let range = |row: &Reply| {
        let Reply::Array(parts) = row else { return None };
        let [Reply::Integer(first), Reply::Integer(last), Reply::Array(master), ..] = &parts[..]
        else {
            return None;
        };
        let [Reply::Bulk(ip), Reply::Integer(port), ..] = &master[..] else { return None };
        let ip = std::str::from_utf8(ip).ok()?.parse().ok()?;
        let address = SocketAddrV4::new(ip, u16::try_from(*port).ok()?);
        Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, address))
    };
    rows.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use lockstorm_redis::frame::Reply;

    use super::{Redirect, SlotMap};

    #[test]
    fn a_name_with_the_scheme_is_a_cluster() {
        let nodes = ["n1", "n2"].map(str::to_owned);
        let name = SlotMap::name_of(&nodes);
        assert_eq!(name, "redis+cluster://n1,n2");
        assert_eq!(SlotMap::of(&name).map(|map| map.nodes), Some(nodes.to_vec()));
        assert_eq!(SlotMap::of("n1"), None);
    }

    #[test]
    fn replies_that_show_the_way_are_followed() {
        let to = "10.0.0.2:6379".parse().expect("an address");
        let error = |text: &'static str| Reply::error(text);
        let cases = [
            (error("MOVED 8718 10.0.0.2:6379"), Some(Redirect::Moved(8718, to))),
            (error("ASK 8718 10.0.0.2:6379"), Some(Redirect::Ask(to))),
            (error("CLUSTERDOWN The cluster is down"), None),
            (Reply::OK, None),
        ];
        for (reply, turn) in cases {
            assert_eq!(Redirect::of(&reply), turn, "{reply:?}");
        }
    }

    #[test]
    fn the_first_key_decides_about_the_slot() {
        let slot = SlotMap::slot_of;
        assert_eq!(slot("SET", &[b"lock", b"x"]), Some(8718));
        assert_eq!(slot("EVAL", &[b"return 1", b"1", b"lock"]), Some(8718));
        assert_eq!(slot("WAIT", &[b"1", b"10"]), None);
    }
}
