//! Values between Redis and Lua, there and back, exactly as Redis converts them.

use bytes::Bytes;
use mlua::{Lua, Table, Value};

use crate::redis::digits::in_digits;
use crate::redis::frame::Reply;
use crate::redis::script::arguments::until_zero;
use crate::redis::script::raised::error_reply;

/// How deep a table may be nested that is turned into a reply.
const DEEPEST: usize = 100;

/// A reply as a script sees it, which may have asked for RESP3.
pub fn to_lua(lua: &Lua, reply: &Reply, resp3: bool) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Integer(value) => Value::Number(*value as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Nil | Reply::NilArray if resp3 => Value::Nil,
        Reply::Nil | Reply::NilArray => Value::Boolean(false),
        Reply::Simple(text) => {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("ok", lua.create_string(text)?)?;
            Value::Table(table)
        }
        Reply::Error(text) => Value::Table(error_reply(lua, text)?),
        Reply::Double(number) => Value::String(lua.create_string(in_digits(*number, 17))?),
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
            for (index, item) in (1..).zip(items) {
                table.raw_seti(index, to_lua(lua, item, resp3)?)?;
            }
            Value::Table(table)
        }
    })
}

/// What a script returned as a reply: `luaReplyToRedisReply` for a client that speaks RESP2.
/// `resp3` is whether the script asked for RESP3 itself.
pub fn to_reply(value: &Value, resp3: bool, depth: usize) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(&text.as_bytes()),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(whole(*number)),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Boolean(false) if resp3 => Reply::Integer(0),
        Value::Table(_) if depth >= DEEPEST => Reply::error("ERR reached lua stack limit"),
        Value::Table(table) => table_to_reply(table, resp3, depth),
        _ => Reply::Nil,
    }
}

/// The first field that says what a table is decides; one without is an array.
fn table_to_reply(table: &Table, resp3: bool, depth: usize) -> Reply {
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    if let Value::String(text) = field("err") {
        return Reply::Error(Bytes::copy_from_slice(until_zero(&text.as_bytes())));
    }
    if let Value::String(text) = field("ok") {
        return Reply::Simple(on_one_line(until_zero(&text.as_bytes())));
    }
    match field("double") {
        Value::Number(number) => return Reply::Bulk(Bytes::from(in_digits(number, 17))),
        Value::Integer(number) => return Reply::Bulk(Bytes::from(in_digits(number as f64, 17))),
        _ => {}
    }
    if let Value::Table(map) = field("map") {
        return map_to_reply(&map, true, resp3, depth);
    }
    if let Value::Table(set) = field("set") {
        return map_to_reply(&set, false, resp3, depth);
    }
    if let Value::String(number) = field("big_number") {
        return Reply::Bulk(on_one_line(&number.as_bytes()));
    }
    if let Value::Table(verbatim) = field("verbatim_string") {
        let part = |name: &str| verbatim.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let (Value::String(text), Value::String(_)) = (part("string"), part("format")) {
            return Reply::bulk(&text.as_bytes());
        }
    }
    let mut items = Vec::new();
    for index in 1.. {
        match table.raw_get::<Value>(index) {
            Ok(Value::Nil) | Err(_) => break,
            Ok(item) => items.push(to_reply(&item, resp3, depth + 1)),
        }
    }
    Reply::Array(items)
}

/// The flat form of a map, or of a set, whose members are keys.
fn map_to_reply(map: &Table, values: bool, resp3: bool, depth: usize) -> Reply {
    let mut items = Vec::new();
    for (key, value) in map.pairs::<Value, Value>().flatten() {
        items.push(to_reply(&key, resp3, depth + 1));
        if values {
            items.push(to_reply(&value, resp3, depth + 1));
        }
    }
    Reply::Array(items)
}

fn on_one_line(text: &[u8]) -> Bytes {
    let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    text.iter().map(blank).collect()
}

/// A number cut to an integer; what does not fit is what the processor gives.
pub fn whole(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}
