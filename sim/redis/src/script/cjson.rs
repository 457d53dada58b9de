//! The library `cjson` of scripts: lua-cjson 2.1.0 as Redis ships it.
//!
//! A real server keeps settings that a script changes here for all subsequent scripts. Nodes share
//! this machine, so they are reset when the script ends.

mod decode;
mod encode;
pub mod settings;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use crate::script::arguments::{ScriptArguments, function};
use crate::script::cjson::decode::decode;
use crate::script::cjson::encode::encode;
use crate::script::cjson::settings::{CjsonSettings, InvalidNumbers};

/// The library's table. `protected` maps a read-only table to the table behind it.
pub fn library(
    lua: &Lua,
    settings: &Rc<Cell<CjsonSettings>>,
    protected: &Table,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add =
        |name: &str, body: fn(&ScriptArguments, &mut CjsonSettings) -> mlua::Result<Value>| {
            let settings = Rc::clone(settings);
            let body = function(lua, move |arguments| {
                at_most(arguments, 1)?;
                let mut changed = settings.get();
                let value = body(arguments, &mut changed)?;
                settings.set(changed);
                Ok(value)
            })?;
            table.raw_set(name, body)
        };
    let (shared, proxies) = (Rc::clone(settings), protected.clone());
    let encode = function(lua, move |arguments| encode(arguments, shared.get(), &proxies))?;
    table.raw_set("encode", encode)?;
    let shared = Rc::clone(settings);
    table.raw_set("decode", function(lua, move |arguments| decode(arguments, shared.get()))?)?;
    table.raw_set("encode_sparse_array", sparse_array(lua, Rc::clone(settings))?)?;
    add("encode_max_depth", |arguments, settings| {
        integer(arguments, &mut settings.encode_max_depth, 1, 1..=i32::MAX)
    })?;
    add("decode_max_depth", |arguments, settings| {
        integer(arguments, &mut settings.decode_max_depth, 1, 1..=i32::MAX)
    })?;
    add("encode_number_precision", |arguments, settings| {
        integer(arguments, &mut settings.encode_number_precision, 1, 1..=14)
    })?;
    add("encode_keep_buffer", |arguments, settings| {
        switch(arguments, &mut settings.encode_keep_buffer)
    })?;
    add("encode_invalid_numbers", |arguments, settings| {
        invalid_numbers(arguments, &mut settings.encode_invalid_numbers)
    })?;
    add("decode_invalid_numbers", |arguments, settings| {
        switch(arguments, &mut settings.decode_invalid_numbers)
    })?;
    let proxies = protected.clone();
    let new = function(lua, move |arguments| library(arguments.lua, &Rc::default(), &proxies))?;
    table.raw_set("new", new)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn sparse_array(lua: &Lua, settings: Rc<Cell<CjsonSettings>>) -> mlua::Result<mlua::Function> {
    function(lua, move |arguments| {
        at_most(arguments, 3)?;
        let mut changed = settings.get();
        // Settings that precede a refused argument stay set.
        let convert = switch(arguments, &mut changed.sparse_convert)?;
        settings.set(changed);
        let ratio = integer(arguments, &mut changed.sparse_ratio, 2, 0..=i32::MAX)?;
        settings.set(changed);
        let safe = integer(arguments, &mut changed.sparse_safe, 3, 0..=i32::MAX)?;
        settings.set(changed);
        Ok((convert, ratio, safe))
    })
}

fn at_most(arguments: &ScriptArguments, count: usize) -> mlua::Result<()> {
    if arguments.count() > count {
        return Err(arguments.refuse(count + 1, "found too many arguments"));
    }
    Ok(())
}

fn integer(
    arguments: &ScriptArguments,
    setting: &mut i32,
    nth: usize,
    allowed: std::ops::RangeInclusive<i32>,
) -> mlua::Result<Value> {
    if !arguments.is_nil(nth) {
        // C truncates to the lower half.
        let value = arguments.integer(nth)? as i32;
        if !allowed.contains(&value) {
            let (least, most) = allowed.into_inner();
            let why = format!("expected integer between {least} and {most}");
            return Err(arguments.refuse(1, &why));
        }
        *setting = value;
    }
    Ok(Value::Integer(i64::from(*setting)))
}

fn switch(arguments: &ScriptArguments, setting: &mut bool) -> mlua::Result<Value> {
    match arguments.value(1) {
        Value::Nil => {}
        Value::Boolean(value) => *setting = *value,
        _ => *setting = arguments.option(1, &["off", "on"])? == 1,
    }
    Ok(Value::Boolean(*setting))
}

fn invalid_numbers(
    arguments: &ScriptArguments,
    setting: &mut InvalidNumbers,
) -> mlua::Result<Value> {
    match arguments.value(1) {
        Value::Nil => {}
        Value::Boolean(true) => *setting = InvalidNumbers::Written,
        Value::Boolean(false) => *setting = InvalidNumbers::Refused,
        _ => {
            *setting = match arguments.option(1, &["off", "on", "null"])? {
                0 => InvalidNumbers::Refused,
                1 => InvalidNumbers::Written,
                _ => InvalidNumbers::Null,
            }
        }
    }
    Ok(match setting {
        InvalidNumbers::Refused => Value::Boolean(false),
        InvalidNumbers::Written => Value::Boolean(true),
        InvalidNumbers::Null => Value::String(arguments.lua.create_string("null")?),
    })
}
