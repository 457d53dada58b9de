//! Commands about the connection itself.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::command::acl::authenticate;
use crate::command::client::check_name;
use crate::command::transaction::end;
use crate::compat::Difference;
use crate::errors::{NOT_INTEGER, wrong_arity};
use crate::frame::word;
use crate::frame::{Protocol, Reply, integer};
use crate::keyspace::DATABASES;
use crate::node::Node;
use crate::session::{Closing, ReplyMode};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("echo", echo),
    ("hello", hello),
    ("ping", ping),
    ("quit", quit),
    ("reset", reset),
    ("select", select),
];

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
    call.session.replies.closing = Some(Closing::AfterOutput);
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
    if call.node.cluster.is_some() && number != 0 {
        return Err(Reply::error("ERR SELECT is not allowed in cluster mode"));
    }
    call.session.db = db.ok_or(Reply::error("ERR DB index is out of range"))?;
    Ok(Reply::OK)
}

/// HELLO [protocol [AUTH user password] [SETNAME name]]
pub fn hello(call: &mut Call) -> Outcome {
    let protocol = match call.args.get(1).map(|text| integer(text)) {
        None => call.session.replies.protocol,
        Some(Some(2)) => Protocol::Two,
        Some(Some(3)) => Protocol::Three,
        Some(Some(_)) => return Err(Reply::error("NOPROTO unsupported protocol version")),
        Some(None) => {
            return Err(Reply::error("ERR Protocol version is not an integer or out of range"));
        }
    };
    let mut name = None;
    let mut user = None;
    let mut rest = call.from(2);
    while let Some((option, words)) = rest.split_first() {
        rest = match (&option.to_ascii_uppercase()[..], words) {
            (b"AUTH", [who, password, after @ ..]) => {
                user = Some((who, password));
                after
            }
            (b"SETNAME", [new, after @ ..]) => {
                check_name(new)?;
                name = Some(new);
                after
            }
            _ => {
                let head = &b"ERR Syntax error in HELLO option '"[..];
                return Err(Reply::Error([head, option, b"'"].concat().into()));
            }
        };
    }
    // First: if the password is wrong, name and protocol stay as they are.
    if let Some((user, password)) = user {
        authenticate(call, user, password)?;
    }
    if call.session.user.is_none() && call.node.users.requires_password() {
        return Err(unauthenticated(call.node));
    }
    if let Some(name) = name {
        call.session.client.name = Bytes::copy_from_slice(name);
    }
    call.session.replies.protocol = protocol;
    Ok(greeting(call))
}

fn unauthenticated(node: &Node) -> Reply {
    let protocol = if node.differs(Difference::NamesUser) { "<proto> " } else { "" };
    let text = format!(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
         {protocol}AUTH <user> <pass> option can be used to authenticate the client and select the \
         RESP protocol version at the same time"
    );
    Reply::Error(text.into())
}

fn greeting(call: &Call) -> Reply {
    let is_sentinel = call.node.sentinel.is_some();
    let mode = call.node.mode();
    let compat = call.node.config.compat;
    let mut facts = vec![
        Reply::word("server"),
        Reply::word(compat.server()),
        Reply::word("version"),
        Reply::word(compat.version()),
        Reply::word("proto"),
        Reply::Integer(if call.session.replies.protocol == Protocol::Three { 3 } else { 2 }),
        Reply::word("id"),
        Reply::Integer(i64::try_from(call.session.id).unwrap_or(i64::MAX)),
        Reply::word("mode"),
        Reply::word(mode),
    ];
    if !is_sentinel {
        let role = if call.node.peers.master.is_some() { "replica" } else { "master" };
        facts.extend([Reply::word("role"), Reply::word(role)]);
    }
    facts.extend([Reply::word("modules"), Reply::Array(modules(call.node))]);
    Reply::Map(facts)
}

/// Redis 8 includes a module.
fn modules(node: &Node) -> Vec<Reply> {
    let vectors = Reply::Map(vec![
        Reply::word("name"),
        Reply::word("vectorset"),
        Reply::word("ver"),
        Reply::Integer(1),
        Reply::word("path"),
        Reply::word(""),
        Reply::word("args"),
        Reply::Array(Vec::new()),
    ]);
    if node.differs(Difference::VectorSets) { vec![vectors] } else { Vec::new() }
}

/// RESET: restores the initial state of the connection.
pub fn reset(call: &mut Call) -> Outcome {
    end(call);
    call.node.clients.forget_interests(call.session);
    let session = &mut *call.session;
    (session.db, session.replies.protocol, session.replies.mode) =
        (0, Protocol::Two, ReplyMode::On);
    (session.client.name, session.stays) = (Bytes::new(), false);
    session.routing.reads_here = false;
    session.user = (!call.node.users.requires_password()).then(|| word("default"));
    Ok(Reply::simple("RESET"))
}
