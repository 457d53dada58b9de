//! COMMAND: what the node reports about its own commands.
//!
//! DOCS only reports the group of a command and its subcommands: the node has no descriptions.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::errors::SYNTAX;
use crate::frame::Reply;
use crate::glob::matches;
use crate::node::Node;
use crate::specification::keys::{KeySpecification, keys_of, numbers, specifications};
use crate::specification::{Command, find_full_in, find_in};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("command", command),
    ("command|count", count),
    ("command|docs", docs),
    ("command|getkeys", getkeys),
    ("command|getkeysandflags", getkeysandflags),
    ("command|help", help),
    ("command|info", info),
    ("command|list", list),
];

/// Redis's notes on key specifications, by command and index.
const NOTES: [(&str, usize, &str); 9] = [
    ("eval", 0, "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"),
    (
        "eval_ro",
        0,
        "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS",
    ),
    ("fcall", 0, "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"),
    (
        "fcall_ro",
        0,
        "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS",
    ),
    ("getex", 0, "RW and UPDATE because it changes the TTL"),
    ("set", 0, "RW and ACCESS due to the optional `GET` argument"),
    (
        "sort",
        1,
        "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive \
         from the content of the key we sort",
    ),
    (
        "sort",
        2,
        "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear \
         anywhere in the argument array",
    ),
    (
        "sort_ro",
        1,
        "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive \
         from the content of the key we sort",
    ),
];

/// HELP of every command that has subcommands: those of the node, by name.
pub fn help(call: &mut Call) -> Outcome {
    let name = call.command.name.split('|').next().unwrap_or_default();
    let head = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let container = find_in(call.node.commands(), name.as_bytes())
        .map_or(&[][..], |container| &container.subcommands);
    let parts = container.iter().filter(|part| call.node.has(part));
    let parts = parts.filter_map(|part| part.name.split('|').nth(1));
    let parts = parts.filter(|part| *part != "HELP").map(str::to_owned);
    let lines = [head].into_iter().chain(parts);
    let lines = lines.chain(["HELP", "    Prints this help."].map(str::to_owned));
    Ok(Reply::Array(lines.map(|line| Reply::Simple(Bytes::from(line))).collect()))
}

/// The error for an invalid form of a known subcommand.
pub fn unknown_form(container: &str, word: &[u8]) -> Reply {
    let head = &b"ERR unknown subcommand or wrong number of arguments for '"[..];
    let tail = format!("'. Try {container} HELP.");
    Reply::Error([head, &word[..word.len().min(128)], tail.as_bytes()].concat().into())
}

/// The commands that the node has, by name.
fn known(node: &Node) -> impl Iterator<Item = &'static Command> {
    node.commands().iter().filter(|command| node.has(command))
}

/// The command of a full name, if the node has it.
fn named(node: &Node, name: &[u8]) -> Option<&'static Command> {
    find_full_in(node.commands(), name).filter(|command| node.has(command))
}

/// The subcommands that the node has, by name.
fn parts(node: &Node, command: &'static Command) -> impl Iterator<Item = &'static Command> {
    command.subcommands.iter().filter(|command| node.has(command))
}

/// COMMAND
pub fn command(call: &mut Call) -> Outcome {
    Ok(Reply::Array(known(call.node).map(|command| describe(call.node, command)).collect()))
}

/// COMMAND COUNT
pub fn count(call: &mut Call) -> Outcome {
    Ok(Reply::count(known(call.node).count()))
}

/// COMMAND INFO [name ...]
pub fn info(call: &mut Call) -> Outcome {
    let names = call.from(2);
    if names.is_empty() {
        return command(call);
    }
    let node = &*call.node;
    let line = |name: &Bytes| named(node, name).map_or(Reply::Nil, |found| describe(node, found));
    Ok(Reply::Array(names.iter().map(line).collect()))
}

/// COMMAND DOCS [name ...]: see the head of this file.
pub fn docs(call: &mut Call) -> Outcome {
    let node = &*call.node;
    let commands: Vec<&'static Command> = match call.from(2) {
        [] => known(node).collect(),
        names => names.iter().filter_map(|name| named(node, name)).collect(),
    };
    Ok(Reply::Map(commands.into_iter().flat_map(|command| document(node, command)).collect()))
}

fn document(node: &Node, command: &'static Command) -> [Reply; 2] {
    let mut facts = vec![Reply::word("group"), Reply::word(group(command))];
    if !command.subcommands.is_empty() {
        facts.push(Reply::word("subcommands"));
        let parts = parts(node, command).flat_map(|part| document(node, part));
        facts.push(Reply::Map(parts.collect()));
    }
    [Reply::word(command.lower), Reply::Map(facts)]
}

/// The group of a command, derived from its categories.
fn group(command: &Command) -> &'static str {
    let belongs = |category: &str| command.documented[1].split(',').any(|word| word == category);
    let groups = [
        ("@string", "string"),
        ("@hash", "hash"),
        ("@list", "list"),
        ("@sortedset", "sorted-set"),
        ("@set", "set"),
        ("@pubsub", "pubsub"),
        ("@transaction", "transactions"),
        ("@scripting", "scripting"),
        ("@connection", "connection"),
        ("@keyspace", "generic"),
    ];
    groups.iter().find(|(category, _)| belongs(category)).map_or("server", |(_, group)| group)
}

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]
pub fn list(call: &mut Call) -> Outcome {
    let (kind, value) = match call.from(2) {
        [] => return Ok(names_of(known(call.node))),
        [word, kind, value] if word.eq_ignore_ascii_case(b"FILTERBY") => (kind, value),
        _ => return Err(Reply::error(SYNTAX)),
    };
    let node = &*call.node;
    let everything =
        known(node).flat_map(|command| [command].into_iter().chain(parts(node, command)));
    match &kind.to_ascii_uppercase()[..] {
        b"MODULE" => Ok(Reply::Array(Vec::new())),
        b"ACLCAT" => {
            let category = [&b"@"[..], &value.to_ascii_lowercase()].concat();
            let belongs =
                |c: &&Command| c.documented[1].split(',').any(|w| w.as_bytes() == category);
            Ok(names_of(everything.filter(belongs)))
        }
        b"PATTERN" => {
            let pattern = value.to_ascii_lowercase();
            Ok(names_of(everything.filter(|c| matches(&pattern, c.lower.as_bytes()))))
        }
        _ => Err(Reply::error(SYNTAX)),
    }
}

fn names_of<'a>(commands: impl Iterator<Item = &'a Command>) -> Reply {
    Reply::Array(commands.map(|command| Reply::word(command.lower)).collect())
}

/// COMMAND GETKEYS request
pub fn getkeys(call: &mut Call) -> Outcome {
    let request = call.from(2);
    found_keys(call.node, request, |at, _| Reply::Bulk(request[at].clone()))
}

/// COMMAND GETKEYSANDFLAGS request
pub fn getkeysandflags(call: &mut Call) -> Outcome {
    let request = call.from(2);
    found_keys(call.node, request, |at, flags| {
        let flags = flags.split('+').map(Reply::simple).collect();
        Reply::Array(vec![Reply::Bulk(request[at].clone()), Reply::Set(flags)])
    })
}

fn found_keys(
    node: &Node,
    request: &[Bytes],
    show: impl Fn(usize, &'static str) -> Reply,
) -> Outcome {
    let command = node.command_of(request).ok_or(Reply::error("ERR Invalid command specified"))?;
    if command.documented[3].is_empty() {
        return Err(Reply::error("ERR The command has no key arguments"));
    }
    if !command.takes(request.len()) {
        return Err(Reply::error("ERR Invalid number of arguments specified for command"));
    }
    let keys = keys_of(command, request);
    if keys.is_empty() && !command.documented[0].contains("no_mandatory_keys") {
        return Err(Reply::error("ERR Invalid arguments specified for command"));
    }
    Ok(Reply::Array(keys.into_iter().map(|key| show(key.at, key.flags)).collect()))
}

fn describe(node: &Node, command: &'static Command) -> Reply {
    let statuses = |words: &'static str| {
        let words = words.split(',').filter(|word| !word.is_empty());
        words.filter(|word| *word != "may_replicate").map(Reply::simple).collect()
    };
    let (first, last, step) = command.keys;
    let specifications = specifications(command).enumerate();
    let specifications = specifications.map(|(at, specification)| {
        let noted =
            |(name, place, _): &&(&str, usize, &str)| (*name, *place) == (command.lower, at);
        let note = NOTES.iter().find(noted).filter(|_| specification.noted);
        describe_specification(&specification, note.map(|(_, _, note)| *note))
    });
    let tips = command.documented[2].split(',').filter(|tip| !tip.is_empty());
    Reply::Array(vec![
        Reply::word(command.lower),
        Reply::Integer(i64::from(command.arity)),
        Reply::Set(statuses(command.documented[0])),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        Reply::Set(statuses(command.documented[1])),
        Reply::Set(tips.map(Reply::word).collect()),
        Reply::Set(specifications.collect()),
        Reply::Array(parts(node, command).map(|part| describe(node, part)).collect()),
    ])
}

fn describe_specification(specification: &KeySpecification, note: Option<&'static str>) -> Reply {
    let mut items = Vec::new();
    if let Some(note) = note {
        items.extend([Reply::word("notes"), Reply::word(note)]);
    }
    let flags = specification.flags.split('+').map(Reply::simple).collect();
    items.extend([
        Reply::word("flags"),
        Reply::Set(flags),
        Reply::word("begin_search"),
        typed(specification.begin, &["index"]),
        Reply::word("find_keys"),
        match specification.find.starts_with("range") {
            true => typed(specification.find, &["lastkey", "keystep", "limit"]),
            false => typed(specification.find, &["keynumidx", "firstkey", "keystep"]),
        },
    ]);
    Reply::Map(items)
}

/// `kind:numbers` with the names of the numbers.
fn typed(text: &'static str, names: &[&'static str]) -> Reply {
    let kind = text.split(':').next().unwrap_or_default();
    let pairs = names.iter().zip(numbers(text));
    let pairs = pairs.flat_map(|(name, number)| [Reply::word(name), Reply::Integer(number)]);
    Reply::Map(vec![
        Reply::word("type"),
        Reply::word(kind),
        Reply::word("spec"),
        Reply::Map(pairs.collect()),
    ])
}
