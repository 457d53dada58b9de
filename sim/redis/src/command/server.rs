//! Commands about the node: INFO, TIME, CONFIG, DBSIZE, FLUSHALL, DEBUG.
//!
//! `DEBUG EVICT key` is our own: it evicts a key as a node beyond `maxmemory` would.

use lockstorm_platform::trace::KeyChange;

use crate::call::{Call, Family, Outcome};
use crate::command::introspection::{help, unknown_form};
use crate::errors::SYNTAX;
use crate::frame::digits;
use crate::frame::{Reply, integer};
use crate::keyspace::{DATABASES, Key};
use crate::persistence::dump;
use crate::session::After;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("bgrewriteaof", bgrewriteaof),
    ("bgsave", bgsave),
    ("dbsize", dbsize),
    ("debug", debug),
    ("flushall", flushall),
    ("flushdb", flushdb),
    ("lastsave", lastsave),
    ("save", save),
    ("shutdown", shutdown),
    ("time", time),
];

/// TIME
pub fn time(call: &mut Call) -> Outcome {
    let time_us = call.node.time_us(call.session);
    let (seconds, micros) = (time_us / 1_000_000, time_us % 1_000_000);
    Ok(Reply::Array(vec![Reply::Bulk(digits(seconds)), Reply::Bulk(digits(micros))]))
}

/// DBSIZE: expired keys count until they are deleted.
pub fn dbsize(call: &mut Call) -> Outcome {
    let size = call.node.keyspace.db(call.session.db).len();
    Ok(Reply::Integer(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// FLUSHALL [ASYNC | SYNC]: if there are save points, the empty data set is saved at once, even
/// during a background save (`flushAllDataAndResetRDB`).
pub fn flushall(call: &mut Call) -> Outcome {
    let outcome = flush(call, 0..DATABASES)?;
    let node = &mut *call.node;
    node.saving.begun = None;
    if !node.save_points().is_empty() && !node.startup.replays {
        // The snapshot already contains this command's changes; `publish` counts them only later.
        let own = node.effects.changes.iter().filter(|change| !change.by_node).count();
        node.saving.flushed = Some((dump(node), node.saving.changes + own as u64));
    }
    Ok(outcome)
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
    call.propagate_verbatim();
    Ok(Reply::OK)
}

/// DEBUG: SLEEP, SET-ACTIVE-EXPIRE, ERROR, LOG, and our own EVICT.
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
        (b"SLEEP", [seconds]) => {
            let seconds = std::str::from_utf8(seconds).ok().and_then(|text| text.parse().ok());
            call.session.after = After::Sleep(nanoseconds(seconds.unwrap_or(0.0)));
            Ok(Reply::OK)
        }
        (b"SET-ACTIVE-EXPIRE", [switch]) => {
            call.node.active_expire_disabled = integer(switch).is_none_or(|switch| switch == 0);
            Ok(Reply::OK)
        }
        (b"ERROR", [text]) => Err(Reply::Error(bytes::Bytes::copy_from_slice(text))),
        (b"LOG", [_]) | (b"QUICKLIST-PACKED-THRESHOLD", [_]) => Ok(Reply::OK),
        (b"HELP", []) => help(call),
        _ => Err(unknown_form("DEBUG", &call.args[1])),
    }
}

/// The seconds of DEBUG SLEEP in nanoseconds, at most a day.
fn nanoseconds(seconds: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(seconds.min(86_400.0))
        .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0))
}

/// LASTSAVE
pub fn lastsave(call: &mut Call) -> Outcome {
    Ok(Reply::Integer(i64::try_from(call.node.saving.saved_s).unwrap_or(i64::MAX)))
}

/// SAVE: the server replies when it is done.
pub fn save(call: &mut Call) -> Outcome {
    call.session.after = After::Save { in_background: false };
    Ok(Reply::SILENCE)
}

/// BGSAVE [SCHEDULE]
pub fn bgsave(call: &mut Call) -> Outcome {
    let schedules = match call.from(1) {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"SCHEDULE") => true,
        _ => return Err(Reply::error(SYNTAX)),
    };
    let saving = &mut call.node.saving;
    if saving.begun.is_some() {
        return Err(Reply::error("ERR Background save already in progress"));
    }
    // In a transaction too: a snapshot taken now would contain half of it.
    if schedules && saving.is_busy() || call.session.transaction.is_running() {
        saving.scheduled[0] = true;
        call.session.after = After::InTurn;
        return Ok(Reply::simple("Background saving scheduled"));
    }
    if saving.is_busy() {
        return Err(Reply::error(
            "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE \
             SCHEDULE in order to schedule a BGSAVE whenever possible.",
        ));
    }
    call.session.after = After::Save { in_background: true };
    Ok(Reply::simple("Background saving started"))
}

/// BGREWRITEAOF
pub fn bgrewriteaof(call: &mut Call) -> Outcome {
    let saving = &mut call.node.saving;
    if saving.rewriting.is_some() {
        return Err(Reply::error("ERR Background append only file rewriting already in progress"));
    }
    if saving.is_busy() || call.session.transaction.is_running() {
        saving.scheduled[1] = true;
        call.session.after = After::InTurn;
        return Ok(Reply::simple("Background append only file rewriting scheduled"));
    }
    call.session.after = After::Rewrite;
    Ok(Reply::simple("Background append only file rewriting started"))
}

/// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]: the process stops without a reply.
pub fn shutdown(call: &mut Call) -> Outcome {
    let words: Vec<Vec<u8>> = call.from(1).iter().map(|word| word.to_ascii_uppercase()).collect();
    let says = |word: &[u8]| words.iter().any(|said| said == word);
    let known =
        |word: &Vec<u8>| matches!(&word[..], b"NOSAVE" | b"SAVE" | b"NOW" | b"FORCE" | b"ABORT");
    let others = words.iter().any(|word| word != b"ABORT");
    let contradicts = says(b"ABORT") && others || says(b"SAVE") && says(b"NOSAVE");
    if !words.iter().all(known) || contradicts {
        return Err(Reply::error(SYNTAX));
    }
    if says(b"ABORT") {
        return Err(Reply::error("ERR No shutdown in progress."));
    }
    let saves = says(b"SAVE") || !says(b"NOSAVE") && !call.node.save_points().is_empty();
    call.session.after = After::ShutDown { saves };
    Ok(Reply::SILENCE)
}
