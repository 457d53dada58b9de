//! `redis.call` and `redis.pcall`: from a script to the executor.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use mlua::{Function, Lua, MultiValue, Value};

use crate::compat::Difference;
use crate::digits::in_digits;
use crate::frame::{Protocol, Reply};
use crate::node::Node;
use crate::permission::redirect::check_in_script;
use crate::permission::{OOM, access, check_write, is_stale};
use crate::script::api;
use crate::script::door::Running;
use crate::script::memory::unlimited;
use crate::script::raised::{self, Raised};
use crate::script::value::to_lua;
use crate::session::{ScriptRun, Session};
use crate::specification::Command;
use crate::specification::flags::Flags;

const STALE_IN_SCRIPT: &str = "ERR Can not execute the command on a stale replica";

/// `redis.call`, which raises errors, and `redis.pcall`, which returns them. They are not Lua
/// functions: a tail call of one would hide the line of the calling script.
pub fn caller(
    lua: &Lua,
    door: &Rc<RefCell<Running>>,
    resp3: &Rc<Cell<bool>>,
    raises: bool,
) -> mlua::Result<Function> {
    let (door, resp3) = (Rc::clone(door), Rc::clone(resp3));
    lua.create_function(move |lua, words: MultiValue| {
        let reply = match command_words(&words) {
            Ok(args) => {
                let running = &mut *door.borrow_mut();
                running.session.replies.protocol =
                    if resp3.get() { Protocol::Three } else { Protocol::Two };
                call_command(running, &args)
            }
            Err(refusal) if raises => return Err(Raised::Refusal(refusal).into()),
            Err(refusal) => return Ok(Value::Table(raised::refusal(lua, refusal)?)),
        };
        match reply {
            Reply::Error(text) if raises => Err(Raised::Reply(text).into()),
            reply => unlimited(lua, || to_lua(lua, &reply, resp3.get())),
        }
    })
}

fn command_words(words: &MultiValue) -> Result<Vec<Bytes>, &'static str> {
    if words.is_empty() {
        return Err(api::NO_ARGUMENTS);
    }
    let word = |value: &Value| match value {
        Value::String(text) => Ok(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Integer(number) => Ok(Bytes::from(in_digits(*number as f64, 17))),
        Value::Number(number) => Ok(Bytes::from(in_digits(*number, 17))),
        _ => Err(api::NO_TEXTS),
    };
    words.iter().map(word).collect()
}

/// The checks of `scriptCall`, then the executor.
fn call_command(running: &mut Running, args: &[Bytes]) -> Reply {
    let Running { node, session, execute } = running;
    let execute = execute.expect("only a script that runs has this function");
    let texts = texts(node);
    let Some(command) = node.command_of(args) else { return Reply::error(texts.unknown) };
    if !command.takes(args.len()) {
        return Reply::error(texts.arity);
    }
    if is_kept_from_scripts(node, command) {
        return Reply::error(texts.kept);
    }
    let admitted = check_call(node, session, command, args)
        .and_then(|()| check_script_write(node, session, command.flags))
        .and_then(|()| check_in_script(node, session, command, args));
    if let Err(refusal) = admitted {
        return refusal;
    }
    execute(node, session, command, args)
}

/// The error texts of a call.
struct Texts {
    unknown: &'static str,
    arity: &'static str,
    kept: &'static str,
}

fn texts(node: &Node) -> Texts {
    let own_name = node.differs(Difference::RefusesByItsName);
    let kept = if own_name {
        "ERR This Valkey command is not allowed from script"
    } else {
        "ERR This Redis command is not allowed from script"
    };
    if node.differs(Difference::TextsOfValkey) {
        let unknown = "ERR Unknown command called from script";
        return Texts {
            unknown,
            arity: "ERR Wrong number of args calling command from script",
            kept,
        };
    }
    let unknown = "ERR Unknown Redis command called from script";
    Texts { unknown, arity: "ERR Wrong number of args calling Redis command from script", kept }
}

/// Since Redis 7.2 a script may call commands that block elsewhere.
fn is_kept_from_scripts(node: &Node, command: &Command) -> bool {
    let waits = command.flags.intersects(Flags::BLOCKING) || command.name == "WAIT";
    let may = waits && node.differs(Difference::ScriptsMayWait);
    command.flags.intersects(Flags::NOSCRIPT) && !may
}

/// Refuses a script's command because of its user or of `maxmemory`. A script that has already
/// written may continue.
fn check_call(
    node: &mut Node,
    session: &Session,
    command: &'static Command,
    args: &[Bytes],
) -> Result<(), Reply> {
    if session.replication.from_master {
        return Ok(());
    }
    access::check_in_script(node, session, command, args)?;
    if is_stale(node) && !command.flags.intersects(Flags::STALE) {
        return Err(Reply::error(STALE_IN_SCRIPT));
    }
    let Some(script) = &session.script else { return Ok(()) };
    let refused = node.usage.is_exceeded && !script.allow_oom && !script.wrote;
    if refused && command.flags.intersects(Flags::DENYOOM) {
        return Err(Reply::error(OOM));
    }
    Ok(())
}

/// Once a script has written, its further writes are not checked.
fn check_script_write(node: &Node, session: &mut Session, flags: Flags) -> Result<(), Reply> {
    let Some(script) = session.script else { return Ok(()) };
    if script.read_only && flags.intersects(Flags::WRITE.union(Flags::MAY_REPLICATE)) {
        return Err(Reply::error("ERR Write commands are not allowed from read-only scripts."));
    }
    if flags.intersects(Flags::WRITE) && !script.wrote {
        check_write(node, session)?;
        session.script = Some(ScriptRun { wrote: true, ..script });
    }
    Ok(())
}
