//! Intersections, unions and differences of sets.

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::errors::SYNTAX;
use crate::frame::{Reply, integer};
use crate::keyspace::Value;
use crate::keyspace::set::Set;

/// The result for some sets; `None` is a missing one.
type SetOperation = fn(&[Option<&Set>]) -> Set;

/// SINTER key ... and SMEMBERS key
pub fn sinter(call: &mut Call) -> Outcome {
    answer(call, intersection)
}

/// SUNION key ...
pub fn sunion(call: &mut Call) -> Outcome {
    answer(call, union)
}

/// SDIFF key ...
pub fn sdiff(call: &mut Call) -> Outcome {
    answer(call, difference)
}

/// SINTERSTORE destination key ...
pub fn sinterstore(call: &mut Call) -> Outcome {
    keep(call, intersection, "sinterstore")
}

/// SUNIONSTORE destination key ...
pub fn sunionstore(call: &mut Call) -> Outcome {
    keep(call, union, "sunionstore")
}

/// SDIFFSTORE destination key ...
pub fn sdiffstore(call: &mut Call) -> Outcome {
    keep(call, difference, "sdiffstore")
}

/// SINTERCARD numkeys key ... [LIMIT limit]
pub fn sintercard(call: &mut Call) -> Outcome {
    let keys = integer(&call.args[1]).and_then(|count| usize::try_from(count).ok());
    let keys = keys.filter(|count| *count > 0);
    let keys = keys.ok_or(Reply::error("ERR numkeys should be greater than 0"))?;
    let Some(options) = call.from(2).get(keys..) else {
        return Err(Reply::error("ERR Number of keys can't be greater than number of args"));
    };
    let limit = limit(options)?;
    let sets = sets(call, &call.from(2)[..keys])?;
    let size = intersection(&sets).len();
    Ok(Reply::count(if limit == 0 { size } else { size.min(limit) }))
}

/// `LIMIT n` of the commands that only count; the last one is used.
fn limit(options: &[Bytes]) -> Result<usize, Reply> {
    let mut limit = 0;
    for option in options.chunks(2) {
        match option {
            [word, number] if word.eq_ignore_ascii_case(b"LIMIT") => {
                let number = integer(number).and_then(|number| usize::try_from(number).ok());
                limit = number.ok_or(Reply::error("ERR LIMIT can't be negative"))?;
            }
            _ => return Err(Reply::error(SYNTAX)),
        }
    }
    Ok(limit)
}

fn answer(call: &mut Call, operation: SetOperation) -> Outcome {
    let result = operation(&sets(call, call.from(1))?);
    Ok(Reply::Set(result.iter().map(Reply::Bulk).collect()))
}

fn keep(call: &mut Call, operation: SetOperation, event: &str) -> Outcome {
    let result = operation(&sets(call, call.from(2))?);
    call.store(&call.args[1], Value::Set(result), b's', event)
}

/// The sets of these keys.
fn sets<'c>(call: &'c mut Call, keys: &[Bytes]) -> Result<Vec<Option<&'c Set>>, Reply> {
    let mut there = Vec::new();
    for key in keys {
        there.push(call.set_at(key)?.is_some());
    }
    let db = call.node.keyspace.db(call.session.db);
    let set = |(key, there): (&Bytes, bool)| match db.get(key).map(|entry| &entry.value) {
        Some(Value::Set(set)) if there => Some(set),
        _ => None,
    };
    Ok(keys.iter().zip(there).map(set).collect())
}

fn intersection(sets: &[Option<&Set>]) -> Set {
    let Some(sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else {
        return Set::default();
    };
    let Some(smallest) = sets.iter().min_by_key(|set| set.len()) else { return Set::default() };
    let everywhere = |member: &Bytes| sets.iter().all(|set| set.contains(member));
    smallest.iter().filter(everywhere).collect()
}

fn union(sets: &[Option<&Set>]) -> Set {
    sets.iter().flatten().flat_map(|set| set.iter()).collect()
}

fn difference(sets: &[Option<&Set>]) -> Set {
    let Some((Some(first), others)) = sets.split_first() else { return Set::default() };
    let elsewhere = |member: &Bytes| others.iter().flatten().any(|set| set.contains(member));
    first.iter().filter(|member| !elsewhere(member)).collect()
}
