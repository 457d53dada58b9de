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
pub mod pick;
pub mod pop;
pub mod range;
pub mod select;
pub mod wait;

use bytes::Bytes;

use crate::command::{Call, Family, Outcome, WRONGTYPE};
use crate::frame::{Protocol, Reply};
use crate::keyspace::Value;
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

impl Call<'_> {
    /// The sorted set of a key.
    pub fn sorted_set(&mut self, key: &[u8]) -> Result<Option<&SortedSet>, Reply> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::SortedSet(set)) => Ok(Some(set)),
            Some(_) => Err(Reply::error(WRONGTYPE)),
        }
    }

    /// The sorted set of a key that is known to hold one, to change it.
    pub fn sorted_set_mut(&mut self, key: &[u8]) -> Option<&mut SortedSet> {
        match self.node.keyspace.db_mut(self.session.db).value_mut(key) {
            Some(Value::SortedSet(set)) => Some(set),
            _ => None,
        }
    }
}

/// Members in a reply: alternating with their scores, in RESP3 as pairs.
pub fn listed(
    protocol: Protocol,
    members: impl Iterator<Item = (Bytes, f64)>,
    with_scores: bool,
) -> Reply {
    let nested = with_scores && protocol == Protocol::Three;
    Reply::Array(match (with_scores, nested) {
        (_, true) => members.map(pair).collect(),
        (true, _) => {
            members.flat_map(|(m, score)| [Reply::Bulk(m), Reply::Double(score)]).collect()
        }
        _ => members.map(|(member, _)| Reply::Bulk(member)).collect(),
    })
}

/// A member with its score.
pub fn pair((member, score): (Bytes, f64)) -> Reply {
    Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)])
}

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
        call.tell_verbatim();
    }
    Ok(Reply::count(removed))
}
