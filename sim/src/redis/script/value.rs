//! Values between Redis and Lua, there and back, exactly as Redis converts them in RESP2.

use bytes::Bytes;
use mlua::{Lua, Table, Value};

use crate::redis::frame::Reply;

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
        Reply::Array(items) => {
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

/// `%.17g`.
pub fn in_17_digits(number: f64) -> String {
    if !number.is_finite() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if number.is_nan() { "nan" } else { "inf" });
    }
    if number.fract() == 0.0 && number.abs() < 1e17 {
        return format!("{number:.0}");
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or(0);
        return trim(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::in_17_digits;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (number, text) in [
            (1.5, "1.5"),
            (3.1, "3.1000000000000001"),
            (-0.0, "-0"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (1e300, "1.0000000000000001e+300"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(in_17_digits(number), text);
        }
    }
}
