//! BZPOPMIN, BZPOPMAX, BZMPOP: the blocking pops.

use crate::call::{Call, Outcome};
use crate::command::blocking::{pop_or_wait, until, wait};
use crate::command::sorted_set::pop::{Several, Side, pop};
use crate::frame::Reply;
use crate::frame::word;
use crate::keyspace::Key;
use crate::session::Wanted;

/// BZPOPMIN key ... timeout
pub fn bzpopmin(call: &mut Call) -> Outcome {
    pop_or_wait(call, take_one, Wanted::Member)
}

/// BZPOPMAX key ... timeout
pub fn bzpopmax(call: &mut Call) -> Outcome {
    pop_or_wait(call, take_one, Wanted::Member)
}

fn take_one(call: &mut Call, key: &[u8]) -> Result<Option<Reply>, Reply> {
    if call.sorted_set(key)?.is_none() {
        return Ok(None);
    }
    pop_one(call, key).map(Some)
}

/// The same for one key, on behalf of a blocked client.
pub fn serve_member(call: &mut Call, key: &Key) -> Option<Reply> {
    take_one(call, key).ok().flatten()
}

fn pop_one(call: &mut Call, key: &[u8]) -> Outcome {
    let side = if call.command.name == "BZPOPMIN" { Side::Least } else { Side::Greatest };
    let members = pop(call, key, side, 1)?;
    let name = bytes::Bytes::copy_from_slice(key);
    call.propagate(|| vec![word(side.command()), name.clone()]);
    let members = members.into_iter().flat_map(|(m, s)| [Reply::Bulk(m), Reply::Double(s)]);
    Ok(Reply::Array([Reply::Bulk(name)].into_iter().chain(members).collect()))
}

/// BZMPOP timeout numkeys key ... MIN | MAX [COUNT count]
pub fn bzmpop(call: &mut Call) -> Outcome {
    let several = Several::read(call.from(2))?;
    let until_ms = until(call, 1)?;
    if let Some(reply) = several.pop(call)? {
        return Ok(reply);
    }
    wait(call, several.keys, until_ms, Reply::NilArray, Wanted::Members)
}

/// The same for one key, on behalf of a blocked client.
pub fn serve_members(call: &mut Call, key: &Key) -> Option<Reply> {
    let several = Several::read(call.from(2)).ok()?;
    let holds = holds_members(call, key);
    holds.then(|| several.pop_from(call, key).unwrap_or_else(|error| error))
}

/// Whether a blocked pop can be served: another type does not end the wait.
fn holds_members(call: &mut Call, key: &Key) -> bool {
    matches!(call.sorted_set(key), Ok(Some(_)))
}
