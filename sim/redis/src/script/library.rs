//! FUNCTION LOAD: creates a library from its code.

use bytes::Bytes;
use mlua::Value;

use crate::frame::Reply;
use crate::frame::request::split_line;
use crate::script::conversions::until_zero;
use crate::script::machine::{CodeKind, MACHINE, Machine};
use crate::script_state::flags::quoting;
use crate::script_state::libraries::{
    BAD_NAME, Libraries, Library, Loading, is_name, known_elsewhere, twice,
};

const TIMEOUT: &str = "ERR Error registering functions: ERR FUNCTION LOAD timeout";

/// Loads a library in addition to the others; returns its name.
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
            return Err(quoting("Invalid metadata value given: ", until_zero(word)));
        }
        if name.replace(Bytes::copy_from_slice(&word[5..])).is_some() {
            let text = "ERR Invalid metadata value, name argument was given multiple times";
            return Err(Reply::error(text));
        }
    }
    let name = name.ok_or(Reply::error("ERR Library name was not given"))?;
    if !is_name(&name) {
        return Err(quoting(BAD_NAME, b""));
    }
    let engine = &engine[2..];
    if !engine.eq_ignore_ascii_case(b"lua") {
        let text = [b"ERR Engine '", engine, b"' not found"].concat();
        return Err(Reply::Error(text.into()));
    }
    Ok((name, length))
}

/// Runs a library's code; returns what it registered.
fn registered(machine: &Machine, code: &[u8], length: usize) -> Result<Loading, Reply> {
    let failed = |what: &str, why: &[u8]| {
        let text = [b"ERR Error ", what.as_bytes(), b": ", why].concat();
        Reply::Error(text.into())
    };
    let chunk = machine.compile(CodeKind::Library, &code[length..]);
    let chunk = chunk.map_err(|why| failed("compiling function", why.as_bytes()))?;
    *machine.loading.borrow_mut() = Some(Loading::new());
    let result = machine.load(&chunk);
    // Taken even if the code failed: its functions must not register anything later.
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
