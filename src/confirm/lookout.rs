//! Records the roles of real nodes, and what they see of each other: it polls or subscribes, on a
//! separate connection that no client knows of.

use std::cell::Cell;
use std::io;
use std::net::SocketAddrV4;

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::{Event, Sight};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::resp_client::{RespClient, role};
use lockstorm_redis::sentinel::{SIGHTS, sight};
use lockstorm_world::engine::live::outside;

use crate::confirm::pending::PendingRequests;

/// The interval between two polls.
const AGAIN: Nanos = 20 * MILLISECOND;

/// The master that a server follows, if it is known.
pub type Followed = Cell<Option<SocketAddrV4>>;

/// Records what a Sentinel publishes about masters, until it closes the connection.
pub async fn of_sentinel(host: Host, server: SocketAddrV4) {
    // An error means that the server is down.
    let _ = listen(&host, server).await;
}

async fn listen(host: &Host, server: SocketAddrV4) -> io::Result<()> {
    let mut server = RespClient::new(outside::connect(server).await?);
    server.send(&[&["SUBSCRIBE"][..], &SIGHTS.map(|(channel, _)| channel)].concat()).await?;
    loop {
        let Reply::Array(parts) = server.reply().await? else { continue };
        if let [_, Reply::Bulk(channel), Reply::Bulk(text)] = &parts[..] {
            let (channel, text) = (str_of(channel), str_of(text));
            if let Some(event) = sight(channel, text) {
                host.record(event);
            }
        }
    }
}

/// Records which master a node follows and, in a cluster, which masters it has marked as failed,
/// until the connection breaks. A node that begins to follow a master takes over its data set
/// without a report of the changes: a gap.
pub async fn of_node(
    host: Host,
    server: SocketAddrV4,
    is_in_cluster: bool,
    followed: &Followed,
    pending: &PendingRequests,
) {
    let _ = look(&host, server, is_in_cluster, followed, pending).await;
}

async fn look(
    host: &Host,
    server: SocketAddrV4,
    is_in_cluster: bool,
    followed: &Followed,
    pending: &PendingRequests,
) -> io::Result<()> {
    let mut server = RespClient::new(outside::connect(server).await?);
    let mut failed = Vec::new();
    loop {
        if let Some(master) = role(&server.request(&["ROLE"]).await?)
            && followed.replace(master) != master
        {
            host.record(Event::Role { master });
            if master.is_some() {
                pending.miss();
            }
        }
        if is_in_cluster && let Reply::Bulk(nodes) = server.request(&["CLUSTER", "NODES"]).await? {
            let now = failed_masters(str_of(&nodes));
            for master in now.iter().copied().filter(|master| !failed.contains(master)) {
                host.record(Event::Saw { sight: Sight::Down, master });
            }
            failed = now;
        }
        host.sleep(AGAIN).await;
    }
}

/// The masters that CLUSTER NODES marks as failed.
fn failed_masters(nodes: &str) -> Vec<SocketAddrV4> {
    let failed = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (address, flags) = (words.next()?, words.next()?);
        let has = |flag| flags.split(',').any(|known| known == flag);
        let is_failed = has("master") && has("fail");
        is_failed.then(|| address.split('@').next()?.parse().ok()).flatten()
    };
    nodes.lines().filter_map(failed).collect()
}

fn str_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::failed_masters;

    #[test]
    fn a_failed_master_is_distinguished_from_a_suspected_one_and_from_a_replica() {
        let line = |host: u8, flags: &str| {
            format!("id{host} 127.1.0.{host}:7000@17000 {flags} - 0 0 1 connected\n")
        };
        let text = line(1, "myself,master")
            + &line(2, "master,fail")
            + &line(3, "master,fail?")
            + &line(4, "slave,fail");
        let failed: Vec<String> = failed_masters(&text).iter().map(ToString::to_string).collect();
        assert_eq!(failed, ["127.1.0.2:7000"]);
    }
}
