//! Commands about the node: INFO, TIME, CONFIG, DBSIZE, FLUSHALL, DEBUG.
//!
//! `DEBUG EVICT key` is our own: it drops a key as a node that runs out of memory would.

use crate::redis::command::{Call, Family, Outcome, SYNTAX, digits, unknown_subcommand};
use crate::redis::frame::Reply;
use crate::redis::keyspace::{DATABASES, Key};
use crate::redis::node::Node;
use crate::trace::KeyChange;

/// What is here, by name.
pub const FAMILY: Family = &[
    ("dbsize", dbsize),
    ("debug", debug),
    ("flushall", flushall),
    ("flushdb", flushdb),
    ("time", time),
];

/// TIME
pub fn time(call: &mut Call) -> Outcome {
    let (seconds, micros) = (call.node.now_us / 1_000_000, call.node.now_us % 1_000_000);
    Ok(Reply::Array(vec![Reply::Bulk(digits(seconds)), Reply::Bulk(digits(micros))]))
}

/// DBSIZE: expired keys count until they are deleted.
pub fn dbsize(call: &mut Call) -> Outcome {
    let size = call.node.keyspace.db(call.session.db).len();
    Ok(Reply::Integer(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// FLUSHALL [ASYNC | SYNC]
pub fn flushall(call: &mut Call) -> Outcome {
    flush(call, 0..DATABASES)
}

/// FLUSHDB [ASYNC | SYNC]
pub fn flushdb(call: &mut Call) -> Outcome {
    let db = call.session.db;
    flush(call, db..db + 1)
}

fn flush(call: &mut Call, databases: std::ops::Range<usize>) -> Outcome {
    match call.args {
        [_] => {}
        [_, _] if matches!(&call.word(1)[..], b"SYNC" | b"ASYNC") => {}
        _ => return Err(Reply::error(SYNTAX)),
    }
    for db in databases {
        let keys: Vec<Key> = call.node.keyspace.db(db).iter().map(|(k, _)| k.clone()).collect();
        for key in keys {
            call.node.keyspace.db_mut(db).remove(&key);
            call.node.note(db, key, KeyChange::Deleted);
        }
    }
    call.tell_verbatim();
    Ok(Reply::OK)
}

/// DEBUG EVICT key
pub fn debug(call: &mut Call) -> Outcome {
    match (&call.word(1)[..], call.from(2)) {
        (b"EVICT", [key]) => {
            let there = call.entry(key).is_some();
            let db = call.session.db;
            let gone = there && call.node.drop_key(db, key, KeyChange::Evicted, false);
            if gone {
                call.event(b'e', "evicted", key);
            }
            Ok(Reply::Integer(i64::from(gone)))
        }
        _ => Err(unknown_subcommand("DEBUG", &call.args[1])),
    }
}

/// Evicts keys until memory is enough; whether it is.
pub fn make_room(_: &mut Node) -> bool {
    true
}
