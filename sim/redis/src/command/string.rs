//! Strings: SET and GET in all their forms, APPEND and the commands on many keys.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::command::compare::Condition;
use crate::command::expiry::{Deadline, Unit, delete_ended};
use crate::compat::Difference;
use crate::errors::{SYNTAX, wrong_arity};
use crate::frame::{Arguments, Reply};
use crate::frame::{digits, word};
use crate::keyspace::{Entry, Kept};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("append", append),
    ("get", get),
    ("getdel", getdel),
    ("getex", getex),
    ("getset", getset),
    ("mget", mget),
    ("mset", mset),
    ("msetnx", msetnx),
    ("psetex", psetex),
    ("set", set),
    ("setex", setex),
    ("setnx", setnx),
    ("strlen", strlen),
];

/// The unit and origin of an expiry option, and the index of its number.
type ExpiryOption = (Unit, Deadline, usize);

/// The options of SET.
#[derive(Default)]
struct SetOptions<'a> {
    only_new: bool,
    only_old: bool,
    keep_end: bool,
    get: bool,
    end: Option<ExpiryOption>,
    condition: Option<Condition<'a>>,
}

/// SET key value [NX | XX | IFEQ value] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]
pub fn set(call: &mut Call) -> Outcome {
    let options = set_options(call)?;
    let until = until(call, options.end)?;
    let (key, value) = (&call.args[1], &call.args[2]);
    let old = if options.get { Some(string_or_miss(call)?) } else { None };
    let there = call.entry(key).map(Entry::until_ms);
    let answer = |reply| old.map_or(reply, |old| old.map_or(Reply::Nil, Reply::Bulk));
    let refused = match options.condition {
        Some(condition) => !condition.holds(call, key)?,
        None => (options.only_new && there.is_some()) || (options.only_old && there.is_none()),
    };
    if refused {
        return Ok(answer(Reply::Nil));
    }
    if until.is_some_and(|until| creates_nothing(call, until)) {
        if there.is_some() {
            delete_ended(call);
        }
        return Ok(answer(Reply::OK));
    }
    let kept = if options.keep_end { there.flatten() } else { None };
    call.set(key, value, until.or(kept));
    call.event(b'$', "set", key);
    if options.end.is_some() {
        call.event(b'g', "expire", key);
    }
    match options.end {
        Some(_) => propagate_set(call, value, until.unwrap_or_default()),
        None if options.get => propagate_without_get(call),
        _ => call.propagate_verbatim(),
    }
    Ok(answer(Reply::OK))
}

/// Whether a string with this expiry time is never created, as in Valkey.
fn creates_nothing(call: &Call, until_ms: u64) -> bool {
    let trusting = call.node.startup.replays || call.node.peers.master.is_some();
    let is_over = until_ms <= call.time_ms() && !trusting;
    is_over && call.node.differs(Difference::PastEndCreatesNothing)
}

fn set_options<'a>(call: &Call<'a>) -> Result<SetOptions<'a>, Reply> {
    let wrong = || Reply::error(SYNTAX);
    let mut options = SetOptions::default();
    let mut at = 3;
    while at < call.args.len() {
        match &call.word(at)[..] {
            b"NX" if !options.only_old && options.condition.is_none() => options.only_new = true,
            b"XX" if !options.only_new && options.condition.is_none() => options.only_old = true,
            b"GET" => options.get = true,
            b"KEEPTTL" if options.end.is_none() => options.keep_end = true,
            other => {
                at += 1;
                if let Some(condition) = Condition::of_set(call, other, at) {
                    let alone = !options.only_new && !options.only_old;
                    if !alone || options.condition.replace(condition).is_some() {
                        return Err(wrong());
                    }
                } else if !options.keep_end && at < call.args.len() {
                    options.end = Some(another_end(options.end, other, at).ok_or_else(wrong)?);
                } else {
                    return Err(wrong());
                }
            }
        }
        at += 1;
    }
    Ok(options)
}

/// An expiry option and the index of its number. Of the same option given twice the second counts.
fn another_end(before: Option<ExpiryOption>, option: &[u8], at: usize) -> Option<ExpiryOption> {
    let (unit, deadline) = end_option(option)?;
    let alike = before.is_none_or(|(one, other, _)| (one, other) == (unit, deadline));
    alike.then_some((unit, deadline, at))
}

fn end_option(option: &[u8]) -> Option<(Unit, Deadline)> {
    match option {
        b"EX" => Some((Unit::S, Deadline::In)),
        b"PX" => Some((Unit::Ms, Deadline::In)),
        b"EXAT" => Some((Unit::S, Deadline::At)),
        b"PXAT" => Some((Unit::Ms, Deadline::At)),
        _ => None,
    }
}

/// The expiry time of an option, in Unix milliseconds.
fn until(call: &Call, end: Option<ExpiryOption>) -> Result<Option<u64>, Reply> {
    let Some((unit, deadline, at)) = end else { return Ok(None) };
    let wrong = || {
        Reply::Error(format!("ERR invalid expire time in '{}' command", call.lower_name()).into())
    };
    let length = Some(call.integer(at)?).filter(|length| *length > 0).ok_or_else(wrong)?;
    let until = deadline.of(unit, length, call.time_ms()).ok_or_else(wrong)?;
    Ok(u64::try_from(until).ok())
}

/// Propagates a SET with an absolute expiry time, without NX and the like, since it succeeded.
fn propagate_set(call: &mut Call, value: &Bytes, until_ms: u64) {
    let key = call.args[1].clone();
    call.propagate(|| vec![word("SET"), key, value.clone(), word("PXAT"), digits(until_ms)]);
}

fn propagate_without_get(call: &mut Call) {
    let args = call.args;
    let is_get = |(at, arg): (usize, &Bytes)| at >= 3 && arg.eq_ignore_ascii_case(b"GET");
    call.propagate(|| {
        let kept = args.iter().enumerate().filter(|(at, arg)| !is_get((*at, arg)));
        kept.map(|(_, arg)| arg.clone()).collect()
    });
}

/// SETNX key value
pub fn setnx(call: &mut Call) -> Outcome {
    if call.entry(&call.args[1]).is_some() {
        return Ok(Reply::Integer(0));
    }
    call.set(&call.args[1], &call.args[2], None);
    call.event(b'$', "set", &call.args[1]);
    call.propagate_verbatim();
    Ok(Reply::Integer(1))
}

/// SETEX key seconds value
pub fn setex(call: &mut Call) -> Outcome {
    set_for(call, Unit::S)
}

/// PSETEX key milliseconds value
pub fn psetex(call: &mut Call) -> Outcome {
    set_for(call, Unit::Ms)
}

fn set_for(call: &mut Call, unit: Unit) -> Outcome {
    let until = until(call, Some((unit, Deadline::In, 2)))?;
    // Looked up first, so that an expired key is deleted, and reported as expired, before the new
    // one is set.
    call.entry(&call.args[1]);
    call.set(&call.args[1], &call.args[3], until);
    call.event(b'$', "set", &call.args[1]);
    call.event(b'g', "expire", &call.args[1]);
    let value = &call.args[3];
    propagate_set(call, value, until.unwrap_or_default());
    Ok(Reply::OK)
}

/// GET key
pub fn get(call: &mut Call) -> Outcome {
    Ok(call.string(&call.args[1])?.map_or(Reply::Nil, Reply::Bulk))
}

/// The string of the command's key, for a command that also writes.
fn string_or_miss(call: &mut Call) -> Result<Option<Bytes>, Reply> {
    let key = &call.args[1];
    let value = call.string(key)?;
    if value.is_none() {
        call.notify_miss(key);
    }
    Ok(value)
}

/// GETSET key value
pub fn getset(call: &mut Call) -> Outcome {
    let old = string_or_miss(call)?;
    call.set(&call.args[1], &call.args[2], None);
    call.event(b'$', "set", &call.args[1]);
    let args = call.args;
    call.propagate(|| vec![word("SET"), args[1].clone(), args[2].clone()]);
    Ok(old.map_or(Reply::Nil, Reply::Bulk))
}

/// GETDEL key
pub fn getdel(call: &mut Call) -> Outcome {
    let Some(old) = string_or_miss(call)? else { return Ok(Reply::Nil) };
    call.remove(&call.args[1]);
    call.event(b'g', "del", &call.args[1]);
    let args = call.args;
    call.propagate(|| vec![word("DEL"), args[1].clone()]);
    Ok(Reply::Bulk(old))
}

/// GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]
pub fn getex(call: &mut Call) -> Outcome {
    let (persists, end) = getex_options(call)?;
    let Some(value) = string_or_miss(call)? else { return Ok(Reply::Nil) };
    match until(call, end)? {
        Some(until) => super::expiry::give_end(call, i64::try_from(until).unwrap_or(i64::MAX)),
        None if persists => {
            super::expiry::persist(call)?;
        }
        None => {}
    }
    Ok(Reply::Bulk(value))
}

/// Whether the expiry time is removed, or the option that sets it.
fn getex_options(call: &Call) -> Result<(bool, Option<ExpiryOption>), Reply> {
    let wrong = || Reply::error(SYNTAX);
    let (mut persists, mut end, mut at) = (false, None, 2);
    while at < call.args.len() {
        match &call.word(at)[..] {
            b"PERSIST" if end.is_none() => persists = true,
            option if !persists && at + 1 < call.args.len() => {
                at += 1;
                end = Some(another_end(end, option, at).ok_or_else(wrong)?);
            }
            _ => return Err(wrong()),
        }
        at += 1;
    }
    Ok((persists, end))
}

/// STRLEN key
pub fn strlen(call: &mut Call) -> Outcome {
    let length = call.string(&call.args[1])?.map_or(0, |value| value.len());
    Ok(Reply::Integer(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// APPEND key value
pub fn append(call: &mut Call) -> Outcome {
    let key = &call.args[1];
    let old = call.string(key)?;
    if let Some(old) = &old {
        super::substring::check_length(call, old.len(), call.args[2].len())?;
    }
    let kept = if old.is_some() { Kept::Raw } else { Kept::Fitted };
    let value = Bytes::from([&old.unwrap_or_default()[..], &call.args[2][..]].concat());
    let length = value.len();
    call.change_kept(key, value, kept);
    call.event(b'$', "append", key);
    call.propagate_verbatim();
    Ok(Reply::count(length))
}

/// MGET key ...
pub fn mget(call: &mut Call) -> Outcome {
    let mut values = Vec::new();
    for key in call.from(1) {
        values.push(call.string(key).ok().flatten().map_or(Reply::Nil, Reply::Bulk));
    }
    Ok(Reply::Array(values))
}

/// MSET key value ...
pub fn mset(call: &mut Call) -> Outcome {
    for pair in pairs(call)?.chunks_exact(2) {
        call.entry(&pair[0]);
        call.set(&pair[0], &pair[1], None);
        call.event(b'$', "set", &pair[0]);
    }
    call.propagate_verbatim();
    Ok(Reply::OK)
}

/// MSETNX key value ...
pub fn msetnx(call: &mut Call) -> Outcome {
    let pairs = pairs(call)?;
    if pairs.iter().step_by(2).any(|key| call.entry(key).is_some()) {
        return Ok(Reply::Integer(0));
    }
    for pair in pairs.chunks_exact(2) {
        call.set(&pair[0], &pair[1], None);
        call.event(b'$', "set", &pair[0]);
    }
    call.propagate_verbatim();
    Ok(Reply::Integer(1))
}

fn pairs(call: &Call) -> Result<Arguments, Reply> {
    let pairs = call.from(1);
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity(&call.lower_name()));
    }
    Ok(pairs.to_vec())
}
