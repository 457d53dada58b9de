//! CLIENT: what a connection says of itself and does to others.

use bytes::Bytes;

use crate::redis::command::{Call, Family, Outcome, SYNTAX, container};
use crate::redis::frame::Reply;

/// What is here, by name.
pub const FAMILY: Family = &[
    ("client", container),
    ("client|getname", getname),
    ("client|id", id),
    ("client|no-evict", no_evict),
    ("client|setname", setname),
];

/// CLIENT SETNAME name
pub fn setname(call: &mut Call) -> Outcome {
    let name = &call.args[2];
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Err(Reply::error(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    call.session.name = Bytes::copy_from_slice(name);
    Ok(Reply::OK)
}

/// CLIENT GETNAME
pub fn getname(call: &mut Call) -> Outcome {
    if call.session.name.is_empty() {
        return Ok(Reply::Nil);
    }
    Ok(Reply::Bulk(call.session.name.clone()))
}

/// CLIENT ID
pub fn id(call: &mut Call) -> Outcome {
    Ok(Reply::Integer(i64::try_from(call.session.id).unwrap_or(i64::MAX)))
}

/// CLIENT NO-EVICT ON | OFF
pub fn no_evict(call: &mut Call) -> Outcome {
    match &call.word(2)[..] {
        b"ON" | b"OFF" => Ok(Reply::OK),
        _ => Err(Reply::error(SYNTAX)),
    }
}
