//! COMMAND: what the node tells of its own commands.

use bytes::Bytes;

use crate::redis::command::table::{Command, all, find_full};
use crate::redis::command::{Call, Family, Outcome};
use crate::redis::frame::Reply;

/// What is here, by name.
pub const FAMILY: Family = &[
    ("command", command),
    ("command|count", count),
    ("command|docs", docs),
    ("command|info", info),
];

/// COMMAND
pub fn command(_: &mut Call) -> Outcome {
    Ok(Reply::Array(all().iter().map(describe).collect()))
}

/// COMMAND COUNT
pub fn count(_: &mut Call) -> Outcome {
    Ok(Reply::count(all().len()))
}

/// COMMAND DOCS
pub fn docs(_: &mut Call) -> Outcome {
    Ok(Reply::Map(Vec::new()))
}

/// COMMAND INFO [name ...]
pub fn info(call: &mut Call) -> Outcome {
    let names = call.from(2);
    if names.is_empty() {
        return command(call);
    }
    let line = |name: &Bytes| find_full(name).map_or(Reply::NilArray, describe);
    Ok(Reply::Array(names.iter().map(line).collect()))
}

fn describe(command: &Command) -> Reply {
    let statuses = |words: &'static str| {
        let words = words.split(',').filter(|word| !word.is_empty());
        words.filter(|word| *word != "may_replicate").map(Reply::simple).collect()
    };
    let (first, last, step) = command.keys;
    Reply::Array(vec![
        Reply::word(command.lower),
        Reply::Integer(i64::from(command.arity)),
        Reply::Set(statuses(command.told[0])),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        Reply::Set(statuses(command.told[1])),
        Reply::Set(statuses(command.told[2])),
        Reply::Set(Vec::new()),
        Reply::Array(command.subcommands.iter().map(describe).collect()),
    ])
}
