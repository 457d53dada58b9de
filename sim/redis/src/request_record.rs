//! What a node records about a request if no client of the world records it: all its words, and the
//! values that it left.
//!
//! Only on platforms that require it: on the others, the records of client and node are joined.

use bytes::Bytes;
use lockstorm_platform::host::Host;
use lockstorm_platform::trace::{Event, KeyChange, Request};

use crate::effects::Change;
use crate::frame::Arguments;
use crate::keyspace::Value;
use crate::node::Node;

/// The commands of a transaction that is about to be executed; must be called before that.
pub fn transaction(host: &Host, node: &Node, id: u64, args: &Arguments) -> Option<Vec<Bytes>> {
    if !host.keeps_words() {
        return None;
    }
    let queued = node.clients.get(id)?.transaction.queued()?;
    args[0].eq_ignore_ascii_case(b"EXEC").then(|| queued.concat())
}

/// Records a request's words if it changed a key or tried to; the record precedes its effects.
pub fn record(
    host: &Host,
    node: &Node,
    id: u64,
    request: Request,
    args: &Arguments,
    transaction: Option<Vec<Bytes>>,
) {
    let changes = &node.effects.changes;
    let is_idle = changes.is_empty() && !may_be_refused(args);
    if is_idle || is_plain(args) || !host.keeps_words() {
        return;
    }
    let value = |change: &Change| match change.change {
        KeyChange::Set | KeyChange::Changed => {
            node.keyspace.db(change.db).get(&change.key).and_then(|entry| token(&entry.value))
        }
        _ => None,
    };
    let values = changes.iter().filter(|change| !change.by_node).map(value).collect();
    let words = transaction.unwrap_or_else(|| args.clone());
    let db = node.clients.get(id).map_or(0, |session| session.db);
    let db = u16::try_from(db).expect("a node has 16 databases");
    host.record(Event::Words { request, db, words, values });
}

/// Whether the request is `SET key value`: it takes no lock, and caches depend on its speed. If it
/// overwrites a lock, the key's change shows it.
fn is_plain(args: &Arguments) -> bool {
    args.len() == 3 && args[0].eq_ignore_ascii_case(b"SET")
}

/// Whether the request acquires a lock, or may be refused because the lock is held.
fn may_be_refused(args: &Arguments) -> bool {
    match &args[0][..] {
        [_, _, _] => args.len() > 3 && args[0].eq_ignore_ascii_case(b"SET"),
        name => name.eq_ignore_ascii_case(b"SETNX"),
    }
}

/// The token that identifies the owner of a key: the string under it, or the first field of the
/// hash.
fn token(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(bytes) => Some(bytes.clone()),
        Value::Hash(hash) => hash.in_order().first().map(|(field, _)| (*field).clone()),
        _ => None,
    }
}
