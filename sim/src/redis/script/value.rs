//! Values between Redis and Lua, there and back, exactly as Redis converts them in RESP2.

use bytes::Bytes;
use mlua::{Lua, Table, Value};

use crate::redis::frame::{Reply, in_17_digits};

/// How deep a table may be nested that is turned into a reply.
const DEEPEST: usize = 100;

/// A reply as a script sees it.
pub fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Integer(value) => Value::Number(*value as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Nil | Reply::NilArray => Value::Boolean(false),
        Reply::Simple(text) => single_field(lua, "ok", text)?,
        Reply::Error(text) => single_field(lua, "err", text)?,
        Reply::Double(number) => Value::String(lua.create_string(in_17_digits(*number))?),
        Reply::Boolean(value) => Value::Number(f64::from(u8::from(*value))),
        Reply::BigNumber(text) | Reply::Verbatim(_, text) => {
            Value::String(lua.create_string(text)?)
        }
        Reply::Array(items)
        | Reply::Map(items)
        | Reply::Set(items)
        | Reply::Push(items)
        | Reply::Several(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(to_lua(lua, item)?)?;
            }
            Value::Table(table)
        }
    })
}

fn single_field(lua: &Lua, field: &str, text: &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

/// What a script returned as a reply: `luaReplyToRedisReply` in RESP2.
pub fn to_reply(value: &Value, depth: usize) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(&text.as_bytes()),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(whole(*number)),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(_) if depth >= DEEPEST => Reply::error("ERR reached lua stack limit"),
        Value::Table(table) => table_to_reply(table, depth),
        _ => Reply::Nil,
    }
}

fn table_to_reply(table: &Table, depth: usize) -> Reply {
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    if let Value::String(text) = field("err") {
        return Reply::Error(Bytes::copy_from_slice(&text.as_bytes()));
    }
    if let Value::String(text) = field("ok") {
        let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        return Reply::Simple(text.as_bytes().iter().map(blank).collect());
    }
    match field("double") {
        Value::Number(number) => return Reply::Bulk(Bytes::from(in_17_digits(number))),
        Value::Integer(number) => return Reply::Bulk(Bytes::from(in_17_digits(number as f64))),
        _ => {}
    }
    let mut items = Vec::new();
    for index in 1.. {
        match table.raw_get::<Value>(index) {
            Ok(Value::Nil) | Err(_) => break,
            Ok(item) => items.push(to_reply(&item, depth + 1)),
        }
    }
    Reply::Array(items)
}

/// A number cut to an integer; what does not fit is what the processor gives.
fn whole(number: f64) -> i64 {
    let fits = number > -9.3e18 && number < 9.223_372_036_854_775e18;
    if fits { number as i64 } else { i64::MIN }
}
