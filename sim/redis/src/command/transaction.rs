//! MULTI, EXEC, DISCARD, WATCH. A transaction is a queue of the session; EXEC executes it without
//! interruption.

use crate::call::{Call, Family, Outcome};
use crate::frame::{Arguments, Reply};
use crate::keyspace::Key;
use crate::node::Node;
use crate::session::Session;
use crate::session::transaction::Watched;

/// The commands of this file, by name.
pub const FAMILY: Family =
    &[("discard", discard), ("multi", multi), ("unwatch", unwatch), ("watch", watch)];

/// Whether a command is executed inside MULTI instead of queued.
pub fn runs_at_once(name: &str) -> bool {
    matches!(name, "EXEC" | "DISCARD" | "MULTI" | "QUIT" | "RESET" | "WATCH")
}

/// Aborts a transaction, if there is one, because EXEC itself was refused.
pub fn abort(node: &mut Node, session: &mut Session, refusal: &Reply) -> Reply {
    session.transaction.close();
    node.clients.unwatch(session);
    let Reply::Error(why) = refusal else { return refusal.clone() };
    let why = why.strip_prefix(b"ERR ").unwrap_or(why);
    let head = &b"EXECABORT Transaction discarded because of: "[..];
    Reply::Error([head, why].concat().into())
}

/// Discards the queue and the watched keys.
pub fn end(call: &mut Call) {
    call.session.transaction.close();
    call.node.clients.unwatch(call.session);
}

/// MULTI
pub fn multi(call: &mut Call) -> Outcome {
    if call.session.transaction.is_open() {
        return Err(Reply::error("ERR MULTI calls can not be nested"));
    }
    call.session.transaction.open();
    Ok(Reply::OK)
}

/// DISCARD
pub fn discard(call: &mut Call) -> Outcome {
    if !call.session.transaction.is_open() {
        return Err(Reply::error("ERR DISCARD without MULTI"));
    }
    end(call);
    Ok(Reply::OK)
}

/// EXEC: the commands to execute now; `None` if a watched key was modified.
///
/// # Errors
/// If there is no transaction, or one of its commands was refused.
pub fn exec(call: &mut Call) -> Result<Option<Vec<Arguments>>, Reply> {
    // Read first: `close` and `unwatch` reset what decides.
    let is_broken = call.session.transaction.is_broken();
    let Some(queued) = call.session.transaction.close() else {
        return Err(Reply::error("ERR EXEC without MULTI"));
    };
    let is_touched = call.session.transaction.is_touched() || watched_expired(call);
    call.node.clients.unwatch(call.session);
    if is_broken {
        return Err(Reply::error("EXECABORT Transaction discarded because of previous errors."));
    }
    Ok((!is_touched).then_some(queued))
}

/// Whether a watched key has expired since it was watched (`isWatchedKeyExpired`).
fn watched_expired(call: &Call) -> bool {
    let (node, now) = (&call.node, call.node.clock.now_ms);
    let expired = |watched: &Watched| {
        let entry = node.keyspace.db(watched.db).get(&watched.key);
        !watched.had_expired && entry.is_some_and(|entry| entry.is_expired(now))
    };
    call.session.transaction.watched().iter().any(expired)
}

/// WATCH key ...
pub fn watch(call: &mut Call) -> Outcome {
    if call.session.transaction.is_open() {
        return Err(Reply::error("ERR WATCH inside MULTI is not allowed"));
    }
    let (db, id, now) = (call.session.db, call.session.id, call.node.clock.now_ms);
    for name in call.from(1) {
        // EXEC refuses already, whatever happens to further keys.
        if call.session.transaction.is_touched() {
            break;
        }
        let key = Key::from(&name[..]);
        let entry = call.node.keyspace.db(db).get(&key);
        let had_expired = entry.is_some_and(|entry| entry.is_expired(now));
        if call.session.transaction.watch(Watched { db, key: Key::clone(&key), had_expired }) {
            call.node.clients.watchers.entry((db, key)).or_default().push(id);
        }
    }
    Ok(Reply::OK)
}

/// UNWATCH
pub fn unwatch(call: &mut Call) -> Outcome {
    call.node.clients.unwatch(call.session);
    Ok(Reply::OK)
}
