//! The arguments of a library function, checked with the errors of Lua's auxiliary library.

use mlua::{Function, IntoLuaMulti, Lua, LuaString, MultiValue, Value};

use crate::script::conversions::{until_zero, whole};
use crate::script::raised::Raised;

/// The arguments of a library function. They are numbered from 1, as in Lua's texts.
pub struct ScriptArguments<'a> {
    /// The calling machine.
    pub lua: &'a Lua,
    values: MultiValue,
}

/// A library function for scripts.
pub fn function<R: IntoLuaMulti>(
    lua: &Lua,
    body: impl Fn(&ScriptArguments) -> mlua::Result<R> + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| body(&ScriptArguments { lua, values }))
}

impl ScriptArguments<'_> {
    /// Their number, trailing nils included.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// An argument; nil if it is missing.
    pub fn value(&self, nth: usize) -> &Value {
        self.values.get(nth - 1).unwrap_or(&Value::Nil)
    }

    /// Whether an argument is missing or nil.
    pub fn is_nil(&self, nth: usize) -> bool {
        self.value(nth).is_nil()
    }

    /// `lua_tonumber`: a number, or a text that is one.
    pub fn as_number(&self, nth: usize) -> mlua::Result<Option<f64>> {
        match self.value(nth) {
            Value::Integer(number) => Ok(Some(*number as f64)),
            Value::Number(number) => Ok(Some(*number)),
            text @ Value::String(_) => self.lua.coerce_number(text.clone()),
            _ => Ok(None),
        }
    }

    /// `luaL_checknumber`.
    pub fn number(&self, nth: usize) -> mlua::Result<f64> {
        self.as_number(nth)?.ok_or_else(|| self.wrong_kind(nth, "number"))
    }

    /// `luaL_checkinteger`.
    pub fn integer(&self, nth: usize) -> mlua::Result<i64> {
        self.number(nth).map(whole)
    }

    /// `luaL_optinteger`.
    pub fn integer_or(&self, nth: usize, default: i64) -> mlua::Result<i64> {
        if self.is_nil(nth) { Ok(default) } else { self.integer(nth) }
    }

    /// `lua_tolstring`: a text, or a number as a text.
    pub fn as_text(&self, nth: usize) -> mlua::Result<Option<LuaString>> {
        match self.value(nth) {
            Value::String(text) => Ok(Some(text.clone())),
            number @ (Value::Integer(_) | Value::Number(_)) => {
                self.lua.coerce_string(number.clone())
            }
            _ => Ok(None),
        }
    }

    /// `luaL_checklstring`.
    pub fn text(&self, nth: usize) -> mlua::Result<LuaString> {
        self.as_text(nth)?.ok_or_else(|| self.wrong_kind(nth, "string"))
    }

    /// `luaL_checkoption`: the index of a word among the options.
    pub fn option(&self, nth: usize, options: &[&str]) -> mlua::Result<usize> {
        let text = self.text(nth)?;
        let word = until_zero(&text.as_bytes()).to_vec();
        options
            .iter()
            .position(|option| option.as_bytes() == word)
            .ok_or_else(|| self.refuse_bytes(nth, &[b"invalid option '", &word[..], b"'"].concat()))
    }

    /// `luaL_typerror`.
    pub fn wrong_kind(&self, nth: usize, expected: &str) -> mlua::Error {
        let missing = nth > self.count();
        let got = if missing { "no value" } else { kind(self.value(nth)) };
        self.refuse(nth, &format!("{expected} expected, got {got}"))
    }

    /// `luaL_argerror`.
    pub fn refuse(&self, nth: usize, why: &str) -> mlua::Error {
        self.refuse_bytes(nth, why.as_bytes())
    }

    /// [`ScriptArguments::refuse`] with a reason that need not be UTF-8.
    pub fn refuse_bytes(&self, mut nth: usize, why: &[u8]) -> mlua::Error {
        let (name, is_method) = self
            .lua
            .inspect_stack(0, |frame| {
                let names = frame.names();
                let name = names.name.as_deref().unwrap_or("?").to_owned();
                (name, names.name_what == Some("method"))
            })
            .unwrap_or_else(|| ("?".to_owned(), false));
        if is_method {
            nth = nth.saturating_sub(1);
            if nth == 0 {
                let head = format!("calling '{name}' on bad self (");
                return self.complain_bytes(&[head.as_bytes(), why, b")"].concat());
            }
        }
        let head = format!("bad argument #{nth} to '{name}' (");
        self.complain_bytes(&[head.as_bytes(), why, b")"].concat())
    }

    /// `luaL_error`: a text after the position of the call.
    pub fn complain(&self, text: &str) -> mlua::Error {
        self.complain_bytes(text.as_bytes())
    }

    fn complain_bytes(&self, text: &[u8]) -> mlua::Error {
        let place = self.lua.inspect_stack(1, |frame| {
            let line = frame.current_line().filter(|line| *line > 0)?;
            Some(format!("{}:{line}: ", frame.source().short_src?))
        });
        let place = place.flatten().unwrap_or_default();
        Raised::Text([place.as_bytes(), text].concat()).into()
    }
}

/// `lua_typename`.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}
