//! `redis.register_function`: how a library's code registers its functions.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use mlua::{Function, Lua, Table, Value};

use crate::script::arguments::{ScriptArguments, function};
use crate::script::conversions::until_zero;
use crate::script::raised::Raised;
use crate::script_state::flags::ScriptFlags;
use crate::script_state::libraries::{BAD_NAME, Loading, Registered, is_name};

/// `redis.register_function`.
pub fn registrar(lua: &Lua, loading: &Rc<RefCell<Option<Loading>>>) -> mlua::Result<Function> {
    let loading = Rc::clone(loading);
    function(lua, move |arguments| {
        let mut loading = loading.borrow_mut();
        let Some(functions) = &mut *loading else {
            return refuse("redis.register_function can only be called on FUNCTION LOAD command");
        };
        let (name, new) = match arguments.count() {
            1 => by_name(arguments)?,
            2 => by_place(arguments)?,
            _ => return refuse("wrong number of arguments to redis.register_function"),
        };
        if !is_name(&name) {
            return refuse(BAD_NAME);
        }
        if functions.contains_key(&name) {
            return refuse("Function already exists in the library");
        }
        functions.insert(name, new);
        Ok(())
    })
}

fn refuse<T>(why: &'static str) -> mlua::Result<T> {
    Err(Raised::Refusal(why).into())
}

/// `redis.register_function(name, callback)`
fn by_place(arguments: &ScriptArguments) -> mlua::Result<(Bytes, Registered)> {
    let Some(name) = text(arguments.lua, arguments.value(1))? else {
        return refuse("first argument to redis.register_function must be a string");
    };
    let Value::Function(callback) = arguments.value(2).clone() else {
        return refuse("second argument to redis.register_function must be a function");
    };
    Ok((name, Registered { description: None, flags: ScriptFlags::default(), callback }))
}

/// `redis.register_function{function_name=..., callback=..., description=..., flags={...}}`
fn by_name(arguments: &ScriptArguments) -> mlua::Result<(Bytes, Registered)> {
    let Value::Table(named) = arguments.value(1) else {
        return refuse(
            "calling redis.register_function with a single argument is only applicable to Lua \
             table (representing named arguments).",
        );
    };
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = ScriptFlags::default();
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = text(arguments.lua, &key)? else {
            return refuse("named argument key given to redis.register_function is not a string");
        };
        let text = || text(arguments.lua, &value);
        match &until_zero(&key).to_ascii_lowercase()[..] {
            b"function_name" => {
                name = Some(text()?.ok_or(Raised::Refusal(
                    "function_name argument given to redis.register_function must be a string",
                ))?);
            }
            b"description" => {
                description = Some(text()?.ok_or(Raised::Refusal(
                    "description argument given to redis.register_function must be a string",
                ))?);
            }
            b"callback" => {
                callback = Some(value.as_function().cloned().ok_or(Raised::Refusal(
                    "callback argument given to redis.register_function must be a function",
                ))?);
            }
            b"flags" => flags = listed_flags(arguments.lua, &value)?,
            _ => return refuse("unknown argument given to redis.register_function"),
        }
    }
    let Some(name) = name else {
        return refuse("redis.register_function must get a function name argument");
    };
    let Some(callback) = callback else {
        return refuse("redis.register_function must get a callback argument");
    };
    Ok((name, Registered { description, flags, callback }))
}

fn listed_flags(lua: &Lua, value: &Value) -> mlua::Result<ScriptFlags> {
    let Value::Table(listed) = value else {
        return refuse(
            "flags argument to redis.register_function must be a table representing function flags",
        );
    };
    let mut flags = ScriptFlags::default();
    for name in names(lua, listed)? {
        let flag = ScriptFlags::named(&until_zero(&name).to_ascii_lowercase());
        flags = flags.union(flag.ok_or(Raised::Refusal("unknown flag given"))?);
    }
    Ok(flags)
}

fn names(lua: &Lua, listed: &Table) -> mlua::Result<Vec<Bytes>> {
    let mut names = Vec::new();
    for index in 1.. {
        match listed.get::<Value>(index)? {
            Value::Nil => break,
            name => names.push(text(lua, &name)?.ok_or(Raised::Refusal("unknown flag given"))?),
        }
    }
    Ok(names)
}

/// A text, or a number as a text.
fn text(lua: &Lua, value: &Value) -> mlua::Result<Option<Bytes>> {
    let is_number = matches!(value, Value::Integer(_) | Value::Number(_));
    if !is_number && !value.is_string() {
        return Ok(None);
    }
    let text = lua.coerce_string(value.clone())?;
    Ok(text.map(|text| Bytes::copy_from_slice(&text.as_bytes())))
}
