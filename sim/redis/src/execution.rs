//! The executor: one [`apply`] for the wire, the append-only file and replication, one [`execute`]
//! for these, MULTI and scripts.
//!
//! - `dispatch`: which function executes which command
//! - `queue`: what EXEC executes

pub(crate) mod dispatch;
pub(crate) mod queue;

use bytes::Bytes;

use crate::admission::{admit, is_held_back};
use crate::call::Call;
use crate::command::{monitor, transaction};
use crate::errors::{unknown_command, unknown_subcommand};
use crate::execution::dispatch::{Step, step_of};
use crate::frame::Reply;
use crate::node::Node;
use crate::permission::redirect;
use crate::script;
use crate::session::{Block, Closing, Session};
use crate::specification::flags::Flags;
use crate::specification::{Command, find_in};

/// Executes one request from a connection, the master or the node's own file. Its effects are in
/// `node.effects`, what the server must do in `session.after`.
pub fn apply(node: &mut Node, session: &mut Session, args: &[Bytes]) -> Reply {
    if is_from_a_browser(&args[0]) {
        session.replies.closing = Some(Closing::AtOnce);
        return Reply::SILENCE;
    }
    let command = match node.command_of(args) {
        Some(command) => command,
        None => {
            session.last_command = None;
            let refusal = unknown(node, args);
            return refuse(node, session, None, refusal);
        }
    };
    session.last_command = Some(command);
    match admit(node, session, command, args) {
        Err(refusal) => refuse(node, session, Some(command), refusal),
        Ok(()) if is_held_back(node, session, command, args) => hold_back(session, args),
        Ok(()) if session.transaction.is_open() && !transaction::runs_at_once(command.name) => {
            session.transaction.push(args.to_vec());
            Reply::simple("QUEUED")
        }
        Ok(()) => execute(node, session, command, args),
    }
}

/// `POST` and `Host:` indicate a cross-protocol request by a browser: its connection is closed.
fn is_from_a_browser(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"host:") || word.eq_ignore_ascii_case(b"post")
}

fn unknown(node: &Node, args: &[Bytes]) -> Reply {
    match find_in(node.commands(), &args[0]).filter(|command| node.has(command)) {
        Some(container) => unknown_subcommand(container.name, &args[1]),
        None => unknown_command(args),
    }
}

fn refuse(
    node: &mut Node,
    session: &mut Session,
    command: Option<&Command>,
    refusal: Reply,
) -> Reply {
    node.figures.count_error(&refusal);
    session.transaction.refused();
    if command.is_some_and(|command| command.name == "EXEC") {
        if redirect::is_from_cluster(&refusal) {
            transaction::abort(node, session, &refusal);
            return refusal;
        }
        return transaction::abort(node, session, &refusal);
    }
    refusal
}

/// Delays a request for CLIENT PAUSE.
fn hold_back(session: &mut Session, args: &[Bytes]) -> Reply {
    session.blocked = Some(Block::Paused(args.to_vec()));
    Reply::SILENCE
}

/// Executes a command that passed all checks.
pub(crate) fn execute(
    node: &mut Node,
    session: &mut Session,
    command: &'static Command,
    args: &[Bytes],
) -> Reply {
    node.figures.executed += 1;
    let hidden = Flags::SKIP_MONITOR.union(Flags::ADMIN);
    let monitored = !node.clients.monitors.is_empty();
    // A script is shown before it runs, so that it precedes the commands that it calls.
    if monitored && command.flags.intersects(Flags::SKIP_MONITOR) {
        monitor::show(node, session, command, args);
    }
    let mut call = Call { node, session, args, command };
    let outcome = match step_of(command) {
        Step::Answer(run) => run(&mut call),
        Step::Queue(queued) => match queued(&mut call) {
            Ok(Some(queued)) => queue::run(&mut call, &queued, execute),
            Ok(None) => Ok(Reply::NilArray),
            Err(refusal) => Err(refusal),
        },
        Step::Script(program) => {
            program(&mut call).and_then(|program| script::run(&mut call, &program, execute))
        }
    };
    let reply = outcome.unwrap_or_else(|error| error);
    if monitored && !command.flags.intersects(hidden) {
        monitor::show(node, session, command, args);
    }
    if reply.is_error() {
        node.figures.count_error(&reply);
    }
    reply
}
