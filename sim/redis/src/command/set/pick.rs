//! SPOP and SRANDMEMBER: random members.

use bytes::Bytes;

use crate::call::collection::MAX_PICKS;
use crate::call::{Call, Outcome};
use crate::errors::{NOT_INTEGER, SYNTAX};
use crate::frame::word;
use crate::frame::{Reply, integer};
use crate::keyspace::set::Set;

/// Maximum number of members in one propagated SREM of an SPOP.
const MAX_PROPAGATED: usize = 1024;

/// SPOP key [count]
pub fn spop(call: &mut Call) -> Outcome {
    let key = &call.args[1];
    let count = match call.from(2) {
        [] => None,
        [count] => Some(positive(count)?),
        _ => return Err(Reply::error(SYNTAX)),
    };
    let none = if count.is_some() { Reply::Set(Vec::new()) } else { Reply::Nil };
    let size = call.set_at(key)?.map_or(0, Set::len);
    if size == 0 || count == Some(0) {
        return Ok(none);
    }
    let picked = pick(call, size, count.unwrap_or(1));
    if let Some(set) = call.set_at_mut(key) {
        for member in &picked {
            set.remove(member);
        }
    }
    call.note_shrunk(key, b's', "spop");
    propagate(call, &picked, count.is_some() && picked.len() == size);
    match count {
        Some(_) => Ok(Reply::Set(picked.into_iter().map(Reply::Bulk).collect())),
        None => Ok(picked.into_iter().next().map_or(Reply::Nil, Reply::Bulk)),
    }
}

/// Propagates which members were picked.
fn propagate(call: &mut Call, picked: &[Bytes], whole: bool) {
    let key = &call.args[1];
    if whole {
        return call.propagate(|| vec![word("DEL"), key.clone()]);
    }
    for members in picked.chunks(MAX_PROPAGATED) {
        call.propagate(|| [&[word("SREM"), key.clone()], members].concat());
    }
}

/// SRANDMEMBER key [count]: with a negative count a member may be returned repeatedly.
pub fn srandmember(call: &mut Call) -> Outcome {
    let key = &call.args[1];
    let count = match call.from(2) {
        [] => None,
        [count] => Some(either_way(count)?),
        _ => return Err(Reply::error(SYNTAX)),
    };
    let size = call.set_at(key)?.map_or(0, Set::len);
    let Some(count) = count else {
        return Ok(pick(call, size, 1).into_iter().next().map_or(Reply::Nil, Reply::Bulk));
    };
    let picked = match usize::try_from(count) {
        Ok(count) => pick(call, size, count),
        Err(_) if size == 0 => Vec::new(),
        Err(_) => {
            let members: Vec<Bytes> =
                call.set_at(key)?.map(|s| s.iter().collect()).unwrap_or_default();
            let picks = count.unsigned_abs().min(MAX_PICKS);
            (0..picks).map(|_| members[call.node.dice.draw(size)].clone()).collect()
        }
    };
    Ok(Reply::Array(picked.into_iter().map(Reply::Bulk).collect()))
}

/// `count` different members of the set of the command's key; all of them in its own order.
fn pick(call: &mut Call, size: usize, count: usize) -> Vec<Bytes> {
    let mut places: Vec<usize> = match count {
        count if count >= size => (0..size).collect(),
        1 => vec![call.node.dice.draw(size)],
        _ => call.node.dice.draw_some(size, count),
    };
    if size == 0 {
        return Vec::new();
    }
    places.sort_unstable();
    let Ok(Some(set)) = call.set_at(&call.args[1]) else { return Vec::new() };
    let mut members = set.iter();
    let mut passed = 0;
    let mut picked = Vec::new();
    for place in places {
        picked.extend(members.nth(place - passed));
        passed = place + 1;
    }
    picked
}

/// A non-negative count.
pub fn positive(count: &[u8]) -> Result<usize, Reply> {
    let count = integer(count).and_then(|count| usize::try_from(count).ok());
    count.ok_or(Reply::error("ERR value is out of range, must be positive"))
}

/// A count that may be negative, but must have a positive counterpart.
pub fn either_way(count: &[u8]) -> Result<i64, Reply> {
    let number = integer(count).ok_or(Reply::error(NOT_INTEGER))?;
    if number == i64::MIN {
        let text = "ERR value is out of range, value must between -9223372036854775807 and \
                    9223372036854775807";
        return Err(Reply::error(text));
    }
    Ok(number)
}
