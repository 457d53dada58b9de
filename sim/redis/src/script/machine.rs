//! The Lua machine of a thread: its compiled code, the running script and the limits of its run
//! time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{
    Either, Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState,
};

use crate::call::Execute;
use crate::digest::sha1_hex;
use crate::frame::Reply;
use crate::node::Node;
use crate::script::calls::caller;
use crate::script::cjson::settings::CjsonSettings;
use crate::script::conversions::until_zero;
use crate::script::door::Running;
use crate::script::memory::unlimited;
use crate::script::raised::{value_of_error, where_is};
use crate::script::registration::registrar;
use crate::script::value::to_reply;
use crate::script::{api, bit, cjson, cmsgpack, globals, random, structs};
use crate::script_state::flags::{ScriptFlags, Shebang};
use crate::script_state::libraries::Loading;
use crate::session::Session;

/// Instructions between two checks of the meter.
const LOOK_EVERY: u32 = 10_000;
/// Instructions after which a script counts as endless: it holds its node until it is killed. No
/// script of a lock takes a thousandth of them.
const MAX_INSTRUCTIONS: u64 = 20_000_000;
/// Maximum number of compiled scripts: the machine has about 8000 references for Rust.
const MAX_SCRIPTS: usize = 1000;
/// The memory in use, in per cent of what the last collection left, at which the next one begins.
/// Twice Lua's own value: what is left is mostly the prelude, and short scripts add little to it.
const COLLECT_AT: i32 = 400;
thread_local! {
    /// The machine of this thread.
    pub static MACHINE: Machine = Machine::new().expect("the prelude loads");
}

/// A Lua machine.
pub struct Machine {
    lua: Lua,
    entries: Entries,
    /// The compiled scripts, by their text: what depends on the text alone is computed once.
    scripts: RefCell<BTreeMap<Bytes, Rc<CompiledScript>>>,
    door: Rc<RefCell<Running>>,
    /// The library that is being loaded.
    pub loading: Rc<RefCell<Option<Loading>>>,
    meter: Rc<Stopwatch>,
    choices: Choices,
}

/// A compiled script.
pub struct CompiledScript {
    /// The SHA1 of its text.
    pub sha: Bytes,
    /// The flags of its shebang line; `None` if it has none.
    pub flags: Option<ScriptFlags>,
    /// Its code.
    pub function: Function,
}

/// The functions that the prelude returns.
struct Entries {
    scripts: Table,
    libraries: Table,
    run: Function,
    load: Function,
    call: Function,
}

/// Two kinds of code, each with globals of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// Code for EVAL.
    Script,
    /// Code for FUNCTION LOAD.
    Library,
}

/// What a script may select for the duration of its run.
#[derive(Default)]
struct Choices {
    /// `redis.setresp(3)`.
    resp3: Rc<Cell<bool>>,
    cjson: Rc<Cell<CjsonSettings>>,
}

/// The run time of the script.
#[derive(Default)]
struct Stopwatch {
    instructions: Cell<u64>,
    ended: Cell<bool>,
    /// The line at which it was stopped.
    line: Cell<i64>,
}

impl Machine {
    fn new() -> mlua::Result<Machine> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(COLLECT_AT)));
        let door = Rc::new(RefCell::new(Running::default()));
        let (choices, loading) = (Choices::default(), Rc::default());
        let host = host(&lua, &door, &choices, &loading)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("@prelude").into_function()?;
        let (scripts, libraries, run, load, call) = prelude.call(host)?;
        let entries = Entries { scripts, libraries, run, load, call };
        let (scripts, meter) = (RefCell::default(), Rc::default());
        let machine = Machine { lua, entries, scripts, door, loading, meter, choices };
        machine.watch(LOOK_EVERY)?;
        Ok(machine)
    }

    /// Checks the meter every `every` instructions. Once a script is stopped every further
    /// instruction raises, so that its own pcall cannot keep it alive.
    fn watch(&self, every: u32) -> mlua::Result<()> {
        let meter = Rc::clone(&self.meter);
        let triggers = HookTriggers::new().every_nth_instruction(every);
        self.lua.set_global_hook(triggers, move |lua, debug| {
            let instructions = meter.instructions.get() + u64::from(every);
            meter.instructions.set(instructions);
            if instructions < MAX_INSTRUCTIONS {
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

    /// The script of this text.
    ///
    /// # Errors
    /// Redis's error text for a script that does not compile.
    pub fn script(&self, body: &[u8]) -> Result<Rc<CompiledScript>, Reply> {
        if let Some(script) = self.scripts.borrow().get(body) {
            return Ok(Rc::clone(script));
        }
        let head = Shebang::of(body)?;
        let function = self.compile(CodeKind::Script, &body[head.length..]).map_err(|why| {
            Reply::Error(format!("ERR Error compiling script (new function): {why}").into())
        })?;
        let script = Rc::new(CompiledScript { sha: sha1_hex(body), flags: head.flags, function });
        let mut scripts = self.scripts.borrow_mut();
        if scripts.len() >= MAX_SCRIPTS {
            scripts.clear();
        }
        scripts.insert(Bytes::copy_from_slice(body), Rc::clone(&script));
        Ok(script)
    }

    /// The function of code without its first line.
    ///
    /// # Errors
    /// Lua's error text for code that does not compile.
    pub fn compile(&self, kind: CodeKind, code: &[u8]) -> Result<Function, String> {
        let (name, env) = match kind {
            CodeKind::Script => ("@user_script", &self.entries.scripts),
            CodeKind::Library => ("@user_function", &self.entries.libraries),
        };
        let chunk = self.lua.load(code).set_mode(ChunkMode::Text).set_name(name);
        let function = chunk.set_environment(env.clone()).into_function();
        function.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    /// Moves a node into the machine, with the session of the script's commands and the function
    /// that executes them.
    pub fn enter(&self, node: &mut Node, session: Session, execute: Execute) {
        let mut running = self.door.borrow_mut();
        std::mem::swap(&mut running.node, node);
        running.session = session;
        running.execute = Some(execute);
    }

    /// Moves the node back. Returns whether the script wrote.
    pub fn leave(&self, node: &mut Node) -> bool {
        let mut running = self.door.borrow_mut();
        std::mem::swap(&mut running.node, node);
        running.execute = None;
        running.session.script.is_some_and(|script| script.wrote)
    }

    /// Calls a script's function, or one of a library.
    pub fn call(
        &self,
        kind: CodeKind,
        function: &Function,
        (keys, args): (&[Bytes], &[Bytes]),
    ) -> mlua::Result<(bool, Value)> {
        self.begin();
        let (keys, args) = unlimited(&self.lua, || Ok((self.words(keys)?, self.words(args)?)))?;
        match kind {
            CodeKind::Script => self.entries.run.call((function, keys, args)),
            CodeKind::Library => self.entries.call.call((function, keys, args)),
        }
    }

    /// Runs a library's code, so that it registers its functions.
    pub fn load(&self, code: &Function) -> mlua::Result<(bool, Value)> {
        self.begin();
        self.entries.load.call(code)
    }

    fn begin(&self) {
        self.meter.instructions.set(0);
        self.choices.resp3.set(false);
        self.choices.cjson.set(CjsonSettings::default());
    }

    fn words(&self, words: &[Bytes]) -> mlua::Result<Table> {
        // A text goes to Lua without a reference on the way.
        self.lua.create_sequence_from(words.iter().map(|word| match std::str::from_utf8(word) {
            Ok(text) => Either::Left(text),
            Err(_) => Either::Right(LuaString::wrap(word)),
        }))
    }

    /// Whether the script was stopped, and at which line.
    pub fn ended(&self) -> Option<i64> {
        if !self.meter.ended.replace(false) {
            return None;
        }
        // The hook that stopped the script raises at every instruction, also of the next script.
        self.watch(LOOK_EVERY).expect("a hook can be set");
        Some(self.meter.line.get())
    }

    /// The caller's reply; `name` is the script's SHA1, or the function's name.
    pub fn reply(
        &self,
        name: &[u8],
        function: &Function,
        result: mlua::Result<(bool, Value)>,
    ) -> Reply {
        match result {
            Ok((true, value)) => to_reply(&value, self.choices.resp3.get(), 0),
            Ok((false, Value::Table(problem))) => failure(&problem, name, function),
            Ok((false, _)) => running_failed(name, "execution failure"),
            Err(error) => running_failed(name, &error.to_string()),
        }
    }
}

fn running_failed(name: &[u8], why: &str) -> Reply {
    let name = String::from_utf8_lossy(name);
    let why: String = why.chars().take(100).collect();
    Reply::Error(format!("ERR Error running script {name}, {why}").into())
}

/// An error that reached the end of the script, with the position where it was raised; an error of
/// a registered C function has none.
fn failure(problem: &Table, name: &[u8], function: &Function) -> Reply {
    let mut text = match problem.raw_get::<Option<mlua::LuaString>>("err") {
        Ok(Some(text)) => until_zero(&text.as_bytes()).to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    let place = |field| problem.raw_get::<Option<mlua::LuaString>>(field);
    if function.info().what != "C"
        && let (Ok(Some(source)), Ok(Some(line))) = (place("source"), place("line"))
    {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(name);
        text.extend_from_slice(b", on ");
        text.extend_from_slice(until_zero(&source.as_bytes()));
        text.push(b':');
        text.extend_from_slice(&line.as_bytes());
        text.push(b'.');
    }
    Reply::Error(text.into())
}

/// The functions of the host for the prelude.
fn host(
    lua: &Lua,
    door: &Rc<RefCell<Running>>,
    choices: &Choices,
    loading: &Rc<RefCell<Option<Loading>>>,
) -> mlua::Result<Table> {
    lua.set_named_registry_value("next", lua.globals().raw_get::<Function>("next")?)?;
    let host = lua.create_table()?;
    let protected = lua.create_table()?;
    for name in ["redis", "function_redis"] {
        let redis = lua.create_table()?;
        redis.raw_set("call", caller(lua, door, &choices.resp3, true)?)?;
        redis.raw_set("pcall", caller(lua, door, &choices.resp3, false)?)?;
        api::fill(lua, &redis, &choices.resp3)?;
        if name == "redis" {
            api::fill_for_scripts(lua, &redis)?;
        }
        host.raw_set(name, redis)?;
    }
    let library_redis = lua.create_table()?;
    library_redis.raw_set("register_function", registrar(lua, loading)?)?;
    api::fill_logging(lua, &library_redis)?;
    host.raw_set("library_redis", library_redis)?;
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
