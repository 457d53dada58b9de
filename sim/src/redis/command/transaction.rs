//! MULTI, EXEC, DISCARD. A transaction is a queue of the session; EXEC runs it in one go.

use crate::redis::command::{Call, Kind, Outcome, execute, find};
use crate::redis::frame::{Arguments, Reply};
use crate::redis::node::Session;

/// Whether a command is executed inside MULTI instead of queued.
pub fn runs_at_once(name: &str) -> bool {
    matches!(name, "EXEC" | "DISCARD" | "MULTI" | "QUIT")
}

/// Whether EXEC would execute a write.
pub fn would_write(name: &str, session: &Session) -> bool {
    let writes = |args: &Arguments| find(&args[0]).is_some_and(|c| c.kind == Kind::Write);
    name == "EXEC" && session.queued.as_ref().is_some_and(|queued| queued.iter().any(writes))
}

/// Gives a transaction up because EXEC itself was refused.
pub fn abort(session: &mut Session, refusal: &Reply) -> Reply {
    end(session);
    let Reply::Error(why) = refusal else { return refusal.clone() };
    let why = why.strip_prefix(b"ERR ").unwrap_or(why);
    let head = &b"EXECABORT Transaction discarded because of: "[..];
    Reply::Error([head, why].concat().into())
}

fn end(session: &mut Session) {
    session.queued = None;
    session.broken = false;
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
    end(call.session);
    Ok(Reply::OK)
}

/// EXEC
pub fn exec(call: &mut Call) -> Outcome {
    let Some(queued) = call.session.queued.take() else {
        return Err(Reply::error("ERR EXEC without MULTI"));
    };
    if std::mem::take(&mut call.session.broken) {
        return Err(Reply::error("EXECABORT Transaction discarded because of previous errors."));
    }
    call.session.in_exec = true;
    let mut replies = Vec::with_capacity(queued.len());
    for args in &queued {
        let command = find(&args[0]).expect("only known commands are queued");
        replies.push(execute(call.node, call.session, command, args));
    }
    call.session.in_exec = false;
    Ok(Reply::Array(replies))
}
