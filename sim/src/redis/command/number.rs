//! Strings that are counted with: INCR and DECR.

use crate::redis::command::{Call, Family, NOT_INTEGER, Outcome, digits};
use crate::redis::frame::{Reply, integer};

/// What is here, by name.
pub const FAMILY: Family =
    &[("decr", decr), ("decrby", decrby), ("incr", incr), ("incrby", incrby)];

/// INCR key
pub fn incr(call: &mut Call) -> Outcome {
    add(call, 1)
}

/// DECR key
pub fn decr(call: &mut Call) -> Outcome {
    add(call, -1)
}

/// INCRBY key increment
pub fn incrby(call: &mut Call) -> Outcome {
    let by = call.integer(2)?;
    add(call, by)
}

/// DECRBY key decrement
pub fn decrby(call: &mut Call) -> Outcome {
    let by = call.integer(2)?.checked_neg().ok_or(Reply::error("ERR decrement would overflow"))?;
    add(call, by)
}

fn add(call: &mut Call, by: i64) -> Outcome {
    let key = &call.args[1];
    let old = match call.string(key)? {
        Some(text) => integer(&text).ok_or(Reply::error(NOT_INTEGER))?,
        None => 0,
    };
    let overflow = Reply::error("ERR increment or decrement would overflow");
    let sum = old.checked_add(by).ok_or(overflow)?;
    call.change(key, digits(sum));
    call.tell_verbatim();
    Ok(Reply::Integer(sum))
}
