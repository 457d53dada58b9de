//! Eviction: `maxmemory`.
//!
//! A node keeps no order of use, so the LRU and LFU policies pick at random, as the random ones do;
//! `volatile-ttl` takes the key that expires first. Random numbers come from the node's own
//! generator.

use lockstorm_platform::trace::KeyChange;

use crate::keyspace::Key;
use crate::memory::Meter;
use crate::node::Node;
use crate::session::Session;

/// Evicts keys until memory suffices; returns whether it does.
pub fn make_room(node: &mut Node, session: &mut Session) -> bool {
    if node.peers.master.is_some() {
        node.usage.meter = None;
        return true;
    }
    while used(node) > node.config.max_memory {
        if node.is_paused() {
            return true;
        }
        let Some((db, key)) = victim(node) else { return false };
        evict(node, session, db, &key);
    }
    true
}

/// The memory that keys take; all keys are measured if it was not metered so far.
pub fn used(node: &mut Node) -> u64 {
    let Node { usage, keyspace, .. } = node;
    usage.meter.get_or_insert_with(|| Meter::of(keyspace)).used(keyspace)
}

/// The next key to evict under the policy.
fn victim(node: &mut Node) -> Option<(usize, Key)> {
    let policy = node.settings.text("maxmemory-policy");
    if policy == "noeviction" {
        return None;
    }
    let (volatile, by_end) = (policy.starts_with("volatile"), policy == "volatile-ttl");
    let entries = |node: &Node| -> Vec<(usize, Key, Option<u64>)> {
        let all = node.keyspace.iter().flat_map(|(number, db)| {
            db.iter().map(move |(key, entry)| (number, Key::clone(key), entry.until_ms()))
        });
        all.filter(|(_, _, end)| !volatile || end.is_some()).collect()
    };
    let mut candidates = entries(node);
    if by_end {
        return candidates.into_iter().min_by_key(|(_, _, end)| *end).map(|(db, key, _)| (db, key));
    }
    if candidates.is_empty() {
        return None;
    }
    let (db, key, _) = candidates.swap_remove(node.dice.draw(candidates.len()));
    Some((db, key))
}

/// Removes a key, propagates that, then publishes the notification.
fn evict(node: &mut Node, session: &mut Session, db: usize, key: &[u8]) {
    debug_assert!(node.peers.master.is_none(), "a replica evicts nothing by itself");
    debug_assert!(node.keyspace.db(db).get(key).is_some(), "an evicted key exists");
    node.drop_key(db, key, KeyChange::Evicted, true);
    node.figures.evicted_keys += 1;
    let own = std::mem::replace(&mut session.db, db);
    node.notify(session, b'e', "evicted", key);
    session.db = own;
}

#[cfg(test)]
mod tests {
    use super::used;
    use crate::memory::{EMPTY, Meter};
    use crate::node::{Node, NodeConfig};
    use crate::requests;
    use bytes::Bytes;
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn query(node: &mut Node, id: u64, line: &str) -> String {
        let words: Vec<Bytes> =
            line.split(' ').map(|w| Bytes::copy_from_slice(w.as_bytes())).collect();
        requests::request(node, id, &words);
        let output = std::mem::take(&mut node.clients.get_mut(id).unwrap().replies.buffer);
        String::from_utf8_lossy(&output).into_owned()
    }

    fn node() -> (Node, u64) {
        let mut node = Node::new(NodeConfig::default(), 1_000_000, [1, 2, 3]);
        let id = node.connect([SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1); 2]);
        (node, id)
    }

    #[test]
    fn a_full_node_refuses_or_evicts_by_its_policy() {
        let (mut node, id) = node();
        node.propagation.is_consumed = true;
        for key in 0..10 {
            query(&mut node, id, &format!("SET k{key} v PX {}", 5_000 - key));
        }
        let listener = node.connect([SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2); 2]);
        query(&mut node, id, "CONFIG SET notify-keyspace-events Ee maxmemory 1050");
        query(&mut node, listener, "SUBSCRIBE __keyevent@0__:evicted");
        assert!(query(&mut node, id, "SET x y").starts_with("+OK"));
        assert!(query(&mut node, id, "SET x z").starts_with("-OOM"));
        assert_eq!(
            query(&mut node, id, "EVAL return(redis.pcall('set','x','q')) 0"),
            "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
        );
        assert_eq!(query(&mut node, id, "GET x"), "$1\r\ny\r\n");
        query(&mut node, id, "CONFIG SET maxmemory-policy volatile-ttl");
        node.effects = crate::effects::Effects::default();
        assert!(query(&mut node, id, "SET x z").starts_with("+OK"));
        assert_eq!(node.effects.commands[0].command[1], "k9");
        let pushes = query(&mut node, listener, "PING");
        assert!(pushes.contains("$2\r\nk9\r\n"), "{pushes}");
        assert!(used(&mut node) <= 1050);
    }

    #[test]
    fn the_meter_counts_alike_at_once_and_in_passing() {
        let (mut node, id) = node();
        assert_eq!(used(&mut node), EMPTY);
        for line in [
            "SET k v",
            "HSET h f v g w",
            "APPEND k more",
            "HDEL h f",
            "SET n 17 EX 5",
            "PERSIST n",
            "SELECT 3",
            "SET k v",
            "DEL k",
            "RENAME n m",
            "FLUSHDB",
            "SET a b",
        ] {
            query(&mut node, id, line);
            let keyspace = node.keyspace.clone();
            assert_eq!(used(&mut node), Meter::of(&keyspace).used(&keyspace), "{line}");
        }
    }
}
