//! The checks before every command: the refusals of `processCommand`, in its order.

use bytes::Bytes;

use crate::command::scripting;
use crate::compat::Difference;
use crate::errors::wrong_arity;
use crate::eviction;
use crate::frame::Reply;
use crate::node::Node;
use crate::permission::{MASTERDOWN, OOM, access, check_write, is_stale, redirect};
use crate::script::declared;
use crate::session::Session;
use crate::specification::Command;
use crate::specification::flags::Flags;

const LOADING: &str = "LOADING Redis is loading the dataset in memory";

/// Refuses a command that is not allowed now.
///
/// # Errors
/// Redis's text for the first reason to refuse.
pub fn admit(
    node: &mut Node,
    session: &mut Session,
    command: &'static Command,
    args: &[Bytes],
) -> Result<(), Reply> {
    if !command.takes(args.len()) {
        return Err(wrong_arity(command.lower));
    }
    let is_allowed = command.flags.intersects(Flags::NO_AUTH);
    if session.user.is_none() && !is_allowed && node.users.requires_password() {
        return Err(Reply::error("NOAUTH Authentication required."));
    }
    if session.transaction.is_open() && may_not_be_queued(node, command) {
        return Err(not_queued(node, command));
    }
    if !session.replication.from_master {
        // The master has checked what it propagates: a refusal here would make copies differ.
        access::check(node, session, command, args)?;
    }
    let flags = flags_of(node, session, command, args);
    redirect::check(node, session, command, args, flags)?;
    if !node.startup.replays && !session.replication.from_master {
        // A replica evicts nothing itself: its master propagates each deletion.
        check_memory(node, session, command, flags)?;
    }
    if flags.intersects(Flags::WRITE) && !node.startup.replays {
        // A node writes while it reads its own file, whatever its role.
        check_write(node, session)?;
    }
    if command.name == "PING"
        && let Some(error) = node.disk_error()
    {
        return Err(Reply::error(error));
    }
    if session.only_listens() && !is_about_subscriptions(command.name) {
        return Err(only_listens(command.lower));
    }
    if !session.replication.from_master {
        check_readiness(node, session, command, args)?;
    }
    if session.subscriptions.is_empty() && is_for_listeners(node, command.name) {
        let text = format!("NOSUB '{}' command executed not in subscribed mode", command.lower);
        return Err(Reply::Error(text.into()));
    }
    if let Some(busy) =
        node.scripts.busy.as_ref().filter(|_| !command.flags.intersects(Flags::ALLOW_BUSY))
    {
        return Err(scripting::is_busy(busy));
    }
    if session.monitors && flags.intersects(KEYSPACE) {
        return Err(Reply::error("ERR Replica can't interact with the keyspace"));
    }
    Ok(())
}

/// In Valkey also MULTI and WATCH, so that a subsequent EXEC refuses.
fn may_not_be_queued(node: &Node, command: &Command) -> bool {
    let opens = matches!(command.name, "MULTI" | "WATCH");
    command.flags.intersects(Flags::NO_MULTI)
        || opens && node.differs(Difference::NestedMultiBreaks)
}

fn not_queued(node: &Node, command: &Command) -> Reply {
    if node.differs(Difference::NamesRefusedCommand) {
        let name = command.lower;
        let text = format!("ERR Command '{name}' not allowed inside a transaction");
        return Reply::Error(text.into());
    }
    Reply::error("ERR Command not allowed inside a transaction")
}

/// Refuses commands that are not allowed on a replica without its master, or during loading.
fn check_readiness(
    node: &Node,
    session: &Session,
    command: &Command,
    args: &[Bytes],
) -> Result<(), Reply> {
    if is_stale(node) && lacks(Flags::STALE, node, session, command, args) {
        return Err(MASTERDOWN);
    }
    if node.startup.since_ms.is_some() && lacks(Flags::LOADING, node, session, command, args) {
        return Err(Reply::error(LOADING));
    }
    Ok(())
}

/// Whether a request, or one that EXEC would run, does not have this flag.
fn lacks(flag: Flags, node: &Node, session: &Session, command: &Command, args: &[Bytes]) -> bool {
    all_flags(node, session, command, args).any(|flags| !flags.intersects(flag))
}

/// Commands that a connection in MONITOR mode may not run.
const KEYSPACE: Flags = Flags::WRITE.union(Flags::READONLY).union(Flags::MAY_REPLICATE);

/// The flags of a request; for EXEC also those of the queued commands.
fn flags_of(node: &Node, session: &Session, command: &Command, args: &[Bytes]) -> Flags {
    all_flags(node, session, command, args).fold(Flags::default(), Flags::union)
}

/// The flags of a request, and for EXEC of each queued command.
fn all_flags(
    node: &Node,
    session: &Session,
    command: &Command,
    args: &[Bytes],
) -> impl Iterator<Item = Flags> {
    let queued = session.transaction.queued().filter(|_| command.name == "EXEC");
    let queued = queued.into_iter().flatten();
    let queued = queued.filter_map(|args| Some(own_flags(node, node.command_of(args)?, args)));
    queued.chain([own_flags(node, command, args)])
}

/// SKIP_MONITOR marks exactly the commands that run scripts.
fn own_flags(node: &Node, command: &Command, args: &[Bytes]) -> Flags {
    let is_script = command.flags.intersects(Flags::SKIP_MONITOR);
    if is_script { declared::flags_of(node, command, args) } else { command.flags }
}

fn is_about_subscriptions(name: &str) -> bool {
    matches!(
        name,
        "PING"
            | "SUBSCRIBE"
            | "SSUBSCRIBE"
            | "UNSUBSCRIBE"
            | "SUNSUBSCRIBE"
            | "PSUBSCRIBE"
            | "PUNSUBSCRIBE"
            | "QUIT"
            | "RESET"
    )
}

/// Whether the node refuses this command to a client without subscriptions.
fn is_for_listeners(node: &Node, name: &str) -> bool {
    matches!(name, "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE")
        && node.differs(Difference::NothingToUnsubscribe)
}

fn only_listens(command: &str) -> Reply {
    let text = format!(
        "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
         RESET are allowed in this context"
    );
    Reply::Error(text.into())
}

/// Evicts keys, and refuses a command that needs memory if that is not enough.
fn check_memory(
    node: &mut Node,
    session: &mut Session,
    command: &Command,
    flags: Flags,
) -> Result<(), Reply> {
    node.usage.is_exceeded = node.config.max_memory > 0 && !eviction::make_room(node, session);
    if !node.usage.is_exceeded {
        return Ok(());
    }
    let queues = session.transaction.is_open()
        && !matches!(command.name, "EXEC" | "DISCARD" | "QUIT" | "RESET");
    if flags.intersects(Flags::DENYOOM) || queues { Err(Reply::error(OOM)) } else { Ok(()) }
}

/// Whether a pause delays a request that passes all checks.
pub fn is_held_back(node: &Node, session: &Session, command: &Command, args: &[Bytes]) -> bool {
    let Some(pause) = node.pause() else { return false };
    if session.replication.from_master || session.id == 0 {
        return false;
    }
    let flags = flags_of(node, session, command, args);
    pause.all || flags.intersects(Flags::WRITE.union(Flags::MAY_REPLICATE))
}
