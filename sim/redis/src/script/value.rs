//! Values from Redis to Lua and back, exactly as Redis converts them.

use bytes::Bytes;
use mlua::{Lua, Table, Value};

use crate::digits::in_digits;
use crate::frame::Reply;
use crate::script::conversions::{until_zero, whole};
use crate::script::raised::error_reply;

/// Maximum nesting of a table that is converted to a reply.
const DEEPEST: usize = 100;

/// A reply in the form for a script, which may have selected RESP3.
pub fn to_lua(lua: &Lua, reply: &Reply, resp3: bool) -> mlua::Result<Value> {
    Ok(match reply {
        // Scripts may not call EXEC.
        Reply::Encoded(_) => Value::Nil,
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
        new if resp3 && is_new(new) => Value::Table(new_to_lua(lua, new)?),
        Reply::Boolean(value) if resp3 => Value::Boolean(*value),
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
            // As in Redis, a table grows while it is filled; this is visible through the positions
            // of nils.
            let places = if resp3 { 0 } else { items.len() };
            let table = lua.create_table_with_capacity(places, 0)?;
            for (index, item) in (1..).zip(items) {
                table.raw_seti(index, to_lua(lua, item, resp3)?)?;
            }
            Value::Table(table)
        }
    })
}

fn is_new(reply: &Reply) -> bool {
    use Reply::{BigNumber, Double, Map, Set, Verbatim};
    matches!(reply, Map(_) | Set(_) | Double(_) | BigNumber(_) | Verbatim(..))
}

/// A RESP3 type for a script that selected it: a table whose only field names the type.
fn new_to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    match reply {
        Reply::Double(number) => table.raw_set("double", *number)?,
        Reply::BigNumber(text) => table.raw_set("big_number", lua.create_string(text)?)?,
        Reply::Verbatim(format, text) => {
            let parts = lua.create_table()?;
            parts.raw_set("string", lua.create_string(text)?)?;
            parts.raw_set("format", lua.create_string(format)?)?;
            table.raw_set("verbatim_string", parts)?;
        }
        Reply::Map(items) => {
            let map = lua.create_table()?;
            for pair in items.chunks_exact(2) {
                set_pair(&map, to_lua(lua, &pair[0], true)?, to_lua(lua, &pair[1], true)?)?;
            }
            table.raw_set("map", map)?;
        }
        Reply::Set(items) => {
            let set = lua.create_table()?;
            for item in items {
                set_pair(&set, to_lua(lua, item, true)?, Value::Boolean(true))?;
            }
            table.raw_set("set", set)?;
        }
        _ => {}
    }
    Ok(table)
}

/// Nil and NaN cannot be keys of a table.
fn set_pair(table: &Table, key: Value, value: Value) -> mlua::Result<()> {
    if key.is_nil() { Ok(()) } else { table.raw_set(key, value) }
}

/// The return value of a script as a reply: `luaReplyToRedisReply`. `resp3` is whether the script
/// selected RESP3: only then are booleans sent as such.
pub fn to_reply(value: &Value, resp3: bool, depth: usize) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(&text.as_bytes()),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(whole(*number)),
        Value::Boolean(value) if resp3 => Reply::Boolean(*value),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(_) if depth >= DEEPEST => Reply::error("ERR reached lua stack limit"),
        Value::Table(table) => table_to_reply(table, resp3, depth),
        _ => Reply::Nil,
    }
}

/// The first field that names a type decides; a table without one is an array.
fn table_to_reply(table: &Table, resp3: bool, depth: usize) -> Reply {
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    if let Value::String(text) = field("err") {
        return Reply::Error(Bytes::copy_from_slice(until_zero(&text.as_bytes())));
    }
    if let Value::String(text) = field("ok") {
        return Reply::Simple(on_one_line(until_zero(&text.as_bytes())));
    }
    match field("double") {
        Value::Number(number) => return Reply::Double(number),
        Value::Integer(number) => return Reply::Double(number as f64),
        _ => {}
    }
    if let Value::Table(map) = field("map") {
        return Reply::Map(map_to_items(&map, true, resp3, depth));
    }
    if let Value::Table(set) = field("set") {
        return Reply::Set(map_to_items(&set, false, resp3, depth));
    }
    if let Value::String(number) = field("big_number") {
        return Reply::BigNumber(on_one_line(&number.as_bytes()));
    }
    if let Value::Table(verbatim) = field("verbatim_string") {
        let part = |name: &str| verbatim.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let (Value::String(text), Value::String(format)) = (part("string"), part("format")) {
            let text = Bytes::copy_from_slice(&text.as_bytes());
            return Reply::Verbatim(three_letters(&format.as_bytes()), text);
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

/// The first three letters of a format, padded with blanks.
fn three_letters(format: &[u8]) -> [u8; 3] {
    let mut letters = [b' '; 3];
    let given = until_zero(format);
    let length = given.len().min(3);
    letters[..length].copy_from_slice(&given[..length]);
    letters
}

/// The members of a map, or of a set, whose members are keys.
fn map_to_items(map: &Table, values: bool, resp3: bool, depth: usize) -> Vec<Reply> {
    let mut items = Vec::new();
    for (key, value) in map.pairs::<Value, Value>().flatten() {
        items.push(to_reply(&key, resp3, depth + 1));
        if values {
            items.push(to_reply(&value, resp3, depth + 1));
        }
    }
    items
}

fn on_one_line(text: &[u8]) -> Bytes {
    let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    text.iter().map(blank).collect()
}

#[cfg(test)]
mod tests {
    use super::{to_lua, to_reply};
    use crate::frame::Reply;
    use bytes::Bytes;
    use mlua::Lua;

    #[test]
    fn what_resp3_brought_goes_to_a_script_and_back() {
        let lua = Lua::new();
        let big = Reply::BigNumber(Bytes::from_static(b"123"));
        for reply in [
            Reply::Map(vec![Reply::word("a"), Reply::Double(1.5)]),
            Reply::Set(vec![Reply::word("a")]),
            Reply::Array(vec![Reply::Boolean(true), big, Reply::Double(-0.25)]),
            Reply::Verbatim(*b"txt", Bytes::from_static(b"text")),
            Reply::Map(vec![Reply::Integer(1), Reply::Set(vec![Reply::Integer(2)])]),
            Reply::Nil,
        ] {
            let value = to_lua(&lua, &reply, true).unwrap();
            assert_eq!(to_reply(&value, true, 0), reply);
        }
    }

    #[test]
    fn a_script_without_resp3_sees_what_an_old_client_sees() {
        let lua = Lua::new();
        let flat = |reply: &Reply| to_reply(&to_lua(&lua, reply, false).unwrap(), false, 0);
        let pair = vec![Reply::word("a"), Reply::Double(1.5)];
        let expected = Reply::Array(vec![Reply::word("a"), Reply::word("1.5")]);
        assert_eq!(flat(&Reply::Map(pair.clone())), expected);
        assert_eq!(flat(&Reply::Set(pair)), expected);
        assert_eq!(flat(&Reply::Boolean(true)), Reply::Integer(1));
        assert_eq!(flat(&Reply::Verbatim(*b"txt", Bytes::from_static(b"t"))), Reply::word("t"));
    }
}
