//! The restrictions of a session's user, and their records in ACL LOG.

use bytes::Bytes;

use crate::compat::Difference;
use crate::frame::Reply;
use crate::node::Node;
use crate::node::client::line;
use crate::session::Session;
use crate::specification::Command;
use crate::users::{AclLogEntry, DEFAULT, Denial};

/// The user of a session.
pub fn user_of(session: &Session) -> &[u8] {
    session.user.as_deref().unwrap_or(DEFAULT)
}

/// Refuses a request that the session's user may not run.
pub fn check(
    node: &mut Node,
    session: &Session,
    command: &Command,
    args: &[Bytes],
) -> Result<(), Reply> {
    let Some(denial) = node.users.denies(user_of(session), command, args) else { return Ok(()) };
    let context = if session.transaction.is_open() { "multi" } else { "toplevel" };
    note(node, session, context, &denial, command);
    if node.differs(Difference::NamesUser) {
        let text = denial.later_text(user_of(session), command.lower);
        return Err(Reply::Error(format!("NOPERM {text}").into()));
    }
    Err(Reply::Error(denial.text(command.lower).into()))
}

/// The same for a command of a script.
pub fn check_in_script(
    node: &mut Node,
    session: &Session,
    command: &Command,
    args: &[Bytes],
) -> Result<(), Reply> {
    let Some(denial) = node.users.denies(user_of(session), command, args) else { return Ok(()) };
    note(node, session, "lua", &denial, command);
    if node.differs(Difference::NamesUser) {
        let text = denial.later_text(user_of(session), command.lower);
        return Err(Reply::Error(format!("ERR ACL failure in script: {text}").into()));
    }
    Err(Reply::error(match denial {
        Denial::Command => "ERR The user executing the script can't run this command or subcommand",
        Denial::Key(_) => {
            "ERR The user executing the script can't access at least one of the keys mentioned in \
             the command arguments"
        }
        Denial::Channel(_) => {
            "ERR The user executing the script can't publish to the channel mentioned in the \
             command"
        }
    }))
}

fn note(
    node: &mut Node,
    session: &Session,
    context: &'static str,
    denial: &Denial,
    command: &Command,
) {
    let (reason, object) = match denial {
        Denial::Command => ("command", Bytes::from_static(command.lower.as_bytes())),
        Denial::Key(key) => ("key", Bytes::copy_from_slice(key)),
        Denial::Channel(channel) => ("channel", Bytes::copy_from_slice(channel)),
    };
    note_refusal(node, session, (reason, context, object), user_of(session));
}

/// Records a refusal in ACL LOG: the reason, the context and the object.
pub fn note_refusal(
    node: &mut Node,
    session: &Session,
    (reason, context, object): (&'static str, &'static str, Bytes),
    user: &[u8],
) {
    let client = Bytes::from(line(node, session));
    let (user, at_ms) = (Bytes::copy_from_slice(user), node.clock.now_ms);
    node.users.note(AclLogEntry { count: 1, reason, context, object, user, at_ms, client });
}
