//! Lua scripts. The one door to `mlua`: a Lua 5.1 machine a thread for all nodes of a run.
//!
//! While a script runs its node stands behind the door, so that `redis.call` can reach the
//! executor; it is moved back when the script ends, however it ends. Compiled functions are
//! shared by SHA1; which scripts a node knows is the node's own affair.

mod api;
mod arguments;
mod bit;
mod cjson;
mod cmsgpack;
mod globals;
mod raised;
mod random;
mod structs;
mod value;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};

use crate::redis::command::admission::{check_write, execute};
use crate::redis::command::table::{Flags, look_up};
use crate::redis::digits::in_digits;
use crate::redis::frame::Reply;
use crate::redis::node::{Busy, Node};
use crate::redis::script::arguments::until_zero;
use crate::redis::script::raised::{Raised, value_of_error, where_is};
use crate::redis::script::value::{to_lua, to_reply};
use crate::redis::session::{Block, ScriptRun, Session};

/// Instructions between two looks at the meter.
const LOOK_EVERY: u32 = 10_000;
/// Instructions after which a script counts as one without an end: it holds its node until it is
/// killed. No script of a lock takes a thousandth of them.
const MOST_INSTRUCTIONS: u64 = 20_000_000;
/// Compiled scripts that are kept: the machine has about 8000 places for what Rust holds of it.
const MOST_FUNCTIONS: usize = 1000;
/// Bytes that the machine may take while a script's own code runs.
const MOST_MEMORY: usize = 256 * 1024 * 1024;

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
    choices: Choices,
}

/// What a script may choose for the rest of its run.
#[derive(Default)]
struct Choices {
    /// `redis.setresp(3)`.
    resp3: Rc<Cell<bool>>,
    cjson: Rc<Cell<cjson::Settings>>,
}

/// How long the script has run.
#[derive(Default)]
struct Meter {
    instructions: Cell<u64>,
    ended: Cell<bool>,
    /// The line at which it was ended.
    line: Cell<i64>,
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
    session: &mut Session,
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
        script: Some(ScriptRun { read_only: flags.no_writes, ..ScriptRun::default() }),
        ..Session::default()
    };
    MACHINE.with(|machine| {
        machine.swap(node, &mut inner);
        let result = machine.call(&function, keys, args);
        machine.swap(node, &mut inner);
        match machine.ended() {
            None => machine.reply(sha, result),
            Some(line) => {
                let wrote = inner.script.is_some_and(|script| script.wrote);
                hold(node, session, killed_text(sha, line), wrote)
            }
        }
    })
}

/// A script without an end holds its node. Nobody is told what it wrote: it is never done.
fn hold(node: &mut Node, session: &mut Session, killed: Bytes, wrote: bool) -> Reply {
    node.effects.commands.clear();
    let (since_ms, session_id) = (node.now_ms, session.id);
    node.busy = Some(Busy { since_ms, session: session_id, wrote, killed, endless: true });
    session.blocked = Some(Block::Script);
    Reply::SILENCE
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
        let choices = Choices::default();
        let host = host(&lua, &door, &choices)?;
        let prelude =
            lua.load(include_str!("script/prelude.lua")).set_name("@prelude").into_function()?;
        let (env, run): (Table, Function) = prelude.call(host)?;
        let meter = Rc::new(Meter::default());
        let machine =
            Machine { lua, run, env, functions: RefCell::default(), door, meter, choices };
        machine.watch(LOOK_EVERY)?;
        Ok(machine)
    }

    /// Looks at the meter every so many instructions. Once a script is ended every further
    /// instruction raises, so that no pcall of its own keeps it alive.
    fn watch(&self, every: u32) -> mlua::Result<()> {
        let meter = Rc::clone(&self.meter);
        let triggers = HookTriggers::new().every_nth_instruction(every);
        self.lua.set_global_hook(triggers, move |lua, debug| {
            let instructions = meter.instructions.get() + u64::from(every);
            meter.instructions.set(instructions);
            if instructions < MOST_INSTRUCTIONS {
                return Ok(VmState::Continue);
            }
            if !meter.ended.replace(true) {
                let line = debug.current_line().and_then(|line| i64::try_from(line).ok());
                meter.line.set(line.unwrap_or(0));
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
        let mut functions = self.functions.borrow_mut();
        if functions.len() >= MOST_FUNCTIONS {
            functions.clear();
        }
        functions.insert(sha.clone(), function.clone());
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
        self.choices.resp3.set(false);
        self.choices.cjson.set(cjson::Settings::default());
        let (keys, args) = unlimited(&self.lua, || Ok((self.words(keys)?, self.words(args)?)))?;
        self.run.call((function, keys, args))
    }

    fn words(&self, words: &[Bytes]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(words.len(), 0)?;
        for word in words {
            table.raw_push(self.lua.create_string(word)?)?;
        }
        Ok(table)
    }

    /// Whether the script was ended, and at which line.
    fn ended(&self) -> Option<i64> {
        if !self.meter.ended.replace(false) {
            return None;
        }
        self.watch(LOOK_EVERY).expect("a hook can be set");
        Some(self.meter.line.get())
    }

    fn reply(&self, sha: &Bytes, result: mlua::Result<(bool, Value)>) -> Reply {
        match result {
            Ok((true, value)) => to_reply(&value, self.choices.resp3.get(), 0),
            Ok((false, Value::Table(problem))) => failure(&problem, sha),
            Ok((false, _)) => running_failed(sha, "execution failure"),
            Err(error) => running_failed(sha, &error.to_string()),
        }
    }
}

/// Makes values for a script without a limit of memory: under one every single value costs a
/// protected call. The limit stands for what scripts do themselves.
fn unlimited<T>(lua: &Lua, make: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    lua.set_memory_limit(0)?;
    let made = make();
    lua.set_memory_limit(MOST_MEMORY)?;
    made
}

fn running_failed(sha: &[u8], why: &str) -> Reply {
    let sha = String::from_utf8_lossy(sha);
    let why: String = why.chars().take(100).collect();
    Reply::Error(format!("ERR Error running script {sha}, {why}").into())
}

/// An error that reached the end of the script, with the place where it was raised.
fn failure(problem: &Table, sha: &[u8]) -> Reply {
    let mut text = match problem.raw_get::<Option<mlua::LuaString>>("err") {
        Ok(Some(text)) => until_zero(&text.as_bytes()).to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    let place = |field| problem.raw_get::<Option<mlua::LuaString>>(field);
    if let (Ok(Some(source)), Ok(Some(line))) = (place("source"), place("line")) {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(sha);
        text.extend_from_slice(b", on ");
        text.extend_from_slice(until_zero(&source.as_bytes()));
        text.push(b':');
        text.extend_from_slice(&line.as_bytes());
        text.push(b'.');
    }
    Reply::Error(text.into())
}

/// What the prelude is made of.
fn host(lua: &Lua, door: &Rc<RefCell<Running>>, choices: &Choices) -> mlua::Result<Table> {
    lua.set_named_registry_value("next", lua.globals().raw_get::<Function>("next")?)?;
    let host = lua.create_table()?;
    let protected = lua.create_table()?;
    let redis = lua.create_table()?;
    redis.raw_set("call", caller(lua, door, &choices.resp3, true)?)?;
    redis.raw_set("pcall", caller(lua, door, &choices.resp3, false)?)?;
    api::fill(lua, &redis, &choices.resp3)?;
    host.raw_set("redis", redis)?;
    host.raw_set("cjson", cjson::library(lua, &choices.cjson, &protected)?)?;
    host.raw_set("bit", bit::library(lua)?)?;
    host.raw_set("struct", structs::library(lua)?)?;
    host.raw_set("cmsgpack", cmsgpack::library(lua, &protected)?)?;
    host.raw_set("functions", globals::functions(lua, &protected)?)?;
    host.raw_set("protected", protected)?;
    host.raw_set("where", where_is(lua)?)?;
    host.raw_set("value_of_error", value_of_error(lua)?)?;
    host.raw_set("random", random::random(lua, door)?)?;
    host.raw_set("seed", random::seed(lua, door)?)?;
    Ok(host)
}

/// `redis.call`, which raises errors, and `redis.pcall`, which returns them. They are no Lua
/// functions: a tail call of one would hide the line of the script that called.
fn caller(
    lua: &Lua,
    door: &Rc<RefCell<Running>>,
    resp3: &Rc<Cell<bool>>,
    raises: bool,
) -> mlua::Result<Function> {
    let (door, resp3) = (Rc::clone(door), Rc::clone(resp3));
    lua.create_function(move |lua, words: MultiValue| {
        let reply = match command_words(&words) {
            Ok(args) => call_command(&mut door.borrow_mut(), &args),
            Err(refusal) if raises => return Err(Raised::Refusal(refusal).into()),
            Err(refusal) => return Ok(Value::Table(raised::refusal(lua, refusal)?)),
        };
        match reply {
            Reply::Error(text) if raises => Err(Raised::Reply(text).into()),
            reply => unlimited(lua, || to_lua(lua, &reply, resp3.get())),
        }
    })
}

fn command_words(words: &MultiValue) -> Result<Vec<Bytes>, &'static str> {
    if words.is_empty() {
        return Err(api::NO_ARGUMENTS);
    }
    let word = |value: &Value| match value {
        Value::String(text) => Ok(Bytes::copy_from_slice(&text.as_bytes())),
        Value::Integer(number) => Ok(Bytes::from(in_digits(*number as f64, 17))),
        Value::Number(number) => Ok(Bytes::from(in_digits(*number, 17))),
        _ => Err(api::NO_TEXTS),
    };
    words.iter().map(word).collect()
}

/// The refusals of `scriptCall`, then the executor.
fn call_command(running: &mut Running, args: &[Bytes]) -> Reply {
    let Running { node, session } = running;
    let Some(command) = look_up(args) else {
        return Reply::error("ERR Unknown Redis command called from script");
    };
    if !command.takes(args.len()) {
        return Reply::error("ERR Wrong number of args calling Redis command from script");
    }
    if command.flags.any(Flags::NOSCRIPT) {
        return Reply::error("ERR This Redis command is not allowed from script");
    }
    if command.flags.any(Flags::WRITE) {
        if session.script.as_ref().is_some_and(|script| script.read_only) {
            return Reply::error("ERR Write commands are not allowed from read-only scripts.");
        }
        if let Err(refusal) = check_write(node, session) {
            return refusal;
        }
    }
    if command.flags.any(Flags::WRITE)
        && let Some(script) = &mut session.script
    {
        script.wrote = true;
    }
    execute(node, session, command, args)
}

/// What the caller of a script is told that was killed.
pub fn killed_text(sha: &Bytes, line: i64) -> Bytes {
    let sha = String::from_utf8_lossy(sha);
    let text = "ERR Script killed by user with SCRIPT KILL... script: ";
    Bytes::from(format!("{text}{sha}, on @user_script:{line}."))
}

#[cfg(test)]
mod tests {
    use crate::redis::command::admission::apply;
    use crate::redis::frame::Reply;
    use crate::redis::node::{Node, NodeConfig};
    use crate::redis::session::Session;
    use bytes::Bytes;

    fn node() -> Node {
        Node::new(NodeConfig::default(), 1_000_000, [1, 2, 3])
    }

    fn eval(node: &mut Node, body: &'static str) -> Reply {
        let words = ["EVAL", body, "0"].map(|word| Bytes::from_static(word.as_bytes()));
        apply(node, &mut Session::default(), &words)
    }

    #[track_caller]
    fn check(node: &mut Node, body: &'static str, expected: &str) {
        let text = match eval(node, body) {
            Reply::Error(text) | Reply::Bulk(text) | Reply::Simple(text) => text,
            Reply::Integer(number) => number.to_string().into(),
            other => format!("{other:?}").into(),
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.starts_with(expected), "{body}: {text}");
    }

    #[test]
    fn nothing_that_a_script_does_to_lua_stays() {
        for body in [
            "string.upper = nil",
            "getmetatable('').__index = nil return 'kept'",
            "getmetatable('').__index.upper = nil",
            "getmetatable(_G).__index = {}",
            "rawset(math, 'floor', nil)",
            "setmetatable(redis, {})",
            "KEYS.x = 1 ARGV = nil",
            "math.randomseed(1)",
            "table.insert(redis, 1)",
            "cjson.encode_max_depth(1) cjson.encode_sparse_array(true) redis.setresp(3)",
            "cjson.encode_invalid_numbers('null') cjson.decode_invalid_numbers(false)",
            "bit.band = nil struct.pack = nil cmsgpack.pack = nil",
            "collectgarbage('stop')",
            "local p = getmetatable(redis) p.__index = nil p.x = 1",
            "loadstring('leak = 1')()",
            "return coroutine.wrap(function() leak = 1 end)()",
        ] {
            eval(&mut node(), body);
        }
        let mut node = node();
        check(&mut node, "return ('x'):upper() .. math.floor(2.5)", "X2");
        check(&mut node, "return type(redis.call) .. tostring(KEYS.x) .. #ARGV", "functionnil0");
        check(&mut node, "return cjson.encode({{{}}}) .. tostring(redis[1])", "[[{}]]nil");
        check(&mut node, "return cjson.encode(1/0)", "ERR user_script:1: Cannot serialise");
        check(&mut node, "return tostring(cjson.decode('nan')) .. bit.tohex(1, 1)", "nan1");
        check(&mut node, "return type(redis.call('get', 'none'))", "boolean");
        check(&mut node, "return leak", "ERR user_script:1: Script attempted to access");
        check(&mut node, "return tostring(math.random())", "0.396464773");
        check(&mut node, "return tostring({})..tostring(redis.call)", "table: 0x000000000000f");
    }

    #[test]
    fn a_thread_runs_more_scripts_than_it_keeps() {
        let mut node = node();
        for number in 0..9000 {
            let body = Bytes::from(format!("return {number}"));
            let words = [Bytes::from_static(b"EVAL"), body, Bytes::from_static(b"0")];
            let reply = apply(&mut node, &mut Session::default(), &words);
            assert_eq!(reply, Reply::Integer(number));
        }
    }

    #[test]
    fn an_endless_script_ends_even_if_it_catches_errors() {
        let mut node = node();
        for body in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "coroutine.wrap(function() while true do end end)()",
        ] {
            assert_eq!(eval(&mut node, body), Reply::SILENCE);
            let busy = node.busy.take().expect("it holds the node");
            assert!(busy.endless && !busy.wrote && busy.killed.ends_with(b"on @user_script:1."));
        }
        eval(&mut node, "redis.call('set','k','v') while true do end");
        assert!(node.busy.take().is_some_and(|busy| busy.wrote));
        check(&mut node, "return redis.call('incr', 'n')", "1");
    }

    #[test]
    fn a_replica_lets_a_script_read_and_refuses_its_first_write() {
        let mut node = node();
        eval(&mut node, "return redis.call('set', 'k', 'v')");
        node.master = Some(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1));
        check(&mut node, "return redis.call('get', 'k')", "v");
        let readonly = "READONLY You can't write against a read only replica. script: ";
        check(&mut node, "return redis.call('get', 'k'), redis.call('del', 'k')", readonly);
        check(&mut node, "redis.call('del', 'k')", readonly);
        check(&mut node, "return redis.pcall('del', 'k').err", "READONLY");
    }

    #[test]
    fn which_scripts_a_node_knows_is_its_own_affair() {
        let (mut first, mut second) = (node(), node());
        check(&mut first, "return 1", "1");
        let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        let words = ["EVALSHA", sha, "0"].map(|word| Bytes::from_static(word.as_bytes()));
        assert_eq!(apply(&mut first, &mut Session::default(), &words), Reply::Integer(1));
        assert!(apply(&mut second, &mut Session::default(), &words).is_error());
    }
}
