//! MULTI, EXEC, DISCARD, WATCH. A transaction is a queue in the session; EXEC runs it atomically.

use bytes::BytesMut;

use crate::command::admission::execute;
use crate::command::{Call, Family, Outcome};
use crate::frame::{Protocol, Reply};
use crate::keyspace::Key;
use crate::node::Node;
use crate::session::Session;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("discard", discard),
    ("exec", exec),
    ("multi", multi),
    ("unwatch", unwatch),
    ("watch", watch),
];

/// Whether a command is executed inside MULTI instead of queued.
pub fn runs_at_once(name: &str) -> bool {
    matches!(name, "EXEC" | "DISCARD" | "MULTI" | "QUIT" | "RESET" | "WATCH")
}

/// Aborts a transaction, if there is one, because EXEC itself was refused.
pub fn abort(node: &mut Node, session: &mut Session, refusal: &Reply) -> Reply {
    session.queued = None;
    session.broken = false;
    node.clients.unwatch(session);
    let Reply::Error(why) = refusal else { return refusal.clone() };
    let why = why.strip_prefix(b"ERR ").unwrap_or(why);
    let head = &b"EXECABORT Transaction discarded because of: "[..];
    Reply::Error([head, why].concat().into())
}

/// Discards the queue and the watched keys.
pub fn end(call: &mut Call) {
    call.session.queued = None;
    call.session.broken = false;
    call.node.clients.unwatch(call.session);
}

/// MULTI
pub fn multi(call: &mut Call) -> Outcome {
    if call.session.queued.is_some() {
        return Err(Reply::error("ERR MULTI calls can not be nested"));
    }
    call.session.queued = Some(Vec::new());
    Ok(Reply::OK)
}

/// DISCARD
pub fn discard(call: &mut Call) -> Outcome {
    if call.session.queued.is_none() {
        return Err(Reply::error("ERR DISCARD without MULTI"));
    }
    end(call);
    Ok(Reply::OK)
}

/// EXEC
pub fn exec(call: &mut Call) -> Outcome {
    let Some(queued) = call.session.queued.take() else {
        return Err(Reply::error("ERR EXEC without MULTI"));
    };
    let broken = call.session.broken;
    let dirty = call.session.dirty || watched_expired(call);
    end(call);
    if broken {
        return Err(Reply::error("EXECABORT Transaction discarded because of previous errors."));
    }
    if dirty {
        return Ok(Reply::NilArray);
    }
    call.session.in_exec = true;
    call.session.running = Some(queued.len());
    call.session.aside = Some(Vec::new());
    let mut replies = Vec::with_capacity(queued.len());
    for args in &queued {
        let command = call.node.command_of(args).expect("only known commands are queued");
        let spoken = call.session.protocol;
        let reply = execute(call.node, call.session, command, args);
        if call.session.protocol != spoken {
            replies.iter_mut().for_each(|reply| *reply = encoded(reply, spoken));
        }
        let told = call.session.aside.replace(Vec::new()).unwrap_or_default();
        replies.push(if told.is_empty() { reply } else { behind(told, reply) });
        if call.session.blocked.is_some() {
            // A script does not terminate: the commands after it are never reached.
            break;
        }
    }
    call.session.aside = None;
    call.session.running = None;
    call.session.in_exec = false;
    if call.session.blocked.is_some() {
        return Ok(Reply::SILENCE);
    }
    Ok(Reply::Array(replies))
}

/// A reply encoded in the protocol before HELLO changes it.
fn encoded(reply: &Reply, protocol: Protocol) -> Reply {
    let mut bytes = BytesMut::new();
    reply.encode_in(protocol, &mut bytes);
    Reply::Encoded(bytes.freeze())
}

/// A reply after the push messages that precede it.
fn behind(mut told: Vec<Reply>, reply: Reply) -> Reply {
    told.push(reply);
    Reply::Several(told)
}

/// Whether a watched key has expired since it was watched (`isWatchedKeyExpired`).
fn watched_expired(call: &Call) -> bool {
    let (node, now) = (&call.node, call.node.now_ms);
    let expired = |(db, key, before): &(usize, Key, bool)| {
        !before && node.keyspace.db(*db).get(key).is_some_and(|entry| entry.is_expired(now))
    };
    call.session.watched.iter().any(expired)
}

/// WATCH key ...
pub fn watch(call: &mut Call) -> Outcome {
    if call.session.queued.is_some() {
        return Err(Reply::error("ERR WATCH inside MULTI is not allowed"));
    }
    let (db, id, now) = (call.session.db, call.session.id, call.node.now_ms);
    for name in call.from(1) {
        if call.session.dirty {
            break;
        }
        let key = Key::from(&name[..]);
        if call.session.watched.iter().any(|(at, known, _)| (*at, known) == (db, &key)) {
            continue;
        }
        let entry = call.node.keyspace.db(db).get(&key);
        let expired = entry.is_some_and(|entry| entry.is_expired(now));
        call.session.watched.push((db, Key::clone(&key), expired));
        call.node.clients.watchers.entry((db, key)).or_default().push(id);
    }
    Ok(Reply::OK)
}

/// UNWATCH
pub fn unwatch(call: &mut Call) -> Outcome {
    call.node.clients.unwatch(call.session);
    Ok(Reply::OK)
}
