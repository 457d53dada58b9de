//! OBJECT: the encoding of a value. Encodings are those that Redis would choose.

use crate::call::{Call, Outcome};
use crate::frame::{Reply, integer};
use crate::keyspace::{Entry, Kept, Value};

/// Maximum length of a string that Redis embeds in its object header.
const MAX_EMBEDDED_LEN: usize = 44;
/// Integers from 0 up to this one are shared objects.
const SHARED: i64 = 10_000;

/// The frequency of a new key: accesses are not counted.
const FIRST_FREQUENCY: i64 = 5;

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
    Ok(entry.map_or(Reply::Nil, |entry| Reply::word(encoding_of(entry))))
}

/// The name of an entry's encoding in OBJECT ENCODING.
pub fn encoding_of(entry: &Entry) -> &'static str {
    match &entry.value {
        Value::String(text) => match entry.kept {
            Kept::Fitted if is_number(text) => "int",
            Kept::Fitted | Kept::Text if text.len() <= MAX_EMBEDDED_LEN => "embstr",
            _ => "raw",
        },
        Value::Hash(hash) => hash.encoding(),
        Value::List(_) => "quicklist",
        Value::Set(set) => set.encoding(),
        Value::SortedSet(set) => set.encoding(),
    }
}

fn is_number(text: &[u8]) -> bool {
    text.len() <= 20 && integer(text).is_some()
}

/// OBJECT REFCOUNT key: small integers are shared, unless the policy needs each one's access time.
pub fn refcount(call: &mut Call) -> Outcome {
    let tracks = call.node.config.max_memory > 0 && policy(call).ends_with(['u']);
    let is_shared = |entry: &Entry| match &entry.value {
        Value::String(text) if entry.kept == Kept::Fitted && !tracks => {
            integer(text).is_some_and(|number| (0..SHARED).contains(&number))
        }
        _ => false,
    };
    let entry = call.node.live(call.session, &call.args[2]);
    Ok(entry.map_or(Reply::Nil, |entry| {
        Reply::Integer(if is_shared(entry) { i64::from(i32::MAX) } else { 1 })
    }))
}

/// The eviction policy.
fn policy<'a>(call: &'a Call) -> &'a str {
    call.node.settings.text("maxmemory-policy")
}

/// OBJECT IDLETIME key: in whole seconds, by a clock with a resolution of a second.
pub fn idletime(call: &mut Call) -> Outcome {
    let (counts, now_ms) = (policy(call).ends_with("lfu"), call.node.clock.now_ms);
    let Some(entry) = call.node.live(call.session, &call.args[2]) else { return Ok(Reply::Nil) };
    if counts {
        return Err(Reply::error(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
             when switching between policies at runtime LRU and LFU data will take some time to \
             adjust.",
        ));
    }
    let idle_s = (now_ms / 1000).saturating_sub(entry.used_ms.get() / 1000);
    Ok(Reply::Integer(i64::try_from(idle_s).unwrap_or(i64::MAX)))
}

/// OBJECT FREQ key: as if the key had been used a while ago and never since.
pub fn freq(call: &mut Call) -> Outcome {
    let counts = policy(call).ends_with("lfu");
    if call.node.live(call.session, &call.args[2]).is_none() {
        return Ok(Reply::Nil);
    }
    if counts {
        return Ok(Reply::Integer(FIRST_FREQUENCY));
    }
    Err(Reply::error(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust.",
    ))
}
