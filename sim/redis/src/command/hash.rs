//! Hashes. A hash that loses its last field is deleted.

use bytes::Bytes;
use lockstorm_platform::trace::KeyChange;

use crate::call::{Call, Family, Outcome};
use crate::command::number::{NOT_FINITE, NOT_FLOAT};
use crate::errors::{WRONGTYPE, wrong_arity};
use crate::extended::Extended;
use crate::frame::{Reply, integer};
use crate::frame::{digits, word};
use crate::keyspace::Value;
use crate::keyspace::hash::Hash;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("hdel", hdel),
    ("hexists", hexists),
    ("hget", hget),
    ("hgetall", hgetall),
    ("hincrby", hincrby),
    ("hincrbyfloat", hincrbyfloat),
    ("hkeys", hkeys),
    ("hlen", hlen),
    ("hmget", hmget),
    ("hmset", hmset),
    ("hrandfield", super::hrandfield::hrandfield),
    ("hset", hset),
    ("hsetnx", hsetnx),
    ("hstrlen", hstrlen),
    ("hvals", hvals),
];

fn count(length: usize) -> Reply {
    Reply::Integer(i64::try_from(length).unwrap_or(i64::MAX))
}

fn bulk_or_nil(value: Option<&Bytes>) -> Reply {
    value.cloned().map_or(Reply::Nil, Reply::Bulk)
}

/// HGET key field
pub fn hget(call: &mut Call) -> Outcome {
    let field = &call.args[2];
    Ok(bulk_or_nil(call.hash(&call.args[1])?.and_then(|hash| hash.get(field))))
}

/// HMGET key field ...
pub fn hmget(call: &mut Call) -> Outcome {
    let fields = call.from(2);
    let hash = call.hash(&call.args[1])?;
    let value = |field: &Bytes| bulk_or_nil(hash.and_then(|hash| hash.get(field)));
    Ok(Reply::Array(fields.iter().map(value).collect()))
}

/// HEXISTS key field
pub fn hexists(call: &mut Call) -> Outcome {
    let field = &call.args[2];
    let there = call.hash(&call.args[1])?.is_some_and(|hash| hash.get(field).is_some());
    Ok(Reply::Integer(i64::from(there)))
}

/// HLEN key
pub fn hlen(call: &mut Call) -> Outcome {
    Ok(count(call.hash(&call.args[1])?.map_or(0, Hash::len)))
}

/// HGETALL key
pub fn hgetall(call: &mut Call) -> Outcome {
    match list(call, |field, value| [Some(field), Some(value)])? {
        Reply::Array(pairs) => Ok(Reply::Map(pairs)),
        other => Ok(other),
    }
}

/// HKEYS key
pub fn hkeys(call: &mut Call) -> Outcome {
    list(call, |field, _| [Some(field), None])
}

/// HVALS key
pub fn hvals(call: &mut Call) -> Outcome {
    list(call, |_, value| [None, Some(value)])
}

fn list(call: &mut Call, part: fn(Bytes, Bytes) -> [Option<Bytes>; 2]) -> Outcome {
    let fields = call.hash(&call.args[1])?.map(Hash::in_order).unwrap_or_default();
    let parts = fields.into_iter().flat_map(|(f, v)| part(f.clone(), v.clone()));
    Ok(Reply::Array(parts.flatten().map(Reply::Bulk).collect()))
}

/// HSET key field value ...
pub fn hset(call: &mut Call) -> Outcome {
    set_fields(call).map(Reply::Integer)
}

/// HMSET key field value ...
pub fn hmset(call: &mut Call) -> Outcome {
    set_fields(call).map(|_| Reply::OK)
}

fn set_fields(call: &mut Call) -> Result<i64, Reply> {
    let pairs = call.from(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity(&call.lower_name()));
    }
    let mut added = 0;
    write(call, "hset", |hash| {
        for pair in pairs.chunks_exact(2) {
            added += i64::from(hash.set(&pair[0], Bytes::copy_from_slice(&pair[1])));
        }
    })?;
    call.propagate_verbatim();
    Ok(added)
}

/// HSETNX key field value
pub fn hsetnx(call: &mut Call) -> Outcome {
    let (field, value) = (&call.args[2], &call.args[3]);
    if call.hash(&call.args[1])?.is_some_and(|hash| hash.get(field).is_some()) {
        return Ok(Reply::Integer(0));
    }
    write(call, "hset", |hash| {
        hash.set(field, Bytes::copy_from_slice(value));
    })?;
    call.propagate_verbatim();
    Ok(Reply::Integer(1))
}

/// HINCRBY key field increment
pub fn hincrby(call: &mut Call) -> Outcome {
    let by = call.integer(3)?;
    let field = &call.args[2];
    let old = match call.hash(&call.args[1])?.and_then(|hash| hash.get(field)) {
        Some(text) => integer(text).ok_or(Reply::error("ERR hash value is not an integer"))?,
        None => 0,
    };
    let overflow = Reply::error("ERR increment or decrement would overflow");
    let sum = old.checked_add(by).ok_or(overflow)?;
    write(call, "hincrby", |hash| {
        hash.set(field, digits(sum));
    })?;
    call.propagate_verbatim();
    Ok(Reply::Integer(sum))
}

/// HINCRBYFLOAT key field increment: propagated as the sum.
pub fn hincrbyfloat(call: &mut Call) -> Outcome {
    let (key, field) = (&call.args[1], &call.args[2]);
    let by = Extended::read(&call.args[3]).ok_or(Reply::error(NOT_FLOAT))?;
    if !by.is_finite() {
        return Err(Reply::error("ERR value is NaN or Infinity"));
    }
    let old = match call.hash(key)?.and_then(|hash| hash.get(field)) {
        Some(text) => Extended::read(text).ok_or(Reply::error("ERR hash value is not a float"))?,
        None => Extended::ZERO,
    };
    let sum = old.plus(by);
    if !sum.is_finite() {
        return Err(Reply::error(NOT_FINITE));
    }
    let sum = Bytes::from(sum.text());
    write(call, "hincrbyfloat", |hash| {
        hash.set(field, sum.clone());
    })?;
    call.propagate(|| vec![word("HSET"), key.clone(), field.clone(), sum.clone()]);
    Ok(Reply::Bulk(sum))
}

/// HSTRLEN key field
pub fn hstrlen(call: &mut Call) -> Outcome {
    let field = &call.args[2];
    let value = call.hash(&call.args[1])?.and_then(|hash| hash.get(field));
    Ok(count(value.map_or(0, Bytes::len)))
}

/// HDEL key field ...
pub fn hdel(call: &mut Call) -> Outcome {
    let (key, fields) = (&call.args[1], call.from(2));
    if call.hash(key)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let db = call.node.keyspace.db_mut(call.session.db);
    let Some(Value::Hash(hash)) = db.value_mut(key) else { return Ok(Reply::Integer(0)) };
    let removed = fields.iter().filter(|field| hash.remove(field)).count();
    let (emptied, shared) = (hash.is_empty(), db.shared(key));
    if removed == 0 {
        return Ok(count(0));
    }
    call.event(b'h', "hdel", key);
    if emptied {
        call.remove(key);
        call.event(b'g', "del", key);
    } else if let Some(key) = shared {
        call.note(key, KeyChange::Changed);
    }
    call.propagate_verbatim();
    Ok(count(removed))
}

/// Changes the hash of the command's key, which is created if it is missing, and publishes `event`.
fn write(call: &mut Call, event: &str, change: impl FnOnce(&mut Hash)) -> Result<(), Reply> {
    let key = &call.args[1];
    let missing = call.entry(key).is_none();
    call.notify_new(key);
    let db = call.node.keyspace.db_mut(call.session.db);
    if missing {
        db.set(key, Value::Hash(Hash::default()), None);
    }
    match db.value_mut(key) {
        Some(Value::Hash(hash)) => change(hash),
        _ => return Err(Reply::error(WRONGTYPE)),
    }
    if let Some(key) = db.shared(key) {
        call.note(key, if missing { KeyChange::Set } else { KeyChange::Changed });
    }
    call.event(b'h', event, key);
    Ok(())
}
