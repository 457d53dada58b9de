//! What EXEC executes: the queue of a transaction, without interruption.

use bytes::BytesMut;

use crate::call::{Call, Execute, Outcome};
use crate::frame::{Arguments, Protocol, Reply};

/// Executes the queued commands; returns all replies in one.
pub fn run(call: &mut Call, queued: &[Arguments], execute: Execute) -> Outcome {
    call.session.transaction.run(queued.len());
    debug_assert!(call.session.replies.aside.is_none(), "EXEC runs no EXEC");
    call.session.replies.aside = Some(Vec::new());
    let mut replies = Vec::with_capacity(queued.len());
    for args in queued {
        let command = call.node.command_of(args).expect("only known commands are queued");
        let spoken = call.session.replies.protocol;
        let reply = execute(call.node, call.session, command, args);
        // HELLO applies to later replies only: Redis has already written the earlier ones.
        if call.session.replies.protocol != spoken {
            replies.iter_mut().for_each(|reply| *reply = encoded(reply, spoken));
        }
        let pushes = call.session.replies.aside.replace(Vec::new()).unwrap_or_default();
        replies.push(if pushes.is_empty() { reply } else { behind(pushes, reply) });
        if call.session.blocked.is_some() {
            // A script does not terminate: the commands after it are never reached.
            break;
        }
    }
    call.session.replies.aside = None;
    call.session.transaction.end_run();
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
fn behind(mut pushes: Vec<Reply>, reply: Reply) -> Reply {
    pushes.push(reply);
    Reply::Several(pushes)
}
