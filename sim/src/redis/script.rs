//! Lua scripts. The one door to `mlua`: a Lua 5.1 machine a thread for all nodes of a run.
//!
//! While a script runs its node stands behind the door, so that `redis.call` can reach the
//! executor; it is moved back when the script ends, however it ends. Compiled functions are
//! shared by SHA1; which scripts a node knows is the node's own affair.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};

use crate::redis::command::scripting::sha1_hex;
use crate::redis::command::{Kind, check_arity, check_write, execute, find};
use crate::redis::frame::Reply;
use crate::redis::node::{Node, ScriptRun, Session};

/// Instructions between two looks at the meter.
const LOOK_EVERY: u32 = 10_000;
/// Instructions after which a script is ended: real Redis would answer BUSY for ever.
const MOST_INSTRUCTIONS: u64 = 50_000_000;
/// Bytes that the machine may take while a script runs.
const MOST_MEMORY: usize = 256 * 1024 * 1024;
/// How deep a table may be nested that is turned into a reply.
const DEEPEST: usize = 100;

thread_local! {
    static MACHINE: Machine = Machine::new().expect("the prelude loads");
}

/// Node and session of the script that runs.
#[derive(Default)]
struct Running {
    node: Node,
    session: Session,
}

struct Machine {
    lua: Lua,
    run: Function,
    env: Table,
    functions: RefCell<BTreeMap<Bytes, Function>>,
    door: Rc<RefCell<Running>>,
    meter: Rc<Meter>,
}

/// How long the script has run.
#[derive(Default)]
struct Meter {
    instructions: Cell<u64>,
    ended: Cell<bool>,
}

/// Whether a script compiles.
///
/// # Errors
/// Redis's words for a script that does not.
pub fn check(sha: &Bytes, body: &[u8]) -> Result<(), Reply> {
    head(body)?;
    MACHINE.with(|machine| machine.function(sha, body).map(drop))
}

/// Runs a script on a node, with the node's time standing still.
pub fn run(
    node: &mut Node,
    session: &Session,
    sha: &Bytes,
    body: &[u8],
    (keys, args): (&[Bytes], &[Bytes]),
) -> Reply {
    let prepared = head(body).and_then(|flags| {
        if flags.declared && !flags.no_writes {
            check_write(node, session)?;
        }
        let function = MACHINE.with(|machine| machine.function(sha, body))?;
        Ok((flags, function))
    });
    let (flags, function) = match prepared {
        Ok(prepared) => prepared,
        Err(refusal) => return refusal,
    };
    let mut inner = Session {
        id: session.id,
        db: session.db,
        from_master: session.from_master,
        script: Some(ScriptRun { read_only: flags.no_writes }),
        ..Session::default()
    };
    MACHINE.with(|machine| {
        machine.swap(node, &mut inner);
        let result = machine.call(&function, keys, args);
        machine.swap(node, &mut inner);
        machine.reply(sha, result)
    })
}

/// What the first line of a script says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    declared: bool,
    no_writes: bool,
    length: usize,
}

/// Reads `#!lua flags=...`.
fn head(body: &[u8]) -> Result<Head, Reply> {
    if !body.starts_with(b"#!") {
        return Ok(Head::default());
    }
    let Some(length) = body.iter().position(|byte| *byte == b'\n') else {
        return Err(Reply::error("ERR Invalid script shebang"));
    };
    let line = String::from_utf8_lossy(&body[2..length]);
    let mut head = Head { declared: true, no_writes: false, length };
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "lua" {
        let text = format!("ERR Unexpected engine in script shebang: #!{engine}");
        return Err(Reply::Error(text.into()));
    }
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            let text = format!("ERR Unknown lua shebang option: {word}");
            return Err(Reply::Error(text.into()));
        };
        for flag in flags.split(',') {
            match flag {
                "no-writes" => head.no_writes = true,
                "" | "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => {
                    let text = format!("ERR Unexpected flag in script shebang: {flag}");
                    return Err(Reply::Error(text.into()));
                }
            }
        }
    }
    Ok(head)
}

impl Machine {
    fn new() -> mlua::Result<Machine> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let door = Rc::new(RefCell::new(Running::default()));
        let prelude = lua.load(include_str!("prelude.lua")).set_name("@prelude").into_function()?;
        let (env, run): (Table, Function) = prelude.call((
            caller(&lua, &door, true)?,
            caller(&lua, &door, false)?,
            where_is(&lua)?,
            text_of_error(&lua)?,
            lua.create_function(|lua, text: mlua::LuaString| {
                lua.create_string(sha1_hex(&text.as_bytes()))
            })?,
            random(&lua, &door)?,
            seed(&lua, &door)?,
        ))?;
        let meter = Rc::new(Meter::default());
        let machine = Machine { lua, run, env, functions: RefCell::default(), door, meter };
        machine.watch(LOOK_EVERY)?;
        Ok(machine)
    }

    /// Looks at the meter every so many instructions. Once a script is ended every further
    /// instruction raises, so that no pcall of its own keeps it alive.
    fn watch(&self, every: u32) -> mlua::Result<()> {
        let meter = Rc::clone(&self.meter);
        let triggers = HookTriggers::new().every_nth_instruction(every);
        self.lua.set_global_hook(triggers, move |lua, _| {
            let instructions = meter.instructions.get() + u64::from(every);
            meter.instructions.set(instructions);
            if instructions < MOST_INSTRUCTIONS {
                return Ok(VmState::Continue);
            }
            if !meter.ended.replace(true) {
                let always = HookTriggers::new().every_nth_instruction(1);
                lua.set_global_hook(always, |_, _| Err(mlua::Error::runtime("ended")))?;
            }
            Err(mlua::Error::runtime("ended"))
        })
    }

    /// The compiled function of a script.
    fn function(&self, sha: &Bytes, body: &[u8]) -> Result<Function, Reply> {
        if let Some(function) = self.functions.borrow().get(sha) {
            return Ok(function.clone());
        }
        let code = &body[head(body)?.length..];
        let chunk = self.lua.load(code).set_mode(ChunkMode::Text).set_name("@user_script");
        let function = chunk.set_environment(self.env.clone()).into_function();
        let function = function.map_err(|error| {
            let why = match error {
                mlua::Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            Reply::Error(format!("ERR Error compiling script (new function): {why}").into())
        })?;
        self.functions.borrow_mut().insert(sha.clone(), function.clone());
        Ok(function)
    }

    /// Moves a node behind the door, or back.
    fn swap(&self, node: &mut Node, session: &mut Session) {
        let mut running = self.door.borrow_mut();
        std::mem::swap(&mut running.node, node);
        std::mem::swap(&mut running.session, session);
    }

    fn call(
        &self,
        function: &Function,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> mlua::Result<(bool, Value)> {
        self.meter.instructions.set(0);
        // Under a limit every string and table costs a protected call: it stands for scripts only.
        self.lua.set_memory_limit(0)?;
        let keys = self.words(keys)?;
        let args = self.words(args)?;
        self.lua.set_memory_limit(MOST_MEMORY)?;
        self.run.call((function, keys, args))
    }

    fn words(&self, words: &[Bytes]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(words.len(), 0)?;
        for word in words {
            table.raw_push(self.lua.create_string(word)?)?;
        }
        Ok(table)
    }

    fn reply(&self, sha: &Bytes, result: mlua::Result<(bool, Value)>) -> Reply {
        if self.meter.ended.replace(false) {
            self.watch(LOOK_EVERY).expect("a hook can be set");
            let text = "ERR Script ended after 50000000 instructions script: ";
            let sha = String::from_utf8_lossy(sha);
            return Reply::Error(format!("{text}{sha}, on @user_script:0.").into());
        }
        match result {
            Ok((true, value)) => to_reply(&value, 0),
            Ok((false, Value::Table(problem))) => failure(&problem, sha),
            Ok((false, _)) => running_failed(sha, "execution failure"),
            Err(error) => running_failed(sha, &error.to_string()),
        }
    }
}

fn running_failed(sha: &[u8], why: &str) -> Reply {
    let sha = String::from_utf8_lossy(sha);
    let why: String = why.chars().take(100).collect();
    Reply::Error(format!("ERR Error running script {sha}, {why}").into())
}

/// An error that reached the end of the script, with the place where it was raised.
fn failure(problem: &Table, sha: &[u8]) -> Reply {
    let mut text = match problem.raw_get::<Option<mlua::LuaString>>("err") {
        Ok(Some(text)) => text.as_bytes().to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    if let Ok(Some(line)) = problem.raw_get::<Option<i64>>("line") {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(sha);
        text.extend_from_slice(format!(", on @user_script:{line}.").as_bytes());
    }
    Reply::Error(text.into())
}

/// The error of a `redis.call` on its way through the machine.
#[derive(Debug)]
struct Raised(Bytes);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl std::error::Error for Raised {}

/// `redis.call`, which raises errors, and `redis.pcall`, which returns them. They are no Lua
/// functions: a tail call of one would hide the line of the script that called.
fn caller(lua: &Lua, door: &Rc<RefCell<Running>>, raises: bool) -> mlua::Result<Function> {
    let door = Rc::clone(door);
    lua.create_function(move |lua, words: MultiValue| {
        let reply = match command_words(&words) {
            Ok(args) => call_command(&mut door.borrow_mut(), &args),
            Err(refusal) => refusal,
        };
        match reply {
            Reply::Error(text) if raises => Err(mlua::Error::external(Raised(text))),
            reply => to_lua(lua, &reply),
        }
    })
}

/// The text of an error that [`caller`] raised.
fn text_of_error(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, problem: mlua::Error| {
        let text = match problem.downcast_ref::<Raised>() {
            Some(Raised(text)) => text.clone(),
            None => Bytes::from(format!("ERR {problem}")),
        };
        lua.create_string(text)
    })
}

fn command_words(words: &MultiValue) -> Result<Vec<Bytes>, Reply> {
    if words.is_empty() {
        return Err(Reply::error(
            "ERR Please specify at least one argument for this redis lib call",
        ));
    }
    let word = |value: &Value| match value {
        Value::String(text) => Ok(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Integer(number) => Ok(Bytes::from(in_17_digits(*number as f64))),
        Value::Number(number) => Ok(Bytes::from(in_17_digits(*number))),
        _ => Err(Reply::error("ERR Lua redis lib command arguments must be strings or integers")),
    };
    words.iter().map(word).collect()
}

/// The refusals of `scriptCall`, then the executor.
fn call_command(running: &mut Running, args: &[Bytes]) -> Reply {
    let Running { node, session } = running;
    let Some(command) = find(&args[0]) else {
        return Reply::error("ERR Unknown Redis command called from script");
    };
    if check_arity(command, args).is_err() {
        return Reply::error("ERR Wrong number of args calling Redis command from script");
    }
    if command.kind == Kind::NoScript {
        return Reply::error("ERR This Redis command is not allowed from script");
    }
    if command.kind == Kind::Write {
        if session.script.as_ref().is_some_and(|script| script.read_only) {
            return Reply::error("ERR Write commands are not allowed from read-only scripts.");
        }
        if let Err(refusal) = check_write(node, session) {
            return refusal;
        }
    }
    execute(node, session, command, args)
}

/// The line of the user's script that is being executed.
fn where_is(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, ()| {
        let line = (1..16).find_map(|level| {
            lua.inspect_stack(level, |debug| {
                let users = debug.source().source.as_deref() == Some("@user_script");
                users.then(|| debug.current_line()).flatten()
            })
            .flatten()
        });
        Ok(line)
    })
}

/// `math.random` without arguments: `redisLrand48() % REDIS_LRAND48_MAX / REDIS_LRAND48_MAX`.
fn random(lua: &Lua, door: &Rc<RefCell<Running>>) -> mlua::Result<Function> {
    const MAX: u64 = 0x7fff_ffff;
    let door = Rc::clone(door);
    lua.create_function(move |_, ()| {
        let state = &mut door.borrow_mut().node.script_random;
        *state = (state.wrapping_mul(0x5_DEEC_E66D) + 0xB) & 0xffff_ffff_ffff;
        let drawn = (*state >> 17) % MAX;
        Ok(drawn as f64 / MAX as f64)
    })
}

/// `math.randomseed`: `redisSrand48`.
fn seed(lua: &Lua, door: &Rc<RefCell<Running>>) -> mlua::Result<Function> {
    let door = Rc::clone(door);
    lua.create_function(move |_, seed: f64| {
        let seed = (seed as i64 as u64) & 0xffff_ffff;
        door.borrow_mut().node.script_random = seed << 16 | 0x330E;
        Ok(())
    })
}

/// A reply as a script sees it.
fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
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
fn to_reply(value: &Value, depth: usize) -> Reply {
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
fn in_17_digits(number: f64) -> String {
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
