//! The subcommands of CLUSTER that report nodes: INFO, NODES, SLOTS, SHARDS, REPLICAS, LINKS.

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::cluster::Cluster;
use crate::cluster::peer::ClusterNode;
use crate::command::cluster::words::{cluster, named};
use crate::frame::Reply;

/// CLUSTER INFO
pub fn info(call: &mut Call) -> Outcome {
    Ok(Reply::Bulk(cluster(call)?.info().into()))
}

/// CLUSTER NODES
pub fn nodes(call: &mut Call) -> Outcome {
    Ok(Reply::Bulk(cluster(call)?.lines().into()))
}

/// CLUSTER MYID
pub fn myid(call: &mut Call) -> Outcome {
    Ok(text(&cluster(call)?.me))
}

/// CLUSTER REPLICAS node
pub fn replicas(call: &mut Call) -> Outcome {
    let args = call.args;
    let cluster = cluster(call)?;
    let id = named(cluster, &args[2], "Unknown node")?;
    if cluster.nodes[&id].master().is_some() {
        return Err(Reply::error("ERR The specified node is not a master"));
    }
    let lines = cluster.replicas(&id).map(|peer| Reply::Bulk(cluster.line(peer).into()));
    Ok(Reply::Array(lines.collect()))
}

/// CLUSTER SLOTS: replicas without data yet are left out.
pub fn slots(call: &mut Call) -> Outcome {
    let cluster = cluster(call)?;
    let mut ranges: Vec<((u16, u16), &ClusterNode)> = Vec::new();
    for peer in cluster.nodes.values() {
        ranges.extend(peer.slots.ranges().iter().map(|range| (*range, peer)));
    }
    ranges.sort_by_key(|(range, _)| *range);
    let row = |((first, last), master): ((u16, u16), &ClusterNode)| {
        let mut row = vec![Reply::Integer(first.into()), Reply::Integer(last.into())];
        row.push(place(master));
        let ready = |peer: &&ClusterNode| !peer.has_failed() && offset(cluster, peer) > 0;
        row.extend(cluster.replicas(&master.id).filter(ready).map(place));
        Reply::Array(row)
    };
    Ok(Reply::Array(ranges.into_iter().map(row).collect()))
}

fn place(peer: &ClusterNode) -> Reply {
    Reply::Array(vec![ip(peer), port(peer), text(&peer.id), Reply::Map(Vec::new())])
}

/// CLUSTER SHARDS
pub fn shards(call: &mut Call) -> Outcome {
    let cluster = cluster(call)?;
    let shard = |master: &ClusterNode| {
        let ranges = master.slots.ranges().iter().flat_map(|(first, last)| [*first, *last]);
        let slots = ranges.map(|slot| Reply::Integer(slot.into())).collect();
        let members = [master].into_iter().chain(cluster.replicas(&master.id));
        let nodes = members.map(|peer| member(cluster, peer)).collect();
        Reply::Map(vec![
            Reply::word("slots"),
            Reply::Array(slots),
            Reply::word("nodes"),
            Reply::Array(nodes),
        ])
    };
    let masters = cluster.nodes.values().filter(|peer| peer.master().is_none());
    Ok(Reply::Array(masters.map(shard).collect()))
}

fn member(cluster: &Cluster, peer: &ClusterNode) -> Reply {
    let offset = offset(cluster, peer);
    let is_replica = peer.master().is_some();
    let health = match () {
        () if peer.has_failed() => "failed",
        () if is_replica && offset == 0 => "loading",
        () => "online",
    };
    let mut facts = vec![Reply::word("id"), text(&peer.id)];
    if peer.address.port() > 0 {
        facts.extend([Reply::word("port"), port(peer)]);
    }
    facts.extend([
        Reply::word("ip"),
        ip(peer),
        Reply::word("endpoint"),
        ip(peer),
        Reply::word("role"),
        Reply::word(if is_replica { "replica" } else { "master" }),
        Reply::word("replication-offset"),
        Reply::Integer(i64::try_from(offset).unwrap_or(i64::MAX)),
        Reply::word("health"),
        Reply::word(health),
    ]);
    Reply::Map(facts)
}

fn offset(cluster: &Cluster, peer: &ClusterNode) -> u64 {
    if peer.id == cluster.me { cluster.moment.offset } else { peer.offset }
}

fn text(word: &str) -> Reply {
    Reply::bulk(word.as_bytes())
}

fn ip(peer: &ClusterNode) -> Reply {
    Reply::Bulk(Bytes::from(peer.address.ip().to_string()))
}

fn port(peer: &ClusterNode) -> Reply {
    Reply::Integer(peer.address.port().into())
}

/// CLUSTER LINKS: the connections that the node has opened.
pub fn links(call: &mut Call) -> Outcome {
    let cluster = cluster(call)?;
    let link = |peer: &ClusterNode| {
        let since = peer.link?.since;
        Some(Reply::Map(vec![
            Reply::word("direction"),
            Reply::word("to"),
            Reply::word("node"),
            text(&peer.id),
            Reply::word("create-time"),
            Reply::Integer(since),
            Reply::word("events"),
            Reply::word("r"),
            Reply::word("send-buffer-allocated"),
            Reply::Integer(0),
            Reply::word("send-buffer-used"),
            Reply::Integer(0),
        ]))
    };
    Ok(Reply::Array(cluster.nodes.values().filter_map(link).collect()))
}
