//! What a node writes down about a request where its clients write down nothing: all its words,
//! and the values that it left behind.
//!
//! Only on platforms that ask for it: on the others, client and node records are joined.

use bytes::Bytes;

use crate::platform::Host;
use crate::redis::command::{Kind, find};
use crate::redis::frame::Arguments;
use crate::redis::keyspace::Value;
use crate::redis::node::{Node, Session};
use crate::trace::{Event, KeyChange, Request};

/// The words of a request that may change keys, heard before it is executed; those of a
/// transaction when it is executed.
pub fn hear(host: &Host, session: &Session, args: &Arguments) -> Option<Vec<Bytes>> {
    if !host.keeps_words() {
        return None;
    }
    let command = find(&args[0])?;
    match (&session.queued, command.name) {
        (Some(queued), "EXEC") => Some(queued.concat()),
        (Some(_), _) => None,
        (None, "EVAL" | "EVALSHA") => Some(args.clone()),
        // What an operator does by DEBUG is seen in the key's change.
        (None, _) => (command.kind == Kind::Write).then(|| args.clone()),
    }
}

/// Writes down what was heard, before what it did.
pub fn tell(host: &Host, node: &Node, session: &Session, request: Request, heard: Vec<Bytes>) {
    let db = node.keyspace.db(session.db);
    let value = |change: &crate::redis::node::Change| match change.change {
        KeyChange::Set | KeyChange::Changed => db.get(&change.key).and_then(|e| token(&e.value)),
        _ => None,
    };
    let values = node.effects.changes.iter().filter(|change| !change.by_node).map(value).collect();
    host.record(Event::Words { request, words: heard, values });
}

/// What says whose a key is: the string under it, or the first field of the hash.
fn token(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(bytes) => Some(bytes.clone()),
        Value::Hash(hash) => hash.in_order().first().map(|(field, _)| (*field).clone()),
    }
}
