//! Errors on their way through the Lua machine.
//!
//! A Rust function of a script raises what Redis's C function would raise: a table with `err` for
//! an error of Redis, a text for an error of a library. The host can only raise userdata, so the
//! value travels inside and the prelude unpacks it.

use bytes::Bytes;
use mlua::{Function, Lua, Table, Value};

/// The form of an error for the script that catches it.
#[derive(Debug)]
pub enum Raised {
    /// The error reply of a command: a table with `err`, marked as already counted.
    Reply(Bytes),
    /// An error of `redis.*` itself: a table with `err`.
    Refusal(&'static str),
    /// An error of a library: a text.
    Text(Vec<u8>),
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Reply(text) => f.write_str(&String::from_utf8_lossy(text)),
            Raised::Refusal(text) => write!(f, "ERR {text}"),
            Raised::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

impl std::error::Error for Raised {}

impl From<Raised> for mlua::Error {
    fn from(raised: Raised) -> mlua::Error {
        mlua::Error::external(raised)
    }
}

/// The Lua value of an error that a Rust function raised.
pub fn value_of_error(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, problem: mlua::Error| {
        Ok(match problem.downcast_ref::<Raised>() {
            Some(Raised::Reply(text)) => Value::Table(error_reply(lua, text)?),
            Some(Raised::Refusal(text)) => Value::Table(refusal(lua, text)?),
            Some(Raised::Text(text)) => Value::String(lua.create_string(text)?),
            None => Value::String(lua.create_string(without_trace(&problem.to_string()))?),
        })
    })
}

/// Source and line where an error was raised, for the handler that calls this: those of the
/// function that raised it, or of its caller if it is a C function. Functions of the prelude count
/// as C functions.
pub fn where_is(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, ()| {
        let look = |level| {
            lua.inspect_stack(level, |frame| {
                let source = frame.source();
                let name = source.source.as_deref().unwrap_or_default().to_owned();
                let line = frame.current_line().map_or(-1, |line| line as i64);
                (source.what == "C", name == "@prelude", (name, line))
            })
        };
        // Skip this function, the handler, and the host's own frame that called the handler.
        let mut level = 3;
        if look(level).is_some_and(|(is_c, _, _)| is_c) {
            level += 1;
        }
        let mut behind_prelude = false;
        while let Some((_, is_prelude, place)) = look(level) {
            if !(is_prelude || behind_prelude && place.0 == "=(tail call)") {
                return Ok((Some(place.0), Some(place.1)));
            }
            behind_prelude = true;
            level += 1;
        }
        Ok((None, None))
    })
}

/// The host's error text without the machine's stack trace.
pub fn without_trace(text: &str) -> &str {
    text.split("\nstack traceback:").next().unwrap_or_default()
}

/// The error reply of a command, as `redis.pcall` returns it.
pub fn error_reply(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(text)?)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(table)
}

/// An error of `redis.*` as a table.
pub fn refusal(lua: &Lua, text: &str) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("err", format!("ERR {text}"))?;
    Ok(table)
}
