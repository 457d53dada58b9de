//! Sorted sets. One that loses its last member is deleted.
//!
//! - `add`: ZADD in all its forms
//! - `range`: parsing of ranges, and their selection
//! - `select`: the commands that return, store, count or remove a range
//! - `pop`, `wait`: ZPOPMIN and its variants, non-blocking and blocking
//! - `algebra`: unions, intersections, differences
//! - `pick`: random members

pub mod add;
pub mod algebra;
pub mod listed;
pub mod pick;
pub mod pop;
pub mod range;
pub mod select;
pub mod wait;

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::frame::Reply;
use crate::keyspace::sorted_set::SortedSet;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("bzmpop", wait::bzmpop),
    ("bzpopmax", wait::bzpopmax),
    ("bzpopmin", wait::bzpopmin),
    ("zadd", add::zadd),
    ("zcard", zcard),
    ("zcount", select::zcount),
    ("zdiff", algebra::zdiff),
    ("zdiffstore", algebra::zdiffstore),
    ("zincrby", add::zincrby),
    ("zinter", algebra::zinter),
    ("zintercard", algebra::zintercard),
    ("zinterstore", algebra::zinterstore),
    ("zlexcount", select::zlexcount),
    ("zmpop", pop::zmpop),
    ("zmscore", zmscore),
    ("zpopmax", pop::zpopmax),
    ("zpopmin", pop::zpopmin),
    ("zrandmember", pick::zrandmember),
    ("zrange", select::zrange),
    ("zrangebylex", select::zrangebylex),
    ("zrangebyscore", select::zrangebyscore),
    ("zrangestore", select::zrangestore),
    ("zrank", zrank),
    ("zrem", zrem),
    ("zremrangebylex", select::zremrangebylex),
    ("zremrangebyrank", select::zremrangebyrank),
    ("zremrangebyscore", select::zremrangebyscore),
    ("zrevrange", select::zrevrange),
    ("zrevrangebylex", select::zrevrangebylex),
    ("zrevrangebyscore", select::zrevrangebyscore),
    ("zrevrank", zrevrank),
    ("zscore", zscore),
    ("zunion", algebra::zunion),
    ("zunionstore", algebra::zunionstore),
];

/// ZCARD key
pub fn zcard(call: &mut Call) -> Outcome {
    Ok(Reply::count(call.sorted_set(&call.args[1])?.map_or(0, SortedSet::len)))
}

/// ZSCORE key member
pub fn zscore(call: &mut Call) -> Outcome {
    let member = &call.args[2];
    let score = call.sorted_set(&call.args[1])?.and_then(|set| set.score(member));
    Ok(score.map_or(Reply::Nil, Reply::Double))
}

/// ZMSCORE key member ...
pub fn zmscore(call: &mut Call) -> Outcome {
    let members = call.from(2);
    let set = call.sorted_set(&call.args[1])?;
    let score = |member: &Bytes| set.and_then(|set| set.score(member));
    Ok(Reply::Array(members.iter().map(|m| score(m).map_or(Reply::Nil, Reply::Double)).collect()))
}

/// ZRANK key member
pub fn zrank(call: &mut Call) -> Outcome {
    let member = &call.args[2];
    let rank = call.sorted_set(&call.args[1])?.and_then(|set| set.rank(member));
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

/// ZREVRANK key member
pub fn zrevrank(call: &mut Call) -> Outcome {
    let member = &call.args[2];
    let set = call.sorted_set(&call.args[1])?;
    let rank = set.and_then(|set| set.rank(member).map(|rank| set.len() - 1 - rank));
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

/// ZREM key member ...
pub fn zrem(call: &mut Call) -> Outcome {
    let (key, members) = (&call.args[1], call.from(2));
    if call.sorted_set(key)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let Some(set) = call.sorted_set_mut(key) else { return Ok(Reply::Integer(0)) };
    let removed = members.iter().filter(|member| set.remove(member).is_some()).count();
    if removed > 0 {
        call.note_shrunk(key, b'z', "zrem");
        call.propagate_verbatim();
    }
    Ok(Reply::count(removed))
}
