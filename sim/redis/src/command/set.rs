//! Sets. A set that loses its last member is deleted.
//!
//! - `algebra`: intersections, unions, differences
//! - `pick`: SPOP and SRANDMEMBER

pub mod algebra;
pub mod pick;

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::frame::Reply;
use crate::keyspace::Value;
use crate::keyspace::set::Set;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("sadd", sadd),
    ("scard", scard),
    ("sdiff", algebra::sdiff),
    ("sdiffstore", algebra::sdiffstore),
    ("sinter", algebra::sinter),
    ("sintercard", algebra::sintercard),
    ("sinterstore", algebra::sinterstore),
    ("sismember", sismember),
    ("smembers", algebra::sinter),
    ("smismember", smismember),
    ("smove", smove),
    ("spop", pick::spop),
    ("srandmember", pick::srandmember),
    ("srem", srem),
    ("sunion", algebra::sunion),
    ("sunionstore", algebra::sunionstore),
];

/// Adds members to the set of a key, which is created if it is missing; returns how many are
/// new.
fn add_members(call: &mut Call, key: &[u8], members: &[Bytes]) -> Result<usize, Reply> {
    let created = call.set_at(key)?.is_none();
    if created {
        let db = call.node.keyspace.db_mut(call.session.db);
        db.set(key, Value::Set(Set::default()), None);
    }
    let Some(set) = call.set_at_mut(key) else { return Ok(0) };
    let added = members.iter().filter(|member| set.insert(member)).count();
    if added > 0 {
        call.note_grown(key, created);
        call.event(b's', "sadd", key);
    }
    Ok(added)
}

/// SADD key member ...
pub fn sadd(call: &mut Call) -> Outcome {
    let added = add_members(call, &call.args[1], call.from(2))?;
    if added > 0 {
        call.propagate_verbatim();
    }
    Ok(Reply::count(added))
}

/// SREM key member ...
pub fn srem(call: &mut Call) -> Outcome {
    let (key, members) = (&call.args[1], call.from(2));
    if call.set_at(key)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    let Some(set) = call.set_at_mut(key) else { return Ok(Reply::Integer(0)) };
    let removed = members.iter().filter(|member| set.remove(member)).count();
    if removed > 0 {
        call.note_shrunk(key, b's', "srem");
        call.propagate_verbatim();
    }
    Ok(Reply::count(removed))
}

/// SMOVE source destination member
pub fn smove(call: &mut Call) -> Outcome {
    let [_, from, to, member] = call.args else { return Ok(Reply::Integer(0)) };
    if call.set_at(from)?.is_none() {
        return Ok(Reply::Integer(0));
    }
    call.set_at(to)?;
    let there = call.set_at(from)?.is_some_and(|set| set.contains(member));
    if !there || from == to {
        return Ok(Reply::Integer(i64::from(there)));
    }
    if let Some(set) = call.set_at_mut(from) {
        set.remove(member);
    }
    call.note_shrunk(from, b's', "srem");
    add_members(call, to, std::slice::from_ref(member))?;
    call.propagate_verbatim();
    Ok(Reply::Integer(1))
}

/// SCARD key
pub fn scard(call: &mut Call) -> Outcome {
    Ok(Reply::count(call.set_at(&call.args[1])?.map_or(0, Set::len)))
}

/// SISMEMBER key member
pub fn sismember(call: &mut Call) -> Outcome {
    let member = &call.args[2];
    let there = call.set_at(&call.args[1])?.is_some_and(|set| set.contains(member));
    Ok(Reply::Integer(i64::from(there)))
}

/// SMISMEMBER key member ...
pub fn smismember(call: &mut Call) -> Outcome {
    let members = call.from(2);
    let set = call.set_at(&call.args[1])?;
    let there = |member: &Bytes| set.is_some_and(|set| set.contains(member));
    Ok(Reply::Array(members.iter().map(|m| Reply::Integer(i64::from(there(m)))).collect()))
}
