//! Commands about the connection itself.

use crate::redis::command::{Call, Family, NOT_INTEGER, Outcome, wrong_arity};
use crate::redis::frame::{Reply, integer};
use crate::redis::keyspace::DATABASES;
use crate::redis::session::Closing;

/// What is here, by name.
pub const FAMILY: Family = &[("echo", echo), ("ping", ping), ("quit", quit), ("select", select)];

/// PING [message]
pub fn ping(call: &mut Call) -> Outcome {
    match call.args {
        [_, rest @ ..] if rest.len() < 2 && call.session.only_listens() => {
            let message = rest.first().cloned().unwrap_or_default();
            Ok(Reply::Array(vec![Reply::word("pong"), Reply::Bulk(message)]))
        }
        [_] => Ok(Reply::simple("PONG")),
        [_, message] => Ok(Reply::Bulk(message.clone())),
        _ => Err(wrong_arity("ping")),
    }
}

/// ECHO message
pub fn echo(call: &mut Call) -> Outcome {
    Ok(Reply::Bulk(call.args[1].clone()))
}

/// QUIT
pub fn quit(call: &mut Call) -> Outcome {
    call.session.closing = Some(Closing::AfterOutput);
    Ok(Reply::OK)
}

/// SELECT index
pub fn select(call: &mut Call) -> Outcome {
    let number = integer(&call.args[1]).ok_or(Reply::error(NOT_INTEGER))?;
    if i32::try_from(number).is_err() {
        return Err(Reply::error(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    let db = usize::try_from(number).ok().filter(|db| *db < DATABASES);
    call.session.db = db.ok_or(Reply::error("ERR DB index is out of range"))?;
    Ok(Reply::OK)
}
