//! The checks before every command: the refusals of `processCommand`, in its order, and the queue
//! of a transaction.

use bytes::Bytes;

use crate::clients::waits::hold_back;
use crate::cluster::redirect;
use crate::command::table::{Command, Flags, find_in};
use crate::command::{
    Call, acl, eviction, monitor, scripting, transaction, unknown_command, unknown_subcommand,
    wrong_arity,
};
use crate::compat::Difference;
use crate::frame::Reply;
use crate::node::Node;
use crate::session::{Closing, Session};

const READONLY: &str = "READONLY You can't write against a read only replica.";
/// The error for a write without enough good replicas.
pub const NOREPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
const LOADING: &str = "LOADING Redis is loading the dataset in memory";
/// The error beyond `maxmemory`.
pub const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// The error of a replica that must not serve data until its link to the master is up.
pub const MASTERDOWN: Reply = Reply::Error(Bytes::from_static(
    b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
));
const STALE_IN_SCRIPT: &str = "ERR Can not execute the command on a stale replica";

/// Executes one request from a connection, the master or the node's own file. Its effects are in
/// `node.effects`, what the server must do in `session.after`.
pub fn apply(node: &mut Node, session: &mut Session, args: &[Bytes]) -> Reply {
    if is_from_a_browser(&args[0]) {
        session.closing = Some(Closing::AtOnce);
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
        Ok(()) => match &mut session.queued {
            Some(queued) if !transaction::runs_at_once(command.name) => {
                queued.push(args.to_vec());
                Reply::simple("QUEUED")
            }
            _ => execute(node, session, command, args),
        },
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
    node.count_error(&refusal);
    session.broken |= session.queued.is_some();
    if command.is_some_and(|command| command.name == "EXEC") {
        if redirect::is_from_cluster(&refusal) {
            transaction::abort(node, session, &refusal);
            return refusal;
        }
        return transaction::abort(node, session, &refusal);
    }
    refusal
}

fn admit(
    node: &mut Node,
    session: &mut Session,
    command: &'static Command,
    args: &[Bytes],
) -> Result<(), Reply> {
    if !command.takes(args.len()) {
        return Err(wrong_arity(command.lower));
    }
    let may_ask = command.flags.any(Flags::NO_AUTH);
    if session.user.is_none() && !may_ask && node.users.ask_for_password() {
        return Err(Reply::error("NOAUTH Authentication required."));
    }
    if session.queued.is_some() && may_not_be_queued(node, command) {
        return Err(not_queued(node, command));
    }
    if !session.from_master {
        acl::check(node, session, command, args)?;
    }
    let flags = flags_of(node, session, command, args);
    redirect::check(node, session, command, args, flags)?;
    if !node.loading && !session.from_master {
        check_memory(node, session, command, flags)?;
    }
    if flags.any(Flags::WRITE) && !node.loading {
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
    if !session.from_master {
        check_readiness(node, session, command, args)?;
    }
    if session.subscriptions.is_empty() && is_for_listeners(node, command.name) {
        let text = format!("NOSUB '{}' command executed not in subscribed mode", command.lower);
        return Err(Reply::Error(text.into()));
    }
    if let Some(busy) = node.busy.as_ref().filter(|_| !command.flags.any(Flags::ALLOW_BUSY)) {
        return Err(scripting::is_busy(busy));
    }
    if session.monitors && flags.any(KEYSPACE) {
        return Err(Reply::error("ERR Replica can't interact with the keyspace"));
    }
    Ok(())
}

/// In Valkey also MULTI and WATCH, so that a subsequent EXEC refuses.
fn may_not_be_queued(node: &Node, command: &Command) -> bool {
    let opens = matches!(command.name, "MULTI" | "WATCH");
    command.flags.any(Flags::NO_MULTI) || opens && node.differs(Difference::NestedMultiBreaks)
}

fn not_queued(node: &Node, command: &Command) -> Reply {
    if node.differs(Difference::NamesRefusedCommand) {
        let name = command.lower;
        let text = format!("ERR Command '{name}' not allowed inside a transaction");
        return Reply::Error(text.into());
    }
    Reply::error("ERR Command not allowed inside a transaction")
}

/// Whether the node is a replica that must not serve data until its link to the master is up.
pub fn is_stale(node: &Node) -> bool {
    node.master.is_some() && !node.is_linked() && !node.settings.is_on("replica-serve-stale-data")
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
    if node.starting_ms.is_some() && lacks(Flags::LOADING, node, session, command, args) {
        return Err(Reply::error(LOADING));
    }
    Ok(())
}

/// Whether a request, or one that EXEC would run, does not have this flag.
fn lacks(flag: Flags, node: &Node, session: &Session, command: &Command, args: &[Bytes]) -> bool {
    all_flags(node, session, command, args).any(|flags| !flags.any(flag))
}

/// Commands that a connection in MONITOR mode may not run.
const KEYSPACE: Flags = Flags::WRITE.and(Flags::READONLY).and(Flags::MAY_REPLICATE);

/// The flags of a request; for EXEC also those of the queued commands.
fn flags_of(node: &Node, session: &Session, command: &Command, args: &[Bytes]) -> Flags {
    all_flags(node, session, command, args).fold(Flags::default(), Flags::and)
}

/// The flags of a request, and for EXEC of each queued command.
fn all_flags(
    node: &Node,
    session: &Session,
    command: &Command,
    args: &[Bytes],
) -> impl Iterator<Item = Flags> {
    let queued = session.queued.as_ref().filter(|_| command.name == "EXEC");
    let queued = queued.into_iter().flatten();
    let queued = queued.filter_map(|args| Some(own_flags(node, node.command_of(args)?, args)));
    queued.chain([own_flags(node, command, args)])
}

/// SKIP_MONITOR marks exactly the commands that run scripts.
fn own_flags(node: &Node, command: &Command, args: &[Bytes]) -> Flags {
    let is_script = command.flags.any(Flags::SKIP_MONITOR);
    if is_script { scripting::flags_of(node, command, args) } else { command.flags }
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
    node.out_of_memory = node.config.max_memory > 0 && !eviction::make_room(node, session);
    if !node.out_of_memory {
        return Ok(());
    }
    let queues =
        session.queued.is_some() && !matches!(command.name, "EXEC" | "DISCARD" | "QUIT" | "RESET");
    if flags.any(Flags::DENYOOM) || queues { Err(Reply::error(OOM)) } else { Ok(()) }
}

/// Refuses a script's command because of its user or of `maxmemory`. A script that has already
/// written may continue.
pub fn check_script(
    node: &mut Node,
    session: &mut Session,
    command: &'static Command,
    args: &[Bytes],
) -> Result<(), Reply> {
    if session.from_master {
        return Ok(());
    }
    acl::check_in_script(node, session, command, args)?;
    if is_stale(node) && !command.flags.any(Flags::STALE) {
        return Err(Reply::error(STALE_IN_SCRIPT));
    }
    let Some(script) = &mut session.script else { return Ok(()) };
    let refused = node.out_of_memory && !script.allow_oom && !script.wrote;
    if refused && command.flags.any(Flags::DENYOOM) {
        return Err(Reply::error(OOM));
    }
    Ok(())
}

/// Refuses a write on a replica, or without enough good replicas.
pub fn check_write(node: &Node, session: &Session) -> Result<(), Reply> {
    if session.from_master {
        return Ok(());
    }
    if let Some(error) = node.disk_error() {
        return Err(Reply::error(error));
    }
    let config = &node.config;
    let asks = node.master.is_none() && config.min_replicas_max_lag > 0;
    if asks && node.good_replicas < config.min_replicas_to_write {
        return Err(Reply::error(NOREPLICAS));
    }
    if node.master.is_some() && node.settings.is_on("replica-read-only") {
        return Err(Reply::error(READONLY));
    }
    Ok(())
}

fn is_held_back(node: &Node, session: &Session, command: &Command, args: &[Bytes]) -> bool {
    let Some(pause) = node.pause() else { return false };
    if session.from_master || session.id == 0 {
        return false;
    }
    let flags = flags_of(node, session, command, args);
    pause.all || flags.any(Flags::WRITE.and(Flags::MAY_REPLICATE))
}

/// Executes a command that passed all checks.
pub fn execute(
    node: &mut Node,
    session: &mut Session,
    command: &'static Command,
    args: &[Bytes],
) -> Reply {
    node.executed += 1;
    let hidden = Flags::SKIP_MONITOR.and(Flags::ADMIN);
    let monitored = !node.clients.monitors.is_empty();
    if monitored && command.flags.any(Flags::SKIP_MONITOR) {
        monitor::show(node, session, command, args);
    }
    let mut call = Call { node, session, args, command };
    let reply = (command.run)(&mut call).unwrap_or_else(|error| error);
    if monitored && !command.flags.any(hidden) {
        monitor::show(node, session, command, args);
    }
    if reply.is_error() {
        node.count_error(&reply);
    }
    reply
}
