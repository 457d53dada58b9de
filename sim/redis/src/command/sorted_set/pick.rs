//! ZRANDMEMBER: random members.

use bytes::Bytes;

use crate::call::collection::MAX_PICKS;
use crate::call::{Call, Outcome};
use crate::command::set::pick::either_way;
use crate::command::sorted_set::listed::listed;
use crate::errors::SYNTAX;
use crate::frame::Reply;
use crate::keyspace::sorted_set::SortedSet;

/// ZRANDMEMBER key [count [WITHSCORES]]: with a negative count a member may be returned repeatedly.
pub fn zrandmember(call: &mut Call) -> Outcome {
    let key = &call.args[1];
    let (count, with_scores) = match call.from(2) {
        [] => (None, false),
        [count] => (Some(either_way(count)?), false),
        [count, scores, rest @ ..] => {
            let count = either_way(count)?;
            if !rest.is_empty() || !scores.eq_ignore_ascii_case(b"WITHSCORES") {
                return Err(Reply::error(SYNTAX));
            }
            if count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
                return Err(Reply::error("ERR value is out of range"));
            }
            (Some(count), true)
        }
    };
    let size = call.sorted_set(key)?.map_or(0, SortedSet::len);
    if size == 0 {
        return Ok(if count.is_some() { Reply::Array(Vec::new()) } else { Reply::Nil });
    }
    let places = places(call, size, count.unwrap_or(1));
    let set = call.sorted_set(key)?;
    let member = |place: usize| {
        let (member, score) = set?.ranks(place..place + 1).next()?;
        Some((member.clone(), score))
    };
    let mut members = places.into_iter().filter_map(member);
    if count.is_none() {
        return Ok(members.next().map_or(Reply::Nil, |(member, _)| Reply::Bulk(member)));
    }
    let members: Vec<(Bytes, f64)> = members.collect();
    Ok(listed(call.session.replies.protocol, members.into_iter(), with_scores))
}

fn places(call: &mut Call, size: usize, count: i64) -> Vec<usize> {
    match usize::try_from(count) {
        // Redis walks a whole sorted set from its end.
        Ok(count) if count >= size => (0..size).rev().collect(),
        Ok(1) => vec![call.node.dice.draw(size)],
        Ok(count) => call.node.dice.draw_some(size, count),
        Err(_) => {
            (0..count.unsigned_abs().min(MAX_PICKS)).map(|_| call.node.dice.draw(size)).collect()
        }
    }
}
