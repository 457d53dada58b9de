//! The library `cmsgpack` of scripts: lua-cmsgpack 0.4.0.

mod unpack;

use mlua::{Lua, LuaString, Table, Value};

use crate::script::arguments::{ScriptArguments, function};
use crate::script::cmsgpack::unpack::{unpack, unpack_limit, unpack_one};
use crate::script::globals::behind;

/// The stack of a C function cannot hold more arguments with as many results.
const MAX_ARGUMENTS: usize = 4000;
/// Tables nested deeper are packed as nil.
const DEEPEST: usize = 16;

/// The library's table. `protected` maps a read-only table to the table behind it.
pub fn library(lua: &Lua, protected: &Table) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let protected = protected.clone();
    table.raw_set("pack", function(lua, move |arguments| pack(arguments, &protected))?)?;
    table.raw_set("unpack", function(lua, unpack)?)?;
    table.raw_set("unpack_one", function(lua, unpack_one)?)?;
    table.raw_set("unpack_limit", function(lua, unpack_limit)?)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

/// `cmsgpack.pack(...)`: the values one after the other.
fn pack(arguments: &ScriptArguments, protected: &Table) -> mlua::Result<LuaString> {
    if arguments.count() == 0 {
        return Err(arguments.refuse(0, "MessagePack pack needs input."));
    }
    if arguments.count() > MAX_ARGUMENTS {
        return Err(arguments.refuse(0, "Too many arguments for MessagePack pack."));
    }
    let mut packed = Vec::new();
    for nth in 1..=arguments.count() {
        pack_value(&mut packed, arguments.value(nth), protected, 0)?;
    }
    arguments.lua.create_string(packed)
}

fn pack_value(
    packed: &mut Vec<u8>,
    value: &Value,
    protected: &Table,
    depth: usize,
) -> mlua::Result<()> {
    match value {
        Value::String(text) => pack_text(packed, &text.as_bytes()),
        Value::Boolean(value) => packed.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => pack_integer(packed, *number),
        Value::Number(number) => pack_number(packed, *number),
        Value::Table(table) if depth < DEEPEST => {
            pack_table(packed, &behind(protected, table)?, protected, depth)?;
        }
        _ => packed.push(0xc0),
    }
    Ok(())
}

fn pack_text(packed: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        length @ 0..32 => packed.push(0xa0 | length as u8),
        length @ 32..0x100 => packed.extend_from_slice(&[0xd9, length as u8]),
        length => pack_length(packed, length, 0xda),
    }
    packed.extend_from_slice(text);
}

/// A length after a code: the given one for two bytes, the next one for four.
fn pack_length(packed: &mut Vec<u8>, length: usize, code: u8) {
    if let Ok(length) = u16::try_from(length) {
        packed.push(code);
        packed.extend_from_slice(&length.to_be_bytes());
    } else {
        packed.push(code + 1);
        packed.extend_from_slice(&(length as u32).to_be_bytes());
    }
}

fn pack_number(packed: &mut Vec<u8>, number: f64) {
    if number == 0.0 {
        packed.push(0);
    } else if f64::from(number as f32) == number {
        packed.push(0xca);
        packed.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        packed.push(0xcb);
        packed.extend_from_slice(&number.to_be_bytes());
    }
}

/// In the fewest bytes that hold it.
fn pack_integer(packed: &mut Vec<u8>, number: i64) {
    let bytes = number.to_be_bytes();
    let (code, width) = match number {
        -32..=0x7f => (None, 1),
        0x80..=0xff => (Some(0xcc), 1),
        0x100..=0xffff => (Some(0xcd), 2),
        0x1_0000..=0xffff_ffff => (Some(0xce), 4),
        0x1_0000_0000.. => (Some(0xcf), 8),
        -128..-32 => (Some(0xd0), 1),
        -32_768..-128 => (Some(0xd1), 2),
        -2_147_483_648..-32_768 => (Some(0xd2), 4),
        _ => (Some(0xd3), 8),
    };
    packed.extend(code);
    packed.extend_from_slice(&bytes[8 - width..]);
}

fn pack_table(
    packed: &mut Vec<u8>,
    table: &Table,
    protected: &Table,
    depth: usize,
) -> mlua::Result<()> {
    let (length, is_array) = measure(table)?;
    let (short, long) = if is_array { (0x90, 0xdc) } else { (0x80, 0xde) };
    if length <= 15 {
        packed.push(short | length as u8);
    } else {
        pack_length(packed, length, long);
    }
    if is_array {
        for index in 1..=length {
            let value: Value = table.raw_get(index)?;
            pack_value(packed, &value, protected, depth + 1)?;
        }
        return Ok(());
    }
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        pack_value(packed, &key, protected, depth + 1)?;
        pack_value(packed, &value, protected, depth + 1)?;
    }
    Ok(())
}

/// How many entries a table has, and whether its keys are 1 up to that number.
fn measure(table: &Table) -> mlua::Result<(usize, bool)> {
    let (mut count, mut most, mut whole) = (0usize, 0i64, true);
    for pair in table.pairs::<Value, Value>() {
        count += 1;
        match pair?.0 {
            Value::Integer(index @ 1..=0x7fff_ffff) => most = most.max(index),
            _ => whole = false,
        }
    }
    Ok((count, whole && usize::try_from(most) == Ok(count)))
}
