//! Commands about the connection itself, and COMMAND, which clients ask when they connect.

use bytes::Bytes;

use crate::redis::command::{
    Call, NOT_INTEGER, Outcome, SYNTAX, TABLE, find, unknown_subcommand, wrong_arity,
};
use crate::redis::frame::{Reply, integer};
use crate::redis::keyspace::DATABASES;
use crate::redis::node::After;

/// PING [message]
pub fn ping(call: &mut Call) -> Outcome {
    match call.args {
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
    call.session.after = After::Close;
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

/// CLIENT SETNAME | GETNAME | ID | SETINFO
pub fn client(call: &mut Call) -> Outcome {
    let subcommand = call.word(1);
    match (&subcommand[..], call.from(2)) {
        (b"SETNAME", [name]) => {
            if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
                return Err(Reply::error(
                    "ERR Client names cannot contain spaces, newlines or special characters.",
                ));
            }
            call.session.name = Bytes::copy_from_slice(name);
            Ok(Reply::OK)
        }
        (b"GETNAME", []) if call.session.name.is_empty() => Ok(Reply::Nil),
        (b"GETNAME", []) => Ok(Reply::Bulk(call.session.name.clone())),
        (b"ID", []) => Ok(Reply::Integer(i64::try_from(call.session.id).unwrap_or(i64::MAX))),
        (b"NO-EVICT", [word]) => match &word.to_ascii_uppercase()[..] {
            b"ON" | b"OFF" => Ok(Reply::OK),
            _ => Err(Reply::error(SYNTAX)),
        },
        (b"SETNAME" | b"GETNAME" | b"ID" | b"NO-EVICT", _) => {
            let name = String::from_utf8_lossy(&subcommand).to_ascii_lowercase();
            Err(wrong_arity(&format!("client|{name}")))
        }
        _ => Err(unknown_subcommand(call.args)),
    }
}

/// COMMAND [COUNT | DOCS | INFO name ...]: name, arity and flags; nothing about keys.
pub fn command(call: &mut Call) -> Outcome {
    match call.args {
        [_] => Ok(Reply::Array(TABLE.iter().map(describe).collect())),
        [_, ..] => match &call.word(1)[..] {
            b"COUNT" => Ok(Reply::Integer(i64::try_from(TABLE.len()).unwrap_or(i64::MAX))),
            b"DOCS" => Ok(Reply::Array(Vec::new())),
            b"INFO" => {
                let line = |name: &Bytes| find(name).map_or(Reply::NilArray, describe);
                Ok(Reply::Array(call.from(2).iter().map(line).collect()))
            }
            _ => Err(unknown_subcommand(call.args)),
        },
        [] => Err(wrong_arity("command")),
    }
}

fn describe(command: &super::Command) -> Reply {
    let flag = if command.kind == super::Kind::Write { "write" } else { "readonly" };
    Reply::Array(vec![
        Reply::Bulk(Bytes::from(command.name.to_ascii_lowercase())),
        Reply::Integer(i64::from(command.arity)),
        Reply::Array(vec![Reply::simple(flag)]),
        Reply::Integer(0),
        Reply::Integer(0),
        Reply::Integer(0),
    ])
}
