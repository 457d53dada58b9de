//! Parts of strings: GETRANGE, SETRANGE, and LCS.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::frame::Reply;
use crate::keyspace::Kept;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("getrange", getrange),
    ("lcs", super::lcs::lcs),
    ("setrange", setrange),
    ("substr", getrange),
];

/// Refuses a string that `added` bytes after the first `length` would make too long.
pub fn check_length(call: &Call, length: usize, added: usize) -> Result<(), Reply> {
    let longest = call.node.limits.word;
    let trusted = call.session.replication.from_master;
    if !trusted && length.checked_add(added).is_none_or(|sum| sum > longest) {
        return Err(Reply::error("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    Ok(())
}

/// GETRANGE key start end, and SUBSTR
pub fn getrange(call: &mut Call) -> Outcome {
    let (first, last) = (call.integer(2)?, call.integer(3)?);
    let value = call.string(&call.args[1])?.unwrap_or_default();
    let length = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let from_left = |index: i64| {
        let index = if index < 0 { index.saturating_add(length) } else { index };
        index.max(0)
    };
    let (start, end) = (from_left(first), from_left(last).min(length - 1));
    if (first < 0 && last < 0 && first > last) || start > end {
        return Ok(Reply::Bulk(Bytes::new()));
    }
    let place = |index: i64| usize::try_from(index).unwrap_or(0);
    Ok(Reply::Bulk(value.slice(place(start)..=place(end))))
}

/// SETRANGE key offset value: bytes between the old end and the offset become zeros.
pub fn setrange(call: &mut Call) -> Outcome {
    let offset = usize::try_from(call.integer(2)?)
        .map_err(|_| Reply::error("ERR offset is out of range"))?;
    let (key, part) = (&call.args[1], &call.args[3]);
    let old = call.string(key)?.unwrap_or_default();
    if part.is_empty() {
        return Ok(Reply::count(old.len()));
    }
    check_length(call, offset, part.len())?;
    let mut value = old.to_vec();
    value.resize(old.len().max(offset + part.len()), 0);
    value[offset..offset + part.len()].copy_from_slice(part);
    let length = value.len();
    call.change_kept(key, Bytes::from(value), Kept::Raw);
    call.event(b'$', "setrange", key);
    call.propagate_verbatim();
    Ok(Reply::count(length))
}
