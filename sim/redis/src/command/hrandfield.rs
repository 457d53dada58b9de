//! HRANDFIELD: random fields from the node's own generator.

use bytes::Bytes;

use crate::call::collection::MAX_PICKS;
use crate::call::{Call, Outcome};
use crate::errors::SYNTAX;
use crate::frame::{Protocol, Reply};
use crate::keyspace::hash::Hash;

/// The error for the only 64-bit integer without a negative counterpart.
const OUT_OF_LONG: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";

/// HRANDFIELD key [count [WITHVALUES]]: a negative count may return a field repeatedly.
pub fn hrandfield(call: &mut Call) -> Outcome {
    let Some((count, with_values)) = count(call)? else {
        let fields = fields(call)?;
        if fields.is_empty() {
            return Ok(Reply::Nil);
        }
        let drawn = call.node.dice.draw(fields.len());
        return Ok(Reply::Bulk(fields[drawn].0.clone()));
    };
    let fields = fields(call)?;
    let wanted = usize::try_from(count.unsigned_abs().min(MAX_PICKS)).unwrap_or(0);
    let picks = match count {
        _ if fields.is_empty() => Vec::new(),
        ..0 => (0..wanted).map(|_| call.node.dice.draw(fields.len())).collect(),
        _ => distinct(call, fields.len(), wanted),
    };
    let in_pairs = call.session.replies.protocol == Protocol::Three;
    let items = picks.into_iter().flat_map(|at| {
        let (field, value) = &fields[at];
        let both = [field, value].map(|part| Reply::Bulk(part.clone()));
        match (with_values, in_pairs) {
            (false, _) => vec![Reply::Bulk(field.clone())],
            (true, false) => both.to_vec(),
            (true, true) => vec![Reply::Array(both.to_vec())],
        }
    });
    Ok(Reply::Array(items.collect()))
}

fn count(call: &Call) -> Result<Option<(i64, bool)>, Reply> {
    let Some(_) = call.args.get(2) else { return Ok(None) };
    let count = call.integer(2)?;
    if count == i64::MIN {
        return Err(Reply::error(OUT_OF_LONG));
    }
    match call.from(3) {
        [] => Ok(Some((count, false))),
        [option] if option.eq_ignore_ascii_case(b"WITHVALUES") => {
            if count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
                return Err(Reply::error("ERR value is out of range"));
            }
            Ok(Some((count, true)))
        }
        _ => Err(Reply::error(SYNTAX)),
    }
}

fn fields(call: &mut Call) -> Result<Vec<(Bytes, Bytes)>, Reply> {
    let fields = call.hash(&call.args[1])?.map(Hash::in_order).unwrap_or_default();
    Ok(fields.into_iter().map(|(field, value)| (field.clone(), value.clone())).collect())
}

/// Up to `wanted` different positions below `length`, in order.
fn distinct(call: &mut Call, length: usize, wanted: usize) -> Vec<usize> {
    let mut left = wanted.min(length);
    let mut picks = Vec::with_capacity(left);
    for place in 0..length {
        if left > 0 && call.node.dice.draw(length - place) < left {
            picks.push(place);
            left -= 1;
        }
    }
    picks
}
