//! Lists. A list that loses its last element is deleted.

use bytes::Bytes;
use lockstorm_platform::trace::KeyChange;

use crate::call::{Call, Family, Outcome};
use crate::errors::{SYNTAX, WRONGTYPE, wrong_arity};
use crate::frame::{Reply, integer};
use crate::frame::{digits, word};
use crate::keyspace::Value;
use crate::keyspace::list::{End, List};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("lindex", lindex),
    ("linsert", linsert),
    ("llen", llen),
    ("lmove", lmove),
    ("lmpop", lmpop),
    ("lpop", lpop),
    ("lpush", lpush),
    ("lpushx", lpushx),
    ("lrange", lrange),
    ("lrem", lrem),
    ("lset", lset),
    ("ltrim", ltrim),
    ("rpop", rpop),
    ("rpoplpush", rpoplpush),
    ("rpush", rpush),
    ("rpushx", rpushx),
];

/// The list of a key.
pub fn list<'a>(call: &'a mut Call, key: &[u8]) -> Result<Option<&'a List>, Reply> {
    match call.entry(key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::List(list)) => Ok(Some(list)),
        Some(_) => Err(Reply::error(WRONGTYPE)),
    }
}

/// Changes an existing list. Propagates nothing.
fn change<T: Default>(call: &mut Call, key: &[u8], act: impl FnOnce(&mut List) -> T) -> T {
    match call.node.keyspace.db_mut(call.session.db).value_mut(key) {
        Some(Value::List(list)) => act(list),
        _ => T::default(),
    }
}

fn note(call: &mut Call, key: &[u8], change: KeyChange) {
    if let Some(key) = call.node.keyspace.db(call.session.db).shared(key) {
        call.note(key, change);
    }
}

/// Adds elements at an end of a list, which is created if it is missing; returns its length.
pub fn push_to(call: &mut Call, key: &[u8], end: End, elements: &[Bytes]) -> Result<usize, Reply> {
    let missing = list(call, key)?.is_none();
    if missing {
        call.notify_new(key);
        let db = call.node.keyspace.db_mut(call.session.db);
        db.set(key, Value::List(List::default()), None);
    }
    let length = change(call, key, |list| {
        elements.iter().for_each(|element| list.push(end, element));
        list.0.len()
    });
    note(call, key, if missing { KeyChange::Set } else { KeyChange::Changed });
    call.event(b'l', if end == End::Left { "lpush" } else { "rpush" }, key);
    Ok(length)
}

/// Takes elements from an end of an existing list.
pub fn pop_from(call: &mut Call, key: &[u8], end: End, count: usize) -> Vec<Bytes> {
    let elements = change(call, key, |list| list.pop(end, count));
    lost(call, key, if end == End::Left { "lpop" } else { "rpop" });
    elements
}

/// Records the removal of elements: publishes the event, and deletes an empty list.
fn lost(call: &mut Call, key: &[u8], event: &str) {
    call.event(b'l', event, key);
    if change(call, key, |list| list.0.is_empty()) {
        call.remove(key);
        call.event(b'g', "del", key);
    } else {
        note(call, key, KeyChange::Changed);
    }
}

/// Propagates the removal of elements.
pub fn propagate_pop(call: &mut Call, key: &[u8], end: End, count: Option<usize>) {
    let name = word(if end == End::Left { "LPOP" } else { "RPOP" });
    let key = Bytes::copy_from_slice(key);
    call.propagate(|| [name, key].into_iter().chain(count.map(digits)).collect());
}

/// LPUSH key element ...
pub fn lpush(call: &mut Call) -> Outcome {
    push(call, End::Left, false)
}

/// RPUSH key element ...
pub fn rpush(call: &mut Call) -> Outcome {
    push(call, End::Right, false)
}

/// LPUSHX key element ...
pub fn lpushx(call: &mut Call) -> Outcome {
    push(call, End::Left, true)
}

/// RPUSHX key element ...
pub fn rpushx(call: &mut Call) -> Outcome {
    push(call, End::Right, true)
}

fn push(call: &mut Call, end: End, only_old: bool) -> Outcome {
    let key = &call.args[1];
    if only_old && list(call, key)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let length = push_to(call, key, end, call.from(2))?;
    call.propagate_verbatim();
    Ok(Reply::count(length))
}

/// LPOP key [count]
pub fn lpop(call: &mut Call) -> Outcome {
    pop(call, End::Left)
}

/// RPOP key [count]
pub fn rpop(call: &mut Call) -> Outcome {
    pop(call, End::Right)
}

fn pop(call: &mut Call, end: End) -> Outcome {
    let key = &call.args[1];
    let count = match call.from(2) {
        [] => None,
        [count] => Some(number_from(count, 0, "ERR value is out of range, must be positive")?),
        _ => return Err(wrong_arity(call.command.lower)),
    };
    if list(call, key)?.is_none() {
        return Ok(if count.is_some() { Reply::NilArray } else { Reply::Nil });
    }
    if count == Some(0) {
        return Ok(Reply::Array(Vec::new()));
    }
    let mut elements = pop_from(call, key, end, count.unwrap_or(1)).into_iter().map(Reply::Bulk);
    call.propagate_verbatim();
    Ok(match count {
        None => elements.next().unwrap_or(Reply::Nil),
        Some(_) => Reply::Array(elements.collect()),
    })
}

/// An integer of at least `least`; `refusal` is the error for anything else.
pub fn number_from(text: &[u8], least: i64, refusal: &'static str) -> Result<usize, Reply> {
    let number = integer(text).filter(|number| *number >= least);
    number.and_then(|number| usize::try_from(number).ok()).ok_or(Reply::error(refusal))
}

/// LLEN key
pub fn llen(call: &mut Call) -> Outcome {
    Ok(Reply::count(list(call, &call.args[1])?.map_or(0, |list| list.0.len())))
}

/// LINDEX key index
pub fn lindex(call: &mut Call) -> Outcome {
    let index = call.integer(2);
    let Some(list) = list(call, &call.args[1])? else { return Ok(Reply::Nil) };
    let place = list.place(index?);
    Ok(place.map_or(Reply::Nil, |place| Reply::Bulk(list.0[place].clone())))
}

/// LRANGE key start stop
pub fn lrange(call: &mut Call) -> Outcome {
    let (first, last) = (call.integer(2)?, call.integer(3)?);
    let Some(list) = list(call, &call.args[1])? else { return Ok(Reply::Array(Vec::new())) };
    let elements = list.0.range(list.range(first, last));
    Ok(Reply::Array(elements.cloned().map(Reply::Bulk).collect()))
}

/// LINSERT key BEFORE | AFTER pivot element
pub fn linsert(call: &mut Call) -> Outcome {
    let behind = match &call.word(2)[..] {
        b"BEFORE" => 0,
        b"AFTER" => 1,
        _ => return Err(Reply::error(SYNTAX)),
    };
    let (key, pivot, element) = (&call.args[1], &call.args[3], &call.args[4]);
    let Some(list) = list(call, key)? else { return Ok(Reply::Integer(0)) };
    let Some(place) = list.0.iter().position(|one| one == pivot) else {
        return Ok(Reply::Integer(-1));
    };
    let length = change(call, key, |list| {
        list.0.insert(place + behind, Bytes::copy_from_slice(element));
        list.0.len()
    });
    note(call, key, KeyChange::Changed);
    call.event(b'l', "linsert", key);
    call.propagate_verbatim();
    Ok(Reply::count(length))
}

/// LSET key index element
pub fn lset(call: &mut Call) -> Outcome {
    let (key, index) = (&call.args[1], call.integer(2));
    let list = list(call, key)?.ok_or(Reply::error("ERR no such key"))?;
    let place = list.place(index?).ok_or(Reply::error("ERR index out of range"))?;
    let element = Bytes::copy_from_slice(&call.args[3]);
    change(call, key, |list| list.0[place] = element);
    note(call, key, KeyChange::Changed);
    call.event(b'l', "lset", key);
    call.propagate_verbatim();
    Ok(Reply::OK)
}

/// LREM key count element: a negative count begins at the tail, 0 means all.
pub fn lrem(call: &mut Call) -> Outcome {
    let (key, element) = (&call.args[1], &call.args[3]);
    let count = call.integer(2)?;
    if list(call, key)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let end = if count < 0 { End::Right } else { End::Left };
    let most = usize::try_from(count.unsigned_abs()).ok().filter(|count| *count > 0);
    let removed = change(call, key, |list| list.remove(element, end, most.unwrap_or(usize::MAX)));
    if removed > 0 {
        lost(call, key, "lrem");
        call.propagate_verbatim();
    }
    Ok(Reply::count(removed))
}

/// LTRIM key start stop
pub fn ltrim(call: &mut Call) -> Outcome {
    let (key, first, last) = (&call.args[1], call.integer(2)?, call.integer(3)?);
    if list(call, key)?.is_none() {
        return Ok(Reply::OK);
    }
    let trimmed = change(call, key, |list| {
        let (range, before) = (list.range(first, last), list.0.len());
        list.0.truncate(range.end);
        list.0.drain(..range.start);
        before - list.0.len()
    });
    lost(call, key, "ltrim");
    if trimmed > 0 {
        call.propagate_verbatim();
    }
    Ok(Reply::OK)
}

/// The end that a word names.
pub fn end_of(text: &[u8]) -> Result<End, Reply> {
    match &text.to_ascii_uppercase()[..] {
        b"LEFT" => Ok(End::Left),
        b"RIGHT" => Ok(End::Right),
        _ => Err(Reply::error(SYNTAX)),
    }
}

/// LMOVE source destination LEFT | RIGHT LEFT | RIGHT
pub fn lmove(call: &mut Call) -> Outcome {
    let ends = (end_of(&call.args[3])?, end_of(&call.args[4])?);
    carry(call, ends).map(|element| element.unwrap_or(Reply::Nil))
}

/// RPOPLPUSH source destination
pub fn rpoplpush(call: &mut Call) -> Outcome {
    carry(call, (End::Right, End::Left)).map(|element| element.unwrap_or(Reply::Nil))
}

/// Moves one element from the first key of the command to its second; `None` if there is none.
/// Propagated as the non-blocking form.
pub fn carry(call: &mut Call, (from, to): (End, End)) -> Result<Option<Reply>, Reply> {
    let Some(moved) = move_one(call, (from, to))? else { return Ok(None) };
    match call.command.name {
        "BLMOVE" => propagate_as(call, "LMOVE", 5),
        "BRPOPLPUSH" => propagate_as(call, "RPOPLPUSH", 3),
        _ => call.propagate_verbatim(),
    }
    Ok(Some(moved))
}

/// Moves one element and propagates nothing.
pub fn move_one(call: &mut Call, (from, to): (End, End)) -> Result<Option<Reply>, Reply> {
    let (source, target) = (&call.args[1], &call.args[2]);
    if list(call, source)?.is_none() {
        return Ok(None);
    }
    // Checked before the removal: a target of the wrong type must not cost an element.
    list(call, target)?;
    let moved = change(call, source, |list| list.pop(from, 1));
    // Before `lost`: a list that is source and target at once must not be deleted in between.
    push_to(call, target, to, &moved)?;
    lost(call, source, if from == End::Left { "lpop" } else { "rpop" });
    Ok(moved.into_iter().next().map(Reply::Bulk))
}

fn propagate_as(call: &mut Call, name: &'static str, words: usize) {
    let args = call.args;
    call.propagate(|| [word(name)].into_iter().chain(args[1..words].iter().cloned()).collect());
}

/// The arguments of LMPOP and BLMPOP: keys, an end, and the maximum number of elements.
pub struct ManyPop<'a> {
    /// The keys.
    pub keys: &'a [Bytes],
    /// The end to take from.
    pub end: End,
    /// The maximum number of elements.
    pub count: usize,
}

/// Parses the words from the number of keys on.
pub fn many_pop<'a>(call: &Call<'a>, nth: usize) -> Result<ManyPop<'a>, Reply> {
    let wrong = || Reply::error(SYNTAX);
    let keys = number_from(&call.args[nth], 1, "ERR numkeys should be greater than 0")?;
    let (keys, rest) = call.from(nth + 1).split_at_checked(keys).ok_or_else(wrong)?;
    let (end, rest) = rest.split_first().ok_or_else(wrong)?;
    let end = end_of(end)?;
    let count = match rest {
        [] => 1,
        [name, count, rest @ ..] if name.eq_ignore_ascii_case(b"COUNT") => {
            let count = number_from(count, 1, "ERR count should be greater than 0")?;
            if !rest.is_empty() {
                return Err(wrong());
            }
            count
        }
        _ => return Err(wrong()),
    };
    Ok(ManyPop { keys, end, count })
}

/// LMPOP numkeys key ... LEFT | RIGHT [COUNT count]
pub fn lmpop(call: &mut Call) -> Outcome {
    let pop = many_pop(call, 1)?;
    Ok(pop_first(call, &pop)?.unwrap_or(Reply::NilArray))
}

/// Pops from the first key that has elements.
pub fn pop_first(call: &mut Call, pop: &ManyPop) -> Result<Option<Reply>, Reply> {
    for key in pop.keys {
        if list(call, key)?.is_some() {
            return Ok(Some(pop_many(call, key, pop)));
        }
    }
    Ok(None)
}

/// Pops from an existing list; replies with its name and the elements.
pub fn pop_many(call: &mut Call, key: &[u8], pop: &ManyPop) -> Reply {
    let elements = pop_from(call, key, pop.end, pop.count);
    propagate_pop(call, key, pop.end, Some(elements.len()));
    let elements = elements.into_iter().map(Reply::Bulk).collect();
    Reply::Array(vec![Reply::bulk(key), Reply::Array(elements)])
}
