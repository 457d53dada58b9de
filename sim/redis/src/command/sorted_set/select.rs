//! The commands that return, store, count or remove a range of a sorted set.

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::command::sorted_set::listed::listed;
use crate::command::sorted_set::range::{By, RangeBounds, limited};
use crate::errors::{NOT_INTEGER, SYNTAX};
use crate::frame::{Reply, integer};
use crate::keyspace::Value;
use crate::keyspace::sorted_set::SortedSet;

/// The options after the bounds of a range.
struct RangeOptions {
    by: By,
    reverse: bool,
    limit: [i64; 2],
    with_scores: bool,
}

/// What a command's name determines; options may set the rest.
#[derive(Clone, Copy, Default)]
struct RangeForm {
    by: Option<By>,
    reverse: Option<bool>,
    stores: bool,
}

/// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
pub fn zrange(call: &mut Call) -> Outcome {
    select(call, RangeForm::default())
}

/// ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]
pub fn zrangestore(call: &mut Call) -> Outcome {
    select(call, RangeForm { stores: true, ..RangeForm::default() })
}

/// ZREVRANGE key start stop [WITHSCORES]
pub fn zrevrange(call: &mut Call) -> Outcome {
    select(call, RangeForm { by: Some(By::Rank), reverse: Some(true), stores: false })
}

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
pub fn zrangebyscore(call: &mut Call) -> Outcome {
    select(call, RangeForm { by: Some(By::Score), reverse: Some(false), stores: false })
}

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
pub fn zrevrangebyscore(call: &mut Call) -> Outcome {
    select(call, RangeForm { by: Some(By::Score), reverse: Some(true), stores: false })
}

/// ZRANGEBYLEX key min max [LIMIT offset count]
pub fn zrangebylex(call: &mut Call) -> Outcome {
    select(call, RangeForm { by: Some(By::Member), reverse: Some(false), stores: false })
}

/// ZREVRANGEBYLEX key max min [LIMIT offset count]
pub fn zrevrangebylex(call: &mut Call) -> Outcome {
    select(call, RangeForm { by: Some(By::Member), reverse: Some(true), stores: false })
}

fn select(call: &mut Call, form: RangeForm) -> Outcome {
    let source = 1 + usize::from(form.stores);
    let [key, first, second, words @ ..] = call.from(source) else {
        return Err(Reply::error(SYNTAX));
    };
    let options = options(words, form)?;
    let backwards = options.reverse && options.by != By::Rank;
    let range =
        RangeBounds::read(options.by, if backwards { [second, first] } else { [first, second] })?;
    let protocol = call.session.replies.protocol;
    let set = call.sorted_set(key)?;
    let ranks = set.map_or(0..0, |set| range.of(set, options.reverse));
    let ranks = match options.by {
        By::Rank => ranks,
        _ => limited(ranks, options.limit, options.reverse),
    };
    let members = set.into_iter().flat_map(|set| set.ranks(ranks.clone()));
    if form.stores {
        let mut result = SortedSet::default();
        for (member, score) in members {
            result.insert(member, score);
        }
        return call.store(&call.args[1], Value::SortedSet(result), b'z', "zrangestore");
    }
    let members = members.map(|(member, score)| (member.clone(), score));
    Ok(if options.reverse {
        let members: Vec<(Bytes, f64)> = members.collect();
        listed(protocol, members.into_iter().rev(), options.with_scores)
    } else {
        listed(protocol, members, options.with_scores)
    })
}

fn options(words: &[Bytes], form: RangeForm) -> Result<RangeOptions, Reply> {
    let mut options = RangeOptions {
        by: form.by.unwrap_or(By::Rank),
        reverse: form.reverse.unwrap_or(false),
        limit: [0, -1],
        with_scores: false,
    };
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match &word.to_ascii_uppercase()[..] {
            b"WITHSCORES" if !form.stores => options.with_scores = true,
            b"LIMIT" if at + 2 < words.len() => {
                let number = |at: usize| integer(&words[at]).ok_or(Reply::error(NOT_INTEGER));
                options.limit = [number(at + 1)?, number(at + 2)?];
                at += 2;
            }
            b"REV" if form.reverse.is_none() => options.reverse = true,
            b"BYSCORE" if form.by.is_none() => options.by = By::Score,
            b"BYLEX" if form.by.is_none() => options.by = By::Member,
            _ => return Err(Reply::error(SYNTAX)),
        }
        at += 1;
    }
    if options.limit[1] != -1 && options.by == By::Rank {
        return Err(Reply::error(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if options.with_scores && options.by == By::Member {
        return Err(Reply::error(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    Ok(options)
}

/// ZCOUNT key min max
pub fn zcount(call: &mut Call) -> Outcome {
    count(call, By::Score)
}

/// ZLEXCOUNT key min max
pub fn zlexcount(call: &mut Call) -> Outcome {
    count(call, By::Member)
}

fn count(call: &mut Call, by: By) -> Outcome {
    let range = RangeBounds::read(by, [&call.args[2], &call.args[3]])?;
    let set = call.sorted_set(&call.args[1])?;
    Ok(Reply::count(set.map_or(0, |set| range.of(set, false).len())))
}

/// ZREMRANGEBYRANK key start stop
pub fn zremrangebyrank(call: &mut Call) -> Outcome {
    remove(call, By::Rank, "zremrangebyrank")
}

/// ZREMRANGEBYSCORE key min max
pub fn zremrangebyscore(call: &mut Call) -> Outcome {
    remove(call, By::Score, "zremrangebyscore")
}

/// ZREMRANGEBYLEX key min max
pub fn zremrangebylex(call: &mut Call) -> Outcome {
    remove(call, By::Member, "zremrangebylex")
}

fn remove(call: &mut Call, by: By, event: &str) -> Outcome {
    let key = &call.args[1];
    let range = RangeBounds::read(by, [&call.args[2], &call.args[3]])?;
    let Some(ranks) = call.sorted_set(key)?.map(|set| range.of(set, false)) else {
        return Ok(Reply::Integer(0));
    };
    let removed = ranks.len();
    if removed > 0 {
        call.sorted_set_mut(key).map(|set| set.remove_ranks(ranks));
        call.note_shrunk(key, b'z', event);
        call.propagate_verbatim();
    }
    Ok(Reply::count(removed))
}
