//! Strings as numbers: INCR and DECR, and INCRBYFLOAT.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::errors::NOT_INTEGER;
use crate::extended::Extended;
use crate::frame::{Reply, integer};
use crate::frame::{digits, word};
use crate::keyspace::Kept;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("decr", decr),
    ("decrby", decrby),
    ("incr", incr),
    ("incrby", incrby),
    ("incrbyfloat", incrbyfloat),
];

/// The error for a sum that is not a finite number.
pub const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";

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
    call.event(b'$', "incrby", key);
    call.propagate_verbatim();
    Ok(Reply::Integer(sum))
}

/// INCRBYFLOAT key increment: propagated as the sum.
pub fn incrbyfloat(call: &mut Call) -> Outcome {
    let (key, by) = (&call.args[1], &call.args[2]);
    let read = |text: &[u8]| Extended::read(text).ok_or(Reply::error(NOT_FLOAT));
    let old = call.string(key)?.map_or(Ok(Extended::ZERO), |text| read(&text))?;
    let sum = old.plus(read(by)?);
    if !sum.is_finite() {
        return Err(Reply::error(NOT_FINITE));
    }
    let sum = Bytes::from(sum.text());
    call.change_kept(key, sum.clone(), Kept::Text);
    call.event(b'$', "incrbyfloat", key);
    call.propagate(|| vec![word("SET"), key.clone(), sum.clone(), word("KEEPTTL")]);
    Ok(Reply::Bulk(sum))
}

/// The error if there is no number where one is required.
pub const NOT_FLOAT: &str = "ERR value is not a valid float";
