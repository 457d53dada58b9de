//! Blocking list commands, and what all blocking commands share.
//!
//! Each tries once when it is called. If it finds nothing, the session blocks with a [`Pop`] and is
//! retried whenever one of its keys is created; in a transaction or a script nothing blocks.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::command::list::{
    carry, end_of, list, many_pop, move_one, pop_first, pop_from, pop_many, propagate_pop,
};
use crate::extended::Extended;
use crate::frame::Reply;
use crate::frame::word;
use crate::keyspace::Key;
use crate::keyspace::list::End;
use crate::session::{Block, Pop, Wanted};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("blmove", blmove),
    ("blmpop", blmpop),
    ("blpop", blpop),
    ("brpop", brpop),
    ("brpoplpush", brpoplpush),
];

/// Takes from a key; `None` if it is missing or empty.
pub type Take = fn(&mut Call, &[u8]) -> Result<Option<Reply>, Reply>;

/// The deadline for the timeout at this word (seconds, with fractions), in Unix milliseconds;
/// `None` means no timeout.
pub fn until(call: &Call, nth: usize) -> Result<Option<u64>, Reply> {
    let wrong = Reply::error("ERR timeout is not a float or out of range");
    let ms = Extended::read(&call.args[nth]).ok_or(wrong)?.thousandfold();
    let ms = u64::try_from(ms).map_err(|_| Reply::error("ERR timeout is negative"))?;
    Ok((ms > 0).then(|| call.node.clock.now_ms.saturating_add(ms)))
}

/// Blocks the session on the keys. Where blocking is not allowed, `at_once` is the reply. The reply
/// at the timeout is an empty array, whatever the command.
pub fn wait(
    call: &mut Call,
    keys: &[Bytes],
    until_ms: Option<u64>,
    at_once: Reply,
    wanted: Wanted,
) -> Outcome {
    if call.session.may_not_wait() {
        return Ok(at_once);
    }
    // The words are copied: they are slices of the connection's input, which the wait would retain.
    call.session.blocked = Some(Block::Keys(Pop {
        args: call.args.iter().map(|arg| Bytes::copy_from_slice(arg)).collect(),
        command: call.command,
        db: call.session.db,
        keys: keys.iter().map(|key| Key::from(&key[..])).collect(),
        until_ms,
        wanted,
        late: Reply::NilArray,
    }));
    Ok(Reply::SILENCE)
}

/// BLPOP key ... timeout
pub fn blpop(call: &mut Call) -> Outcome {
    pop_or_wait(call, take_one, Wanted::Element)
}

/// BRPOP key ... timeout
pub fn brpop(call: &mut Call) -> Outcome {
    pop_or_wait(call, take_one, Wanted::Element)
}

/// `key ... timeout`: takes from the first key that is ready, or blocks.
pub fn pop_or_wait(call: &mut Call, take: Take, wanted: Wanted) -> Outcome {
    let last = call.args.len() - 1;
    let until_ms = until(call, last)?;
    let keys = &call.args[1..last];
    for key in keys {
        if let Some(reply) = take(call, key)? {
            return Ok(reply);
        }
    }
    wait(call, keys, until_ms, Reply::NilArray, wanted)
}

fn take_one(call: &mut Call, key: &[u8]) -> Result<Option<Reply>, Reply> {
    Ok(list(call, key)?.is_some().then(|| pop_one(call, key)))
}

/// BLPOP, BRPOP for one key, on behalf of a blocked client.
pub fn serve_element(call: &mut Call, key: &Key) -> Option<Reply> {
    take_one(call, key).ok().flatten()
}

fn pop_one(call: &mut Call, key: &[u8]) -> Reply {
    let end = if call.command.name == "BLPOP" { End::Left } else { End::Right };
    let elements = pop_from(call, key, end, 1);
    propagate_pop(call, key, end, None);
    let named = [Reply::bulk(key)].into_iter().chain(elements.into_iter().map(Reply::Bulk));
    Reply::Array(named.collect())
}

/// BLMPOP timeout numkeys key ... LEFT | RIGHT [COUNT count]
pub fn blmpop(call: &mut Call) -> Outcome {
    let pop = many_pop(call, 2)?;
    let until_ms = until(call, 1)?;
    if let Some(reply) = pop_first(call, &pop)? {
        return Ok(reply);
    }
    wait(call, pop.keys, until_ms, Reply::NilArray, Wanted::Elements)
}

/// The same for one key, on behalf of a blocked client.
pub fn serve_elements(call: &mut Call, key: &Key) -> Option<Reply> {
    let pop = many_pop(call, 2).ok()?;
    matches!(list(call, key), Ok(Some(_))).then(|| pop_many(call, key, &pop))
}

/// BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout
pub fn blmove(call: &mut Call) -> Outcome {
    let ends = (end_of(&call.args[3])?, end_of(&call.args[4])?);
    let until_ms = until(call, 5)?;
    carry_or_wait(call, ends, until_ms)
}

/// BRPOPLPUSH source destination timeout
pub fn brpoplpush(call: &mut Call) -> Outcome {
    let until_ms = until(call, 3)?;
    carry_or_wait(call, (End::Right, End::Left), until_ms)
}

fn carry_or_wait(call: &mut Call, ends: (End, End), until_ms: Option<u64>) -> Outcome {
    if let Some(element) = carry(call, ends)? {
        return Ok(element);
    }
    let keys = &call.args[1..2];
    wait(call, keys, until_ms, Reply::Nil, Wanted::Moved)
}

/// BLMOVE, BRPOPLPUSH on behalf of a blocked client.
pub fn serve_moved(call: &mut Call) -> Option<Reply> {
    let ends = match call.args {
        [_, _, _, from, to, _] => (end_of(from).ok()?, end_of(to).ok()?),
        _ => (End::Right, End::Left),
    };
    carry_served(call, ends)
}

/// A destination of the wrong type ends the wait; a source of the wrong type does not.
fn carry_served(call: &mut Call, ends: (End, End)) -> Option<Reply> {
    let source = &call.args[1];
    if !matches!(list(call, source), Ok(Some(_))) {
        return None;
    }
    let moved = match move_one(call, ends) {
        Ok(moved) => moved?,
        Err(refusal) => return Some(refusal),
    };
    let name = word(if call.args.len() == 6 { "LMOVE" } else { "RPOPLPUSH" });
    let mut words = vec![name, source.clone(), call.args[2].clone()];
    if call.args.len() == 6 {
        words.extend([ends.0, ends.1].map(|end| word(end.word())));
    }
    call.propagate(|| words);
    Some(moved)
}
