//! Which requests a node of a cluster serves itself: `getNodeByQuery`.

use std::net::SocketAddrV4;

use bytes::Bytes;

use crate::cluster::Cluster;
use crate::cluster::peer::ClusterNode;
use crate::cluster::slots::of_key;
use crate::frame::Reply;
use crate::node::Node;
use crate::session::Session;
use crate::specification::Command;
use crate::specification::flags::Flags;
use crate::specification::keys::keys_of;

/// Why a node does not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectRefusal {
    /// Its keys are in different slots.
    CrossSlot,
    /// Some of its keys are in a slot under migration and not here.
    Unstable,
    /// The cluster is down.
    Down,
    /// The cluster is down, and the request writes.
    DownForWrites,
    /// No node serves its slot.
    Unbound,
    /// Another node, at this address, serves the slot.
    Moved(u16, SocketAddrV4),
    /// The node at this address may have the key, although this one still serves the slot.
    Ask(u16, SocketAddrV4),
}

impl RedirectRefusal {
    /// The client's reply.
    pub(crate) fn reply(self) -> Reply {
        Reply::error(match self {
            RedirectRefusal::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot",
            RedirectRefusal::Unstable => "TRYAGAIN Multiple keys request during rehashing of slot",
            RedirectRefusal::Down => "CLUSTERDOWN The cluster is down",
            RedirectRefusal::DownForWrites => {
                "CLUSTERDOWN The cluster is down and only accepts read commands"
            }
            RedirectRefusal::Unbound => "CLUSTERDOWN Hash slot not served",
            RedirectRefusal::Moved(slot, to) => {
                return Reply::Error(format!("MOVED {slot} {to}").into());
            }
            RedirectRefusal::Ask(slot, to) => {
                return Reply::Error(format!("ASK {slot} {to}").into());
            }
        })
    }

    /// The reply to a script.
    fn in_script(self) -> Reply {
        Reply::error(match self {
            RedirectRefusal::Down => {
                "ERR Script attempted to execute a command while the cluster is down"
            }
            RedirectRefusal::DownForWrites => {
                "ERR Script attempted to execute a write command while the cluster is down and \
                 readonly"
            }
            _ => "ERR Script attempted to access a non local key in a cluster node",
        })
    }
}

/// Whether the cluster refused the request: EXEC returns such a refusal unchanged.
pub(crate) fn is_from_cluster(refusal: &Reply) -> bool {
    let Reply::Error(text) = refusal else { return false };
    let heads = ["MOVED ", "ASK ", "CROSSSLOT ", "CLUSTERDOWN ", "TRYAGAIN "];
    heads.iter().any(|head| text.starts_with(head.as_bytes()))
}

/// Refuses a request that another node must serve; `flags` are those of the request.
pub(crate) fn check(
    node: &Node,
    session: &Session,
    command: &Command,
    args: &[Bytes],
    flags: Flags,
) -> Result<(), Reply> {
    let Some(cluster) = node.cluster.as_deref().filter(|_| !session.replication.from_master) else {
        return Ok(());
    };
    let slot = match (command.name, session.transaction.queued()) {
        ("EXEC", Some(queued)) => {
            let parts = queued.iter().filter_map(|args| Some((node.command_of(args)?, &args[..])));
            decide(cluster, node, session, &parts.collect::<Vec<_>>(), flags)
        }
        _ => decide(cluster, node, session, &[(command, args)], flags),
    };
    slot.map(|_| ()).map_err(RedirectRefusal::reply)
}

/// The same for a command of a script. A script with a shebang line keeps to one slot, unless its
/// flags allow more.
pub(crate) fn check_in_script(
    node: &Node,
    session: &mut Session,
    command: &Command,
    args: &[Bytes],
) -> Result<(), Reply> {
    let Some(cluster) = node.cluster.as_deref().filter(|_| !session.replication.from_master) else {
        return Ok(());
    };
    let slot = decide(cluster, node, session, &[(command, args)], command.flags);
    let slot = slot.map_err(RedirectRefusal::in_script)?;
    let Some(script) = session.script.as_mut().filter(|script| script.keeps_to_slot) else {
        return Ok(());
    };
    if slot.is_some() && script.slot.is_some() && slot != script.slot {
        let text = "ERR Script attempted to access keys that do not hash to the same slot";
        return Err(Reply::error(text));
    }
    script.slot = script.slot.or(slot);
    Ok(())
}

/// The slot of the first key of a request.
pub fn slot_of(command: &Command, args: &[Bytes]) -> Option<u16> {
    keys_of(command, args).first().map(|place| of_key(&args[place.at]))
}

/// Shard channels belong to slots, but are not keys.
fn is_about_shard_channels(command: &Command) -> bool {
    matches!(command.name, "SSUBSCRIBE" | "SUNSUBSCRIBE" | "SPUBLISH")
}

/// The keys of a request, and their state.
struct Keys {
    slot: u16,
    several: bool,
    present: usize,
    missing: usize,
}

/// Checks all keys; `None` if there is none.
fn look(node: &Node, parts: &[(&Command, &[Bytes])]) -> Result<Option<Keys>, RedirectRefusal> {
    let named = parts.iter().flat_map(|(command, args)| {
        keys_of(command, args).into_iter().map(|place| (&args[place.at], *command))
    });
    let mut keys: Option<Keys> = None;
    let mut first = None;
    for (key, command) in named {
        let slot = of_key(key);
        let begun = || Keys { slot, several: false, present: 0, missing: 0 };
        let keys = keys.get_or_insert_with(begun);
        if keys.slot != slot {
            return Err(RedirectRefusal::CrossSlot);
        }
        keys.several |= *first.get_or_insert(key) != key;
        let entry = node.keyspace.db(0).get(key);
        match entry.is_some_and(|entry| !entry.is_expired(node.clock.now_ms)) {
            _ if is_about_shard_channels(command) => {}
            true => keys.present += 1,
            false => keys.missing += 1,
        }
    }
    Ok(keys)
}

fn decide(
    cluster: &Cluster,
    node: &Node,
    session: &Session,
    parts: &[(&Command, &[Bytes])],
    flags: Flags,
) -> Result<Option<u16>, RedirectRefusal> {
    let writes = flags.intersects(Flags::WRITE);
    let Some(keys) = look(node, parts).map_err(|refusal| first_of(cluster, parts, refusal))? else {
        return Ok(None);
    };
    let slot = keys.slot;
    let owner = cluster.owner(slot).ok_or(RedirectRefusal::Unbound)?;
    let about_channels = parts.iter().any(|(command, _)| is_about_shard_channels(command));
    if !cluster.is_up && !about_channels {
        match (cluster.rules.reads_when_down, writes) {
            (false, _) => return Err(RedirectRefusal::Down),
            (true, true) => return Err(RedirectRefusal::DownForWrites),
            (true, false) => {}
        }
    }
    let own = cluster.myself();
    if let Some(to) = cluster.migrating.get(&slot).filter(|_| owner.id == own.id)
        && keys.missing > 0
    {
        let to = cluster.nodes.get(to).map_or(own.address, |peer| peer.address);
        let ask = RedirectRefusal::Ask(slot, to);
        return Err(if keys.present > 0 { RedirectRefusal::Unstable } else { ask });
    }
    if cluster.importing.contains_key(&slot) && session.routing.asking {
        let misses = keys.several && keys.missing > 0;
        return if misses { Err(RedirectRefusal::Unstable) } else { Ok(Some(slot)) };
    }
    let reads = session.routing.reads_here || about_channels;
    let is_replica_of = |owner: &ClusterNode| own.master() == Some(&owner.id);
    if owner.id == own.id || (reads && !writes && is_replica_of(owner)) {
        return Ok(Some(slot));
    }
    Err(RedirectRefusal::Moved(slot, owner.address))
}

/// Whether the first key's slot has an owner is checked before the other keys.
fn first_of(
    cluster: &Cluster,
    parts: &[(&Command, &[Bytes])],
    refusal: RedirectRefusal,
) -> RedirectRefusal {
    let slot = parts.iter().find_map(|(command, args)| slot_of(command, args));
    match slot.and_then(|slot| cluster.owner(slot)) {
        None => RedirectRefusal::Unbound,
        Some(_) => refusal,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use bytes::Bytes;

    use crate::cluster::slots::SlotSet;
    use crate::cluster::{ClusterConfig, Member, name_of};
    use crate::node::{Node, NodeConfig};
    use crate::requests;

    fn address(n: u8) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, n), 6379)
    }

    /// Node n of a cluster: 1 serves the slot of `b` (3300), 2 that of `a` (15495), 3 follows 2.
    fn node(n: u8) -> Node {
        let member = |n, master, slots| Member { address: address(n), master, slots };
        let members = vec![
            member(1, None, SlotSet::range((0, 9_999))),
            member(2, None, SlotSet::range((10_000, 16_383))),
            member(3, Some(address(2)), SlotSet::default()),
        ];
        let cluster = Some(ClusterConfig { members, node_timeout_ms: 1_000 });
        let mut node = Node::new(NodeConfig { cluster, ..NodeConfig::default() }, 1_000, [1, 2, 3]);
        node.begin_cluster(address(n), "");
        node.connect([address(n); 2]);
        node
    }

    /// Sends requests line by line; the reply follows an arrow, `<1>` is the id of node 1.
    #[track_caller]
    fn check(mut node: Node, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (request, answer) = line.split_once(" -> ").expect("a request and its answer");
            let named = |word: &str| match word {
                "<1>" => name_of(address(1)).to_string(),
                "<2>" => name_of(address(2)).to_string(),
                other => other.replace('_', " "),
            };
            let words: Vec<Bytes> = request.split(' ').map(|word| named(word).into()).collect();
            requests::request(&mut node, 1, &words);
            let session = node.clients.get_mut(1).expect("it is connected");
            let reply =
                String::from_utf8_lossy(&std::mem::take(&mut session.replies.buffer)).into_owned();
            assert_eq!(reply.trim_end().replace("\r\n", " "), answer, "{request}");
        }
    }

    #[test]
    fn keys_of_others_are_theirs() {
        check(
            node(1),
            "GET b -> $-1
             GET a -> -MOVED 15495 10.0.0.2:6379
             MGET b a -> -CROSSSLOT Keys in request don't hash to the same slot
             PING -> +PONG
             MULTI -> +OK
             GET b -> +QUEUED
             GET a -> -MOVED 15495 10.0.0.2:6379
             EXEC -> -EXECABORT Transaction discarded because of previous errors.
             SSUBSCRIBE a -> -MOVED 15495 10.0.0.2:6379
             SPUBLISH a x -> -MOVED 15495 10.0.0.2:6379",
        );
    }

    #[test]
    fn a_replica_answers_reads_after_readonly() {
        check(
            node(3),
            "GET a -> -MOVED 15495 10.0.0.2:6379
             READONLY -> +OK
             GET a -> $-1
             GET b -> -MOVED 3300 10.0.0.1:6379
             SET a 1 -> -MOVED 15495 10.0.0.2:6379
             MULTI -> +OK
             GET a -> +QUEUED
             EXEC -> *1 $-1
             EVAL return_redis.call('get','a') 1 a -> $-1
             READWRITE -> +OK
             GET a -> -MOVED 15495 10.0.0.2:6379",
        );
    }

    #[test]
    fn a_slot_that_moves_is_served_at_both_ends() {
        check(
            node(1),
            "SET b 1 -> +OK
             CLUSTER SETSLOT 3300 MIGRATING <2> -> +OK
             GET b -> $1 1
             GET {b}x -> -ASK 3300 10.0.0.2:6379
             MGET b {b}x -> -TRYAGAIN Multiple keys request during rehashing of slot
             MGET {b}y {b}x -> -ASK 3300 10.0.0.2:6379
             CLUSTER SETSLOT 3300 NODE <2> -> -ERR Can't assign hashslot 3300 to a different node \
             while I still hold keys for this hash slot.
             DEL b -> :1
             CLUSTER SETSLOT 3300 NODE <2> -> +OK
             GET b -> -MOVED 3300 10.0.0.2:6379",
        );
        check(
            node(2),
            "CLUSTER SETSLOT 3300 IMPORTING <1> -> +OK
             GET b -> -MOVED 3300 10.0.0.1:6379
             ASKING -> +OK
             GET b -> $-1
             GET b -> -MOVED 3300 10.0.0.1:6379
             ASKING -> +OK
             MGET b {b}x -> -TRYAGAIN Multiple keys request during rehashing of slot
             ASKING -> +OK
             SET b 2 -> +OK
             CLUSTER SETSLOT 3300 NODE <2> -> +OK
             GET b -> $1 2",
        );
    }

    #[test]
    fn who_reads_from_a_replica_is_listed_so_until_a_reset() {
        let mut node = node(3);
        for (request, flags) in [("READONLY", "flags=r "), ("RESET", "flags=N ")] {
            requests::request(&mut node, 1, &[Bytes::from(request)]);
            requests::request(&mut node, 1, &[Bytes::from("CLIENT"), Bytes::from("INFO")]);
            let session = node.clients.get_mut(1).expect("it is connected");
            let reply = String::from_utf8_lossy(&session.replies.buffer.split()).into_owned();
            assert!(reply.contains(flags), "{request}: {reply}");
        }
    }

    #[test]
    fn a_node_of_no_cluster_knows_nothing_of_slots() {
        let mut node = Node::new(NodeConfig::default(), 1_000, [1, 2, 3]);
        node.connect([address(1); 2]);
        let off = "-ERR This instance has cluster support disabled";
        check(
            node,
            &format!(
                "MGET a b -> *2 $-1 $-1\nCLUSTER INFO -> {off}\nASKING -> {off}\nSELECT 1 -> +OK"
            ),
        );
    }
}
