//! MEMORY, LATENCY, SLOWLOG: diagnosis of a node.
//!
//! A command takes no time of its own in a world, so nothing is ever slow and the slow log stays
//! empty; memory is that of the model in `memory`.

use crate::call::{Call, Family, Outcome, container};
use crate::command::introspection::{help, unknown_form};
use crate::errors::{NOT_INTEGER, SYNTAX};
use crate::frame::{Reply, integer};
use crate::memory::{EMPTY, size_of};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("latency", container),
    ("latency|doctor", latency_doctor),
    ("latency|graph", graph),
    ("latency|help", help),
    ("latency|histogram", histogram),
    ("latency|history", no_entries),
    ("latency|latest", no_entries),
    ("latency|reset", latency_reset),
    ("memory", container),
    ("memory|doctor", memory_doctor),
    ("memory|help", help),
    ("memory|malloc-stats", malloc_stats),
    ("memory|purge", done),
    ("memory|stats", stats),
    ("memory|usage", usage),
    ("slowlog", container),
    ("slowlog|get", slowlog_get),
    ("slowlog|help", help),
    ("slowlog|len", slowlog_len),
    ("slowlog|reset", done),
];

fn verbatim(text: &'static str) -> Outcome {
    Ok(Reply::Verbatim(*b"txt", bytes::Bytes::from_static(text.as_bytes())))
}

/// Commands without any effect.
pub fn done(_: &mut Call) -> Outcome {
    Ok(Reply::OK)
}

/// LATENCY LATEST, LATENCY HISTORY event
pub fn no_entries(_: &mut Call) -> Outcome {
    Ok(Reply::Array(Vec::new()))
}

/// LATENCY RESET [event ...]
pub fn latency_reset(_: &mut Call) -> Outcome {
    Ok(Reply::Integer(0))
}

/// LATENCY DOCTOR
pub fn latency_doctor(_: &mut Call) -> Outcome {
    verbatim("Latency is not monitored: commands take no time of their own here.\n")
}

/// LATENCY GRAPH event
pub fn graph(call: &mut Call) -> Outcome {
    let text = [&b"ERR No samples available for event '"[..], &call.args[2], b"'"].concat();
    Err(Reply::Error(text.into()))
}

/// LATENCY HISTOGRAM [command ...]
pub fn histogram(_: &mut Call) -> Outcome {
    Ok(Reply::Map(Vec::new()))
}

/// MEMORY DOCTOR
pub fn memory_doctor(_: &mut Call) -> Outcome {
    verbatim("Memory is counted by a model: there is nothing to diagnose.\n")
}

/// MEMORY MALLOC-STATS
pub fn malloc_stats(_: &mut Call) -> Outcome {
    verbatim("Stats not supported for the current allocator")
}

/// MEMORY STATS: the figures of the model.
pub fn stats(call: &mut Call) -> Outcome {
    let used = crate::command::info::used_memory(call.node);
    let keys = call.node.keyspace.iter().map(|(_, db)| db.len()).sum::<usize>();
    let of_keys = used - EMPTY;
    let per_key = of_keys.checked_div(keys as u64).unwrap_or(0);
    let count = |number: u64| Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    Ok(Reply::Map(vec![
        Reply::word("peak.allocated"),
        count(used),
        Reply::word("total.allocated"),
        count(used),
        Reply::word("startup.allocated"),
        count(EMPTY),
        Reply::word("keys.count"),
        Reply::count(keys),
        Reply::word("keys.bytes-per-key"),
        count(per_key),
        Reply::word("dataset.bytes"),
        count(of_keys),
    ]))
}

/// MEMORY USAGE key [SAMPLES count]
pub fn usage(call: &mut Call) -> Outcome {
    let mut options = call.from(3);
    while let [word, count, rest @ ..] = options {
        if !word.eq_ignore_ascii_case(b"SAMPLES") {
            return Err(Reply::error(SYNTAX));
        }
        if integer(count).ok_or(Reply::error(NOT_INTEGER))? < 0 {
            return Err(Reply::error(SYNTAX));
        }
        options = rest;
    }
    if !options.is_empty() {
        return Err(Reply::error(SYNTAX));
    }
    let key = &call.args[2];
    let Some(entry) = call.entry(key) else { return Ok(Reply::Nil) };
    let size = size_of(key, &entry.value);
    Ok(Reply::Integer(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// SLOWLOG GET [count]
pub fn slowlog_get(call: &mut Call) -> Outcome {
    match call.from(2) {
        [] => no_entries(call),
        [count] if integer(count).is_some_and(|count| count >= -1) => no_entries(call),
        [_] => Err(Reply::error("ERR count should be greater than or equal to -1")),
        _ => Err(unknown_form("SLOWLOG", &call.args[1])),
    }
}

/// SLOWLOG LEN
pub fn slowlog_len(_: &mut Call) -> Outcome {
    Ok(Reply::Integer(0))
}
