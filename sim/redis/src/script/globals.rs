//! Replacements of Lua functions that must respect read-only tables, or that would expose
//! internals.
//!
//! A read-only table is accessed through an empty proxy; `protected` maps the proxy to the table.
//! Writes to a proxy are refused here, otherwise they would succeed and stay in the proxy.

use mlua::{Function, Lua, MultiValue, Table, Value};

use crate::script::arguments::{ScriptArguments, function};
use crate::script::raised::{Raised, without_trace};

const READONLY: &str = "Attempt to modify a readonly table";

/// The functions by name; `insert` is the one of `table`.
pub fn functions(lua: &Lua, protected: &Table) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add = |name: &str, body: fn(&ScriptArguments, &Guard) -> mlua::Result<MultiValue>| {
        let guard = Guard {
            protected: protected.clone(),
            native: lua.globals().raw_get::<Option<Function>>(name)?,
        };
        table.raw_set(name, function(lua, move |arguments| body(arguments, &guard))?)
    };
    add("next", next)?;
    add("rawget", rawget)?;
    add("rawset", rawset)?;
    add("getmetatable", getmetatable)?;
    add("setmetatable", setmetatable)?;
    add("insert", insert)?;
    add("collectgarbage", collectgarbage)?;
    let (ours, native): (Value, Value) = (table.raw_get("next")?, lua.globals().raw_get("next")?);
    let protected = protected.clone();
    let pairs = function(lua, move |arguments| {
        let seen = a_table(arguments)?;
        let known: bool = protected.contains_key(&seen)?;
        let step = if known { ours.clone() } else { native.clone() };
        Ok((step, seen, Value::Nil))
    })?;
    table.raw_set("pairs", pairs)?;
    Ok(table)
}

struct Guard {
    protected: Table,
    /// Lua's own function of the same name.
    native: Option<Function>,
}

impl Guard {
    /// The table behind a proxy, if it is one.
    fn behind(&self, table: &Table) -> mlua::Result<Option<Table>> {
        if table.has_metatable() { self.protected.raw_get(table) } else { Ok(None) }
    }

    fn refuse_readonly(&self, table: &Table) -> mlua::Result<()> {
        match self.behind(table)? {
            Some(_) => Err(Raised::Text(READONLY.into()).into()),
            None => Ok(()),
        }
    }

    /// Calls Lua's own function, whose error has no position.
    fn call(&self, arguments: impl mlua::IntoLuaMulti) -> mlua::Result<MultiValue> {
        let native = self.native.as_ref().expect("Lua has this function");
        native.call(arguments).map_err(|error| match error {
            mlua::Error::RuntimeError(text) => Raised::Text(without_trace(&text).into()).into(),
            other => other,
        })
    }
}

/// The table behind a read-only proxy, otherwise the table itself.
pub fn behind(protected: &Table, table: &Table) -> mlua::Result<Table> {
    if !table.has_metatable() {
        return Ok(table.clone());
    }
    let real: Option<Table> = protected.raw_get(table)?;
    Ok(real.unwrap_or_else(|| table.clone()))
}

fn a_table(arguments: &ScriptArguments) -> mlua::Result<Table> {
    match arguments.value(1) {
        Value::Table(table) => Ok(table.clone()),
        _ => Err(arguments.wrong_kind(1, "table")),
    }
}

/// `luaL_checkany`.
fn need(arguments: &ScriptArguments, nth: usize) -> mlua::Result<()> {
    if arguments.count() < nth {
        return Err(arguments.refuse(nth, "value expected"));
    }
    Ok(())
}

fn next(arguments: &ScriptArguments, guard: &Guard) -> mlua::Result<MultiValue> {
    let table = a_table(arguments)?;
    let table = guard.behind(&table)?.unwrap_or(table);
    guard.call((table, arguments.value(2)))
}

fn rawget(arguments: &ScriptArguments, guard: &Guard) -> mlua::Result<MultiValue> {
    let table = a_table(arguments)?;
    need(arguments, 2)?;
    let table = guard.behind(&table)?.unwrap_or(table);
    Ok(MultiValue::from_iter([table.raw_get::<Value>(arguments.value(2))?]))
}

fn rawset(arguments: &ScriptArguments, guard: &Guard) -> mlua::Result<MultiValue> {
    let table = a_table(arguments)?;
    need(arguments, 2)?;
    need(arguments, 3)?;
    guard.refuse_readonly(&table)?;
    guard.call((table, arguments.value(2), arguments.value(3)))
}

fn getmetatable(arguments: &ScriptArguments, guard: &Guard) -> mlua::Result<MultiValue> {
    need(arguments, 1)?;
    let found = guard.call(arguments.value(1))?;
    if let (Value::Table(table), Some(Value::Boolean(false))) = (arguments.value(1), found.front())
        && guard.behind(table)?.is_some()
    {
        // The metatable is the proxy's; the library itself has none.
        return Ok(MultiValue::from_iter([Value::Nil]));
    }
    Ok(found)
}

fn setmetatable(arguments: &ScriptArguments, guard: &Guard) -> mlua::Result<MultiValue> {
    let table = a_table(arguments)?;
    let given = arguments.count() > 1;
    if !given || !matches!(arguments.value(2), Value::Nil | Value::Table(_)) {
        return Err(arguments.refuse(2, "nil or table expected"));
    }
    guard.refuse_readonly(&table)?;
    if table.metatable().is_some_and(|meta| meta.contains_key("__metatable").unwrap_or(true)) {
        return Err(arguments.complain("cannot change a protected metatable"));
    }
    guard.call((table, arguments.value(2)))
}

/// `table.insert`.
fn insert(arguments: &ScriptArguments, guard: &Guard) -> mlua::Result<MultiValue> {
    let table = a_table(arguments)?;
    let mut end = i64::try_from(table.raw_len()).unwrap_or(i64::MAX) + 1;
    let at = match arguments.count() {
        2 => end,
        3 => i64::from(arguments.integer(2)? as i32),
        _ => return Err(arguments.complain("wrong number of arguments to 'insert'")),
    };
    guard.refuse_readonly(&table)?;
    end = end.max(at);
    while end > at {
        end -= 1;
        table.raw_set(end + 1, table.raw_get::<Value>(end)?)?;
    }
    table.raw_set(at, arguments.value(arguments.count()))?;
    Ok(MultiValue::new())
}

/// `collectgarbage`: the machine is shared, so it has no effect and a constant result.
fn collectgarbage(arguments: &ScriptArguments, _: &Guard) -> mlua::Result<MultiValue> {
    const OPTIONS: [&str; 7] =
        ["stop", "restart", "collect", "count", "step", "setpause", "setstepmul"];
    let option = if arguments.is_nil(1) { 2 } else { arguments.option(1, &OPTIONS)? };
    arguments.integer_or(2, 0)?;
    let answer = match OPTIONS[option] {
        "count" => Value::Number(100.0),
        "step" => Value::Boolean(false),
        "setpause" | "setstepmul" => Value::Integer(200),
        _ => Value::Integer(0),
    };
    Ok(MultiValue::from_iter([answer]))
}
