//! Libraries of functions: parsing for FUNCTION LOAD, and what a library's code registers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use mlua::{Function, Lua, Table, Value};

use crate::command::scripting::sha1_hex;
use crate::frame::Reply;
use crate::frame::request::split_line;
use crate::script::arguments::{Arguments, function, until_zero};
use crate::script::flags::{ScriptFlags, told};
use crate::script::machine::{Kind, MACHINE, Machine};
use crate::script::raised::Raised;

/// The error for an unknown function.
pub const NOT_FOUND: &str = "ERR Function not found";

/// Redis uses this text for a function's name too.
const BAD_NAME: &str = "Library names can only contain letters, numbers, or \
    underscores(_) and must be at least one character long";
const TIMEOUT: &str = "ERR Error registering functions: ERR FUNCTION LOAD timeout";

/// The libraries of a node, by name.
pub type Libraries = BTreeMap<Bytes, Library>;

/// A library. The state that its code keeps between calls is in its callbacks.
#[derive(Clone, Debug)]
pub struct Library {
    /// Its code with the shebang line, as it was loaded.
    pub code: Bytes,
    /// Its functions, by name.
    pub functions: BTreeMap<Bytes, Registered>,
}

/// A function of a library.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its description.
    pub description: Option<Bytes>,
    /// Its flags.
    pub flags: ScriptFlags,
    /// The Lua function.
    pub callback: Function,
}

/// The functions registered so far by the library that is being loaded.
pub type Loading = BTreeMap<Bytes, Registered>;

/// The function of this name, ignoring case, with its registered name.
pub fn find<'a>(libraries: &'a Libraries, name: &[u8]) -> Option<(&'a Bytes, &'a Registered)> {
    let mut functions = libraries.values().flat_map(|library| &library.functions);
    functions.find(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Loads a library and adds it to the others; returns its name.
///
/// # Errors
/// Redis's error text for an invalid or duplicate library.
pub fn load(libraries: &mut Libraries, code: &[u8], replace: bool) -> Result<Bytes, Reply> {
    let (name, length) = first_line(code)?;
    if !replace && libraries.contains_key(&name) {
        let text = [b"ERR Library '", &name[..], b"' already exists"].concat();
        return Err(Reply::Error(text.into()));
    }
    let functions = MACHINE.with(|machine| registered(machine, code, length))?;
    if functions.is_empty() {
        return Err(Reply::error("ERR No functions registered"));
    }
    let mut others = libraries.clone();
    others.remove(&name);
    if let Some(name) = known_elsewhere(&others, &functions) {
        return Err(twice("Function ", &name));
    }
    let code = Bytes::copy_from_slice(code);
    libraries.insert(name.clone(), Library { code, functions });
    Ok(name)
}

/// The union of both; where both have a library, the new one wins if it `replaces`.
///
/// # Errors
/// Redis's error text for a duplicate library or function.
pub fn join(known: &Libraries, new: Libraries, replaces: bool) -> Result<Libraries, Reply> {
    let mut joined = known.clone();
    for (name, library) in new {
        if joined.remove(&name).is_some() && !replaces {
            return Err(twice("Library ", &name));
        }
        if let Some(name) = known_elsewhere(&joined, &library.functions) {
            return Err(twice("Function ", &name));
        }
        joined.insert(name, library);
    }
    Ok(joined)
}

fn twice(what: &str, name: &[u8]) -> Reply {
    let text = [b"ERR ", what.as_bytes(), name, b" already exists"].concat();
    Reply::Error(text.into())
}

/// The first of these functions that one of the libraries also has.
fn known_elsewhere(libraries: &Libraries, functions: &Loading) -> Option<Bytes> {
    functions.keys().find(|name| find(libraries, name).is_some()).cloned()
}

/// The name in `#!lua name=...`, and the line's length.
fn first_line(code: &[u8]) -> Result<(Bytes, usize), Reply> {
    if !code.starts_with(b"#!") {
        return Err(Reply::error("ERR Missing library metadata"));
    }
    let invalid = || Reply::error("ERR Invalid library metadata");
    let length = until_zero(code).iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let words = split_line(&code[..length]).ok_or_else(invalid)?;
    let (engine, words) = words.split_first().ok_or_else(invalid)?;
    let mut name = None;
    for word in words {
        if !word.get(..5).is_some_and(|head| head.eq_ignore_ascii_case(b"name=")) {
            return Err(told("Invalid metadata value given: ", until_zero(word)));
        }
        if name.replace(Bytes::copy_from_slice(&word[5..])).is_some() {
            let text = "ERR Invalid metadata value, name argument was given multiple times";
            return Err(Reply::error(text));
        }
    }
    let name = name.ok_or(Reply::error("ERR Library name was not given"))?;
    if !is_name(&name) {
        return Err(told(BAD_NAME, b""));
    }
    let engine = &engine[2..];
    if !engine.eq_ignore_ascii_case(b"lua") {
        let text = [b"ERR Engine '", engine, b"' not found"].concat();
        return Err(Reply::Error(text.into()));
    }
    Ok((name, length))
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Runs a library's code; returns what it registered.
fn registered(machine: &Machine, code: &[u8], length: usize) -> Result<Loading, Reply> {
    let failed = |what: &str, why: &[u8]| {
        let text = [b"ERR Error ", what.as_bytes(), b": ", why].concat();
        Reply::Error(text.into())
    };
    let chunk = machine.compiled(Kind::Library, &sha1_hex(code), &code[length..]);
    let chunk = chunk.map_err(|why| failed("compiling function", why.as_bytes()))?;
    *machine.loading.borrow_mut() = Some(Loading::new());
    let result = machine.load(&chunk);
    let functions = machine.loading.borrow_mut().take().unwrap_or_default();
    if machine.ended().is_some() {
        return Err(Reply::error(TIMEOUT));
    }
    match result {
        Ok((true, _)) => Ok(functions),
        Ok((false, problem)) => Err(failed("registering functions", &text_of(&problem))),
        Err(error) => {
            let text = format!("ERR {error}");
            Err(failed("registering functions", text.as_bytes()))
        }
    }
}

/// The text of an error in a library's code.
fn text_of(problem: &Value) -> Vec<u8> {
    match problem {
        Value::String(text) => [b"ERR ", &text.as_bytes()[..]].concat(),
        Value::Table(table) => match table.raw_get::<Value>("err") {
            Ok(Value::String(text)) => text.as_bytes().to_vec(),
            _ => b"ERR unknown error".to_vec(),
        },
        _ => b"ERR unknown error".to_vec(),
    }
}

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
fn by_place(arguments: &Arguments) -> mlua::Result<(Bytes, Registered)> {
    let Some(name) = text(arguments.lua, arguments.value(1))? else {
        return refuse("first argument to redis.register_function must be a string");
    };
    let Value::Function(callback) = arguments.value(2).clone() else {
        return refuse("second argument to redis.register_function must be a function");
    };
    Ok((name, Registered { description: None, flags: ScriptFlags::default(), callback }))
}

/// `redis.register_function{function_name=..., callback=..., description=..., flags={...}}`
fn by_name(arguments: &Arguments) -> mlua::Result<(Bytes, Registered)> {
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
        flags = flags.and(flag.ok_or(Raised::Refusal("unknown flag given"))?);
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
