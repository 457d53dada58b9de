//! ZPOPMIN, ZPOPMAX, ZMPOP: remove members from an end.

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::command::set::pick::positive;
use crate::command::sorted_set::listed::{listed, pair};
use crate::errors::SYNTAX;
use crate::frame::{Protocol, Reply, integer};
use crate::frame::{digits, word};
use crate::keyspace::sorted_set::SortedSet;

/// The end from which members are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The lowest score first.
    Least,
    /// The highest score first.
    Greatest,
}

impl Side {
    /// The side named by `MIN` or `MAX`.
    pub fn read(text: &[u8]) -> Result<Side, Reply> {
        match &text.to_ascii_uppercase()[..] {
            b"MIN" => Ok(Side::Least),
            b"MAX" => Ok(Side::Greatest),
            _ => Err(Reply::error(SYNTAX)),
        }
    }

    /// The plain command that takes from this side, for propagation.
    pub fn command(self) -> &'static str {
        match self {
            Side::Least => "ZPOPMIN",
            Side::Greatest => "ZPOPMAX",
        }
    }

    fn event(self) -> &'static str {
        match self {
            Side::Least => "zpopmin",
            Side::Greatest => "zpopmax",
        }
    }
}

/// ZPOPMIN key [count]
pub fn zpopmin(call: &mut Call) -> Outcome {
    pop_one_key(call, Side::Least)
}

/// ZPOPMAX key [count]
pub fn zpopmax(call: &mut Call) -> Outcome {
    pop_one_key(call, Side::Greatest)
}

fn pop_one_key(call: &mut Call, side: Side) -> Outcome {
    let count = match call.from(2) {
        [] => None,
        [count] => Some(positive(count)?),
        _ => return Err(Reply::error(SYNTAX)),
    };
    let members = pop(call, &call.args[1], side, count.unwrap_or(1))?;
    if !members.is_empty() {
        call.propagate_verbatim();
    }
    // A single member without a count is not a list of pairs, even in RESP3.
    let protocol = count.map_or(Protocol::Two, |_| call.session.replies.protocol);
    Ok(listed(protocol, members.into_iter(), true))
}

/// Takes up to `count` members from one side of the sorted set of a key.
pub fn pop(
    call: &mut Call,
    key: &[u8],
    side: Side,
    count: usize,
) -> Result<Vec<(Bytes, f64)>, Reply> {
    let length = call.sorted_set(key)?.map_or(0, SortedSet::len);
    let count = count.min(length);
    if count == 0 {
        return Ok(Vec::new());
    }
    let ranks = match side {
        Side::Least => 0..count,
        Side::Greatest => length - count..length,
    };
    let Some(set) = call.sorted_set_mut(key) else { return Ok(Vec::new()) };
    let mut members = set.remove_ranks(ranks);
    if side == Side::Greatest {
        members.reverse();
    }
    call.note_shrunk(key, b'z', side.event());
    Ok(members)
}

/// The arguments of ZMPOP and BZMPOP.
pub struct Several<'a> {
    /// The keys, in order.
    pub keys: &'a [Bytes],
    /// The side.
    pub side: Side,
    /// The maximum number of members.
    pub count: usize,
}

impl<'a> Several<'a> {
    /// Parses `numkeys key ... MIN | MAX [COUNT count]`.
    pub fn read(words: &'a [Bytes]) -> Result<Several<'a>, Reply> {
        let wrong = || Reply::error(SYNTAX);
        let (number, words) = words.split_first().ok_or_else(wrong)?;
        let number = above_zero(number, "ERR numkeys should be greater than 0")?;
        let (keys, words) = words.split_at_checked(number).ok_or_else(wrong)?;
        let (side, words) = words.split_first().ok_or_else(wrong)?;
        let side = Side::read(side)?;
        let count = match words {
            [] => 1,
            [word, count, rest @ ..] if word.eq_ignore_ascii_case(b"COUNT") => {
                let count = above_zero(count, "ERR count should be greater than 0")?;
                if rest.is_empty() { count } else { return Err(wrong()) }
            }
            _ => return Err(wrong()),
        };
        Ok(Several { keys, side, count })
    }

    /// Takes from the first key that has members; `None` if none has.
    pub fn pop(&self, call: &mut Call) -> Result<Option<Reply>, Reply> {
        for key in self.keys {
            if call.sorted_set(key)?.is_some() {
                return self.pop_from(call, key).map(Some);
            }
        }
        Ok(None)
    }

    /// Takes from one key.
    pub fn pop_from(&self, call: &mut Call, key: &[u8]) -> Outcome {
        let members = pop(call, key, self.side, self.count)?;
        let (name, count) = (Bytes::copy_from_slice(key), digits(members.len()));
        call.propagate(|| vec![word(self.side.command()), name.clone(), count]);
        let members = members.into_iter().map(pair).collect();
        Ok(Reply::Array(vec![Reply::Bulk(name), Reply::Array(members)]))
    }
}

fn above_zero(text: &[u8], refusal: &'static str) -> Result<usize, Reply> {
    let number = integer(text).and_then(|number| usize::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(Reply::error(refusal))
}

/// ZMPOP numkeys key ... MIN | MAX [COUNT count]
pub fn zmpop(call: &mut Call) -> Outcome {
    let several = Several::read(call.from(1))?;
    Ok(several.pop(call)?.unwrap_or(Reply::NilArray))
}
