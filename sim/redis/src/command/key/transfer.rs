//! Keys that change their name or database: RENAME, COPY, MOVE, SWAPDB.

use bytes::Bytes;
use lockstorm_platform::trace::KeyChange;

use crate::call::{Call, Outcome};
use crate::errors::{NOT_INTEGER, SYNTAX};
use crate::frame::{Reply, integer};
use crate::keyspace::{DATABASES, Key};

const SAME: &str = "ERR source and destination objects are the same";
const NO_DATABASE: &str = "ERR DB index is out of range";

/// Runs `act` as if the session had selected another database.
fn inside<T>(call: &mut Call, db: usize, act: impl FnOnce(&mut Call) -> T) -> T {
    let own = std::mem::replace(&mut call.session.db, db);
    let result = act(call);
    call.session.db = own;
    result
}

/// RENAME key newkey
pub fn rename(call: &mut Call) -> Outcome {
    rename_if(call, false)
}

/// RENAMENX key newkey
pub fn renamenx(call: &mut Call) -> Outcome {
    rename_if(call, true)
}

fn rename_if(call: &mut Call, only_new: bool) -> Outcome {
    let (from, to) = (&call.args[1], &call.args[2]);
    let done = if only_new { Reply::Integer(1) } else { Reply::OK };
    if call.entry(from).is_none() {
        return Err(Reply::error("ERR no such key"));
    }
    if from == to {
        return Ok(if only_new { Reply::Integer(0) } else { done });
    }
    if call.entry(to).is_some() {
        if only_new {
            return Ok(Reply::Integer(0));
        }
        // Removed without a note: for clients the old value is overwritten, not deleted.
        call.node.keyspace.db_mut(call.session.db).remove(to);
    }
    let Some((key, entry)) = call.node.keyspace.db_mut(call.session.db).remove(from) else {
        return Ok(Reply::Integer(0));
    };
    let until_ms = entry.until_ms();
    call.note(key, KeyChange::Deleted);
    call.create(to, entry.value, until_ms, entry.kept);
    call.event(b'g', "rename_from", from);
    call.event(b'g', "rename_to", to);
    call.propagate_verbatim();
    Ok(done)
}

/// COPY source destination [DB db] [REPLACE]
pub fn copy(call: &mut Call) -> Outcome {
    let (from, to) = (&call.args[1], &call.args[2]);
    let (mut db, mut replaces) = (call.session.db, false);
    let mut words = call.from(3).iter();
    while let Some(option) = words.next() {
        match &option.to_ascii_uppercase()[..] {
            b"REPLACE" => replaces = true,
            b"DB" => db = database(words.next().ok_or(Reply::error(SYNTAX))?)?,
            _ => return Err(Reply::error(SYNTAX)),
        }
    }
    if call.node.cluster.is_some() && db != 0 {
        return Err(Reply::error("ERR Copying to another database is not allowed in cluster mode"));
    }
    if db == call.session.db && from == to {
        return Err(Reply::error(SAME));
    }
    let Some(entry) = call.entry(from).cloned() else { return Ok(Reply::Integer(0)) };
    let copied = inside(call, db, |call| {
        if call.entry(to).is_some() {
            if !replaces {
                return false;
            }
            call.node.keyspace.db_mut(db).remove(to);
        }
        let until_ms = entry.until_ms();
        call.create(to, entry.value, until_ms, entry.kept);
        call.event(b'g', "copy_to", to);
        true
    });
    if copied {
        call.propagate_verbatim();
    }
    Ok(Reply::Integer(i64::from(copied)))
}

/// MOVE key db
pub fn move_key(call: &mut Call) -> Outcome {
    if call.node.cluster.is_some() {
        return Err(Reply::error("ERR MOVE is not allowed in cluster mode"));
    }
    let key = &call.args[1];
    let db = database(&call.args[2])?;
    if db == call.session.db {
        return Err(Reply::error(SAME));
    }
    let Some(entry) = call.entry(key).cloned() else { return Ok(Reply::Integer(0)) };
    if inside(call, db, |call| call.entry(key).is_some()) {
        return Ok(Reply::Integer(0));
    }
    let until_ms = entry.until_ms();
    inside(call, db, |call| call.create(key, entry.value, until_ms, entry.kept));
    call.remove(key);
    call.event(b'g', "move_from", key);
    inside(call, db, |call| call.event(b'g', "move_to", key));
    call.propagate_verbatim();
    Ok(Reply::Integer(1))
}

/// The number of a database.
fn database(text: &[u8]) -> Result<usize, Reply> {
    let number = integer(text).ok_or(Reply::error(NOT_INTEGER))?;
    if i32::try_from(number).is_err() {
        let text = "ERR value is out of range, value must between -2147483648 and 2147483647";
        return Err(Reply::error(text));
    }
    let number = usize::try_from(number).ok().filter(|number| *number < DATABASES);
    number.ok_or(Reply::error(NO_DATABASE))
}

/// SWAPDB db db
pub fn swapdb(call: &mut Call) -> Outcome {
    if call.node.cluster.is_some() {
        return Err(Reply::error("ERR SWAPDB is not allowed in cluster mode"));
    }
    let number = |text: &Bytes| integer(text).and_then(|number| i32::try_from(number).ok());
    let one = number(&call.args[1]).ok_or(Reply::error("ERR invalid first DB index"))?;
    let other = number(&call.args[2]).ok_or(Reply::error("ERR invalid second DB index"))?;
    let index = |number: i32| usize::try_from(number).ok().filter(|db| *db < DATABASES);
    let (Some(one), Some(other)) = (index(one), index(other)) else {
        return Err(Reply::error(NO_DATABASE));
    };
    if one != other {
        call.node.keyspace.swap(one, other);
        call.node.usage.meter = None;
        note_swapped(call, one, other);
        note_swapped(call, other, one);
    }
    call.propagate_verbatim();
    Ok(Reply::OK)
}

/// Notes the keys that a database has after a swap, and those that it has lost.
fn note_swapped(call: &mut Call, db: usize, before: usize) {
    let keys = |db: usize| -> Vec<Key> {
        call.node.keyspace.db(db).iter().map(|(key, _)| Key::clone(key)).collect()
    };
    let (now, then) = (keys(db), keys(before));
    for key in then {
        if call.node.keyspace.db(db).get(&key).is_none() {
            call.node.note(db, key, KeyChange::Deleted);
        }
    }
    for key in now {
        call.node.clients.renew(db, &key);
        call.node.note(db, key, KeyChange::Set);
    }
}
