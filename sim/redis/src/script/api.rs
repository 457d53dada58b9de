//! The functions in `redis` beside `call` and `pcall`, with Redis's own argument checks.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, LuaString, Table, Value};

use crate::digest::sha1_hex;
use crate::script::arguments::{ScriptArguments, function};
use crate::script::conversions::until_zero;
use crate::script::raised::{Raised, refusal};
use crate::specification::find;

const LEVELS: [(&str, i64); 5] = [
    ("LOG_DEBUG", 0),
    ("LOG_VERBOSE", 1),
    ("LOG_NOTICE", 2),
    ("LOG_WARNING", 3),
    ("REDIS_VERSION_NUM", 458_767),
];
const FLAGS: [(&str, i64); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// The error that `redis.*` returns, not raises, for wrong arguments.
const WRONG_ARGUMENTS: &str = "wrong number or type of arguments";
/// The error of a call without any words.
pub const NO_ARGUMENTS: &str = "Please specify at least one argument for this redis lib call";
/// The error for a word that is neither text nor number.
pub const NO_TEXTS: &str = "Lua redis lib command arguments must be strings or integers";

/// Adds the functions that a library may use while it is loaded.
pub fn fill_logging(lua: &Lua, table: &Table) -> mlua::Result<()> {
    table.raw_set("log", function(lua, log)?)?;
    for (name, value) in LEVELS {
        table.raw_set(name, value)?;
    }
    table.raw_set("REDIS_VERSION", "7.0.15")
}

/// Adds the functions of scripts and libraries beside `call` and `pcall`, in the order of a real
/// server, which `pairs` shows. `resp3` is whether the running script selected RESP3.
pub fn fill(lua: &Lua, table: &Table, resp3: &Rc<Cell<bool>>) -> mlua::Result<()> {
    fill_logging(lua, table)?;
    let flag = Rc::clone(resp3);
    table.raw_set("setresp", function(lua, move |arguments| set_resp(arguments, &flag))?)?;
    table.raw_set("sha1hex", function(lua, sha1hex)?)?;
    table.raw_set("error_reply", function(lua, |arguments| single_field(arguments, "err"))?)?;
    table.raw_set("status_reply", function(lua, |arguments| single_field(arguments, "ok"))?)?;
    table.raw_set("set_repl", function(lua, set_repl)?)?;
    for (name, value) in FLAGS {
        table.raw_set(name, value)?;
    }
    table.raw_set("acl_check_cmd", function(lua, acl_check_cmd)?)
}

/// Adds the functions that scripts have and libraries do not.
pub fn fill_for_scripts(lua: &Lua, table: &Table) -> mlua::Result<()> {
    table.raw_set("breakpoint", function(lua, |_| Ok(false))?)?;
    table.raw_set("debug", function(lua, |_| Ok(()))?)?;
    table.raw_set("replicate_commands", function(lua, |_| Ok(true))?)
}

fn single_field(arguments: &ScriptArguments, field: &str) -> mlua::Result<Table> {
    let lua = arguments.lua;
    let (1, Value::String(text)) = (arguments.count(), arguments.value(1)) else {
        return refusal(lua, WRONG_ARGUMENTS);
    };
    let table = lua.create_table()?;
    if field == "err" {
        table.raw_set(field, lua.create_string(error_text(&text.as_bytes()))?)?;
    } else {
        table.raw_set(field, text)?;
    }
    Ok(table)
}

/// An error's text with a code in front; `-CODE text` has its own code.
fn error_text(text: &[u8]) -> Vec<u8> {
    let text = until_zero(text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (code, rest) = match text.iter().position(|byte| *byte == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = rest.iter().take_while(|byte| is_end(byte)).count();
    let rest = &rest[start..];
    let idle = rest.iter().rev().take_while(|byte| is_end(byte)).count();
    [code, b" ", &rest[..rest.len() - idle]].concat()
}

fn sha1hex(arguments: &ScriptArguments) -> mlua::Result<LuaString> {
    if arguments.count() != 1 {
        return Err(Raised::Refusal("wrong number of arguments").into());
    }
    let text = arguments.as_text(1)?;
    let text = text.map(|text| text.as_bytes().to_vec()).unwrap_or_default();
    arguments.lua.create_string(sha1_hex(&text))
}

fn log(arguments: &ScriptArguments) -> mlua::Result<()> {
    if arguments.count() < 2 {
        return Err(Raised::Refusal("redis.log() requires two arguments or more.").into());
    }
    let Some(level) = arguments.as_number(1)? else {
        return Err(Raised::Refusal("First argument must be a number (log level).").into());
    };
    if !(0..=3).contains(&(level as i32)) {
        return Err(Raised::Refusal("Invalid debug level.").into());
    }
    Ok(())
}

fn set_resp(arguments: &ScriptArguments, resp3: &Cell<bool>) -> mlua::Result<()> {
    if arguments.count() != 1 {
        return Err(Raised::Refusal("redis.setresp() requires one argument.").into());
    }
    match arguments.as_number(1)?.unwrap_or_default() as i32 {
        version @ (2 | 3) => resp3.set(version == 3),
        _ => return Err(Raised::Refusal("RESP version must be 2 or 3.").into()),
    }
    Ok(())
}

fn set_repl(arguments: &ScriptArguments) -> mlua::Result<()> {
    if arguments.count() != 1 {
        return Err(Raised::Refusal("redis.set_repl() requires two arguments.").into());
    }
    let flags = arguments.as_number(1)?.unwrap_or_default() as i32;
    if flags & !3 != 0 {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(Raised::Refusal(text).into());
    }
    Ok(())
}

/// Whether the user may run a command: always, as for a user that may do everything.
fn acl_check_cmd(arguments: &ScriptArguments) -> mlua::Result<bool> {
    let words: Vec<Option<LuaString>> =
        (1..=arguments.count()).map(|nth| arguments.as_text(nth)).collect::<mlua::Result<_>>()?;
    let Some(name) = words.first() else {
        return Err(Raised::Refusal(NO_ARGUMENTS).into());
    };
    let Some(name) = name.as_ref().filter(|_| words.iter().all(Option::is_some)) else {
        return Err(Raised::Refusal(NO_TEXTS).into());
    };
    if find(&name.as_bytes()).is_none() {
        return Err(Raised::Refusal("Invalid command passed to redis.acl_check_cmd()").into());
    }
    Ok(true)
}
