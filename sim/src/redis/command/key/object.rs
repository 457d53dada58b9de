//! OBJECT: how a value is kept. The forms are those that Redis would have chosen.

use crate::redis::command::{Call, Outcome};
use crate::redis::frame::{Reply, integer};
use crate::redis::keyspace::Value;

/// The longest string that Redis keeps beside its head.
const LONGEST_EMBEDDED: usize = 44;
/// Integers from 0 up to this one are shared by all who have them.
const SHARED: i64 = 10_000;

const HELP: [&str; 15] = [
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

/// OBJECT HELP
pub fn help(_: &mut Call) -> Outcome {
    Ok(Reply::Array(HELP.into_iter().map(Reply::simple).collect()))
}

/// OBJECT ENCODING key
pub fn encoding(call: &mut Call) -> Outcome {
    let entry = call.node.live(call.session, &call.args[2]);
    Ok(entry.map_or(Reply::Nil, |entry| Reply::word(encoding_of(&entry.value))))
}

/// The word that OBJECT ENCODING has for a value.
pub fn encoding_of(value: &Value) -> &'static str {
    match value {
        Value::String(text) if text.len() <= 20 && integer(text).is_some() => "int",
        Value::String(text) if text.len() <= LONGEST_EMBEDDED => "embstr",
        Value::String(_) => "raw",
        Value::Hash(hash) => hash.encoding(),
        Value::List(_) => "quicklist",
        Value::Set(set) => set.encoding(),
        Value::SortedSet(set) => set.encoding(),
    }
}

/// OBJECT REFCOUNT key
pub fn refcount(call: &mut Call) -> Outcome {
    let entry = call.node.live(call.session, &call.args[2]);
    let is_shared = |value: &Value| match value {
        Value::String(text) => integer(text).is_some_and(|number| (0..SHARED).contains(&number)),
        _ => false,
    };
    Ok(entry.map_or(Reply::Nil, |entry| {
        Reply::Integer(if is_shared(&entry.value) { i64::from(i32::MAX) } else { 1 })
    }))
}

/// OBJECT FREQ key: no policy that counts accesses can be chosen.
pub fn freq(call: &mut Call) -> Outcome {
    if call.node.live(call.session, &call.args[2]).is_none() {
        return Ok(Reply::Nil);
    }
    Err(Reply::error(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust.",
    ))
}
