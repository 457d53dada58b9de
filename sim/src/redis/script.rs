//! Lua scripts. The one door to `mlua`: a Lua 5.1 machine a thread for all nodes of a run.
//!
//! While a script runs its node stands behind the door, so that `redis.call` can reach the
//! executor; it is moved back when the script ends, however it ends. Compiled functions are
//! shared by SHA1; which scripts a node knows is the node's own affair.

mod value;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};

use crate::redis::command::admission::{OOM, check_script, check_write, execute};
use crate::redis::command::scripting::sha1_hex;
use crate::redis::command::table::{Flags, look_up};
use crate::redis::frame::{Reply, in_17_digits};
use crate::redis::node::Node;
use crate::redis::script::value::{to_lua, to_reply};
use crate::redis::session::{ScriptRun, Session};

/// Instructions between two looks at the meter.
const LOOK_EVERY: u32 = 10_000;
/// Instructions after which a script is ended: real Redis would answer BUSY for ever.
const MOST_INSTRUCTIONS: u64 = 20_000_000;
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
        if flags.declared && !flags.allow_oom && node.out_of_memory && !session.from_master {
            return Err(Reply::error(OOM));
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
        protocol: crate::redis::frame::Protocol::Two,
        user: session.user.clone(),
        addresses: session.addresses,
        from_master: session.from_master,
        script: Some(ScriptRun {
            read_only: flags.no_writes,
            allow_oom: flags.allow_oom,
            ..ScriptRun::default()
        }),
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
    allow_oom: bool,
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
    let mut head = Head { declared: true, length, ..Head::default() };
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
                "allow-oom" => head.allow_oom = true,
                "" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
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
        let prelude =
            lua.load(include_str!("script/prelude.lua")).set_name("@prelude").into_function()?;
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

    fn reply(&self, sha: &Bytes, result: mlua::Result<(bool, Value)>) -> Reply {
        if self.meter.ended.replace(false) {
            self.watch(LOOK_EVERY).expect("a hook can be set");
            let text = "ERR Script ended after 20000000 instructions script: ";
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
            reply => unlimited(lua, || to_lua(lua, &reply)),
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
    if let Err(refusal) = check_script(node, session, command, args) {
        return refusal;
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
            "local p = getmetatable(redis) p.__index = nil p.x = 1",
            "loadstring('leak = 1')()",
            "return coroutine.wrap(function() leak = 1 end)()",
        ] {
            eval(&mut node(), body);
        }
        let mut node = node();
        check(&mut node, "return ('x'):upper() .. math.floor(2.5)", "X2");
        check(&mut node, "return type(redis.call) .. tostring(KEYS.x) .. #ARGV", "functionnil0");
        check(&mut node, "return leak", "ERR user_script:1: Script attempted to access");
        check(&mut node, "return tostring(math.random())", "0.396464773");
        check(&mut node, "return tostring({})..tostring(redis.call)", "table: 0x000000000000f");
    }

    #[test]
    fn an_endless_script_ends_even_if_it_catches_errors() {
        let mut node = node();
        let ended = "ERR Script ended after";
        check(&mut node, "while true do end", ended);
        check(&mut node, "while true do pcall(function() while true do end end) end", ended);
        check(&mut node, "coroutine.wrap(function() while true do end end)()", ended);
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
