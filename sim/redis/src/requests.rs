//! Requests of connected clients: one is executed, then the sessions that were blocked on its
//! effects are served.
//!
//! A session is taken out of its node's clients while its request runs.

use bytes::Bytes;

use crate::call::Call;
use crate::command::serving::serve;
use crate::execution::apply;
use crate::keyspace::Key;
use crate::node::Node;
use crate::session::Block;

/// Executes a request of a connection. The reply is appended to its output buffer, unless the
/// request blocks.
///
/// # Panics
/// If there is no such connection, or it is blocked.
pub fn request(node: &mut Node, id: u64, args: &[Bytes]) {
    let session = node.clients.take(id);
    let mut session = session.expect("it is connected, and asks one thing at a time");
    assert!(session.blocked.is_none(), "a request waits");
    session.client.since_ms[1] = node.clock.now_ms;
    node.propagation.unit += 1;
    let reply = apply(node, &mut session, args);
    let is_asking = session.last_command.is_some_and(|command| command.name == "ASKING");
    session.routing.asking &= is_asking || session.transaction.is_open();
    if session.blocked.is_none() {
        session.replies.answer(&reply);
    }
    for line in node.clients.take_seen() {
        if session.replies.closing.is_none() {
            session.replies.push(&line);
        }
    }
    node.clients.begin_wait(&session, &node.keyspace);
    node.clients.put_back(session);
    // After `put_back`: a session that changed a key it watches is marked too.
    settle(node);
    end_pause(node);
}

/// Follows every execution: marks sessions that watch changed keys, and serves sessions blocked on
/// new keys.
pub(crate) fn settle(node: &mut Node) {
    node.clients.mark_watchers();
    // Repeated, because serving a session may create keys in turn (BLMOVE).
    loop {
        let ready = node.clients.take_ready();
        if ready.is_empty() {
            return;
        }
        for place in ready {
            for id in node.clients.waiting_for(&place) {
                serve_waiting(node, id, &place.1);
            }
        }
        node.clients.mark_watchers();
    }
}

/// Retries a blocked session's command for a key.
fn serve_waiting(node: &mut Node, id: u64, key: &Key) {
    let Some(mut session) = node.clients.take(id) else { return };
    let Some(Block::Keys(pop)) = session.blocked.clone() else {
        return node.clients.put_back(session);
    };
    let db = std::mem::replace(&mut session.db, pop.db);
    // Not one unit with the command that created the key: no MULTI surrounds both.
    node.propagation.unit += 1;
    let mut call = Call { node, session: &mut session, args: &pop.args, command: pop.command };
    let served = serve(&mut call, key, pop.wanted);
    session.db = db;
    if let Some(reply) = &served {
        session.replies.answer(reply);
    }
    // Put back first: `unblock` reads from the session which keys it is queued for.
    node.clients.put_back(session);
    if served.is_some() {
        node.clients.unblock(id);
    }
}

/// Ends waits at their timeout, and the pause at its end.
pub fn end_waits(node: &mut Node) {
    end_pause(node);
    for id in node.clients.late(node.clock.now_ms) {
        node.end_wait(id);
    }
    node.clients.close_idle(node.clock.now_ms);
}

fn end_pause(node: &mut Node) {
    if node.clients.end_pause(node.clock.now_ms) {
        resume_paused(node);
    }
}

/// Executes the requests that a pause delayed.
pub(crate) fn resume_paused(node: &mut Node) {
    for id in node.clients.take_held() {
        if let Some(args) = node.clients.release(id) {
            request(node, id, &args);
        }
    }
}
