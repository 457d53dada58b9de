//! DUMP and RESTORE: a value as bytes, and back.

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::errors::SYNTAX;
use crate::frame::Reply;
use crate::frame::{digits, word};
use crate::keyspace::Kept;
use crate::rdb;

/// The error for bytes that are not a dump, or for a newer version.
pub const WRONG_FOOT: &str = "ERR DUMP payload version or checksum are wrong";
const WRONG_BODY: &str = "ERR Bad data format";
const BUSYKEY: &str = "BUSYKEY Target key name already exists.";

/// DUMP key
pub fn dump(call: &mut Call) -> Outcome {
    let limits = call.node.limits;
    let entry = call.entry(&call.args[1]);
    Ok(entry.map_or(Reply::Nil, |entry| Reply::Bulk(rdb::dump(&entry.value, &limits))))
}

/// The options after the payload.
#[derive(Default)]
struct RestoreArguments {
    replaces: bool,
    is_absolute: bool,
    idle_s: Option<u64>,
}

fn options(call: &Call) -> Result<RestoreArguments, Reply> {
    let mut options = RestoreArguments::default();
    let (mut is_aged, mut is_counted) = (false, false);
    let mut at = 4;
    while at < call.args.len() {
        let has_value = at + 1 < call.args.len();
        match &call.word(at)[..] {
            b"REPLACE" => options.replaces = true,
            b"ABSTTL" => options.is_absolute = true,
            b"IDLETIME" if has_value && !is_counted => {
                at += 1;
                let wrong = Reply::error("ERR Invalid IDLETIME value, must be >= 0");
                options.idle_s = Some(u64::try_from(call.integer(at)?).map_err(|_| wrong)?);
                is_aged = true;
            }
            b"FREQ" if has_value && !is_aged => {
                at += 1;
                if !(0..=255).contains(&call.integer(at)?) {
                    return Err(Reply::error("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
                is_counted = true;
            }
            _ => return Err(Reply::error(SYNTAX)),
        }
        at += 1;
    }
    Ok(options)
}

/// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
pub fn restore(call: &mut Call) -> Outcome {
    let options = options(call)?;
    let key = &call.args[1];
    if !options.replaces && call.entry(key).is_some() {
        return Err(Reply::error(BUSYKEY));
    }
    let wrong = Reply::error("ERR Invalid TTL value, must be >= 0");
    let ttl = call.integer(2)?;
    if ttl < 0 {
        return Err(wrong);
    }
    let dump = &call.args[3];
    if !rdb::is_checked(dump) {
        return Err(Reply::error(WRONG_FOOT));
    }
    let value = rdb::dumped(dump, &call.node.limits).map_err(|_| Reply::error(WRONG_BODY))?;
    let old = options.replaces && call.node.keyspace.db(call.session.db).get(key).is_some();
    let now_ms = call.node.clock.now_ms;
    // As in C, a time beyond the maximum wraps around to the past.
    let begin = if options.is_absolute { 0 } else { now_ms.cast_signed() };
    let until_ms = (ttl > 0).then(|| u64::try_from(ttl.wrapping_add(begin)).unwrap_or(0));
    // As for every new expiry time: an expired key is not created. A replica leaves that to its
    // master.
    let is_over = until_ms.is_some_and(|until_ms| until_ms <= now_ms);
    if is_over && !call.node.startup.replays && call.node.peers.master.is_none() {
        if old && call.remove(key) {
            call.event(b'g', "del", key);
            call.propagate(|| vec![word("DEL"), key.clone()]);
        }
        return Ok(Reply::OK);
    }
    if old {
        call.node.keyspace.db_mut(call.session.db).remove(key);
    }
    call.create(key, value, until_ms, Kept::Fitted);
    if let (Some(idle_s), Some(entry)) =
        (options.idle_s, call.node.keyspace.db(call.session.db).get(key))
    {
        entry.used_ms.set(now_ms.saturating_sub(idle_s.saturating_mul(1000)));
    }
    call.event(b'g', "restore", key);
    propagate(call, until_ms.filter(|_| !options.is_absolute));
    Ok(Reply::OK)
}

/// A relative expiry time is propagated as an absolute one.
fn propagate(call: &mut Call, until_ms: Option<u64>) {
    let Some(until_ms) = until_ms else { return call.propagate_verbatim() };
    let args = call.args;
    call.propagate(|| {
        let mut words: Vec<Bytes> = args.to_vec();
        words[2] = digits(until_ms);
        words.push(word("ABSTTL"));
        words
    });
}
