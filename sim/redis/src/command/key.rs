//! Keys of any type: DEL, EXISTS, TYPE, KEYS, RANDOMKEY.
//!
//! - `transfer`: renaming, copying, moving to another database
//! - `dump`: a value as bytes, and back
//! - `object`: the encoding of a value

pub mod dump;
pub mod object;
pub mod transfer;

use crate::call::{Call, Family, Outcome, container};
use crate::frame::Reply;
use crate::glob::matches;
use crate::keyspace::Key;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("copy", transfer::copy),
    ("del", del),
    ("dump", dump::dump),
    ("exists", exists),
    ("keys", keys),
    ("move", transfer::move_key),
    ("object", container),
    ("object|encoding", object::encoding),
    ("object|freq", object::freq),
    ("object|help", object::help),
    ("object|idletime", object::idletime),
    ("object|refcount", object::refcount),
    ("randomkey", randomkey),
    ("rename", transfer::rename),
    ("renamenx", transfer::renamenx),
    ("restore", dump::restore),
    ("swapdb", transfer::swapdb),
    ("touch", touch),
    ("type", kind),
    ("unlink", del),
];

/// DEL key ... and UNLINK key ...
pub fn del(call: &mut Call) -> Outcome {
    let mut removed = 0;
    for key in call.from(1) {
        if call.entry(key).is_some() && call.remove(key) {
            call.event(b'g', "del", key);
            removed += 1;
        }
    }
    if removed > 0 {
        call.propagate_verbatim();
    }
    Ok(Reply::Integer(removed))
}

/// EXISTS key ...: a key that is named twice counts twice.
pub fn exists(call: &mut Call) -> Outcome {
    let there = call.from(1).iter().filter(|key| call.glance(key).is_some()).count();
    Ok(Reply::count(there))
}

/// TOUCH key ...: the same, and updates the access time of each.
pub fn touch(call: &mut Call) -> Outcome {
    let there = call.from(1).iter().filter(|key| call.entry(key).is_some()).count();
    Ok(Reply::count(there))
}

/// TYPE key
pub fn kind(call: &mut Call) -> Outcome {
    let kind = call.glance(&call.args[1]).map_or("none", |entry| entry.value.kind());
    Ok(Reply::simple(kind))
}

/// KEYS pattern: in the order of the keys, where Redis has no order.
pub fn keys(call: &mut Call) -> Outcome {
    let db = call.node.keyspace.db(call.session.db);
    let keys: Vec<Key> = db.iter().map(|(key, _)| Key::clone(key)).collect();
    let mut found = Vec::new();
    for key in keys {
        if matches(&call.args[1], &key) && call.node.live(call.session, &key).is_some() {
            found.push(Reply::bulk(&key));
        }
    }
    Ok(Reply::Array(found))
}

/// RANDOMKEY: an expired key is deleted and another one is picked.
pub fn randomkey(call: &mut Call) -> Outcome {
    // A replica hides expired keys without deleting them, and may have no others.
    for _ in 0..100 {
        let size = call.node.keyspace.db(call.session.db).len();
        let place = call.node.dice.draw(size);
        let key = call.node.keyspace.db(call.session.db).iter().nth(place);
        let Some(key) = key.map(|(key, _)| Key::clone(key)) else { break };
        if call.node.live(call.session, &key).is_some() {
            return Ok(Reply::bulk(&key));
        }
    }
    Ok(Reply::Nil)
}
