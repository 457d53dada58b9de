//! Lua scripts and functions. The only user of `mlua`: one Lua 5.1 machine per thread for all nodes
//! of a run.
//!
//! While a script runs its node is moved into the machine, so that `redis.call` can reach the
//! executor; it is moved back when the script ends, with or without an error. Compiled code is
//! shared by SHA1; each node has its own script cache and library state.
//!
//! - `flags`: the shebang line and flags of a script
//! - `library`: registered functions
//! - `machine`: the machine and its limits
//! - `calls`: `redis.call`

pub mod library;

mod api;
mod arguments;
mod bit;
mod calls;
mod cjson;
mod cmsgpack;
pub mod conversions;
pub mod declared;
mod door;
mod globals;
mod machine;
mod memory;
mod raised;
mod random;
mod registration;
mod structs;
mod value;

use std::rc::Rc;

use bytes::Bytes;
use mlua::Function;

use crate::call::{Call, Execute};
use crate::cluster::slots::of_key;
use crate::digest::sha1_hex;
use crate::frame::Reply;
use crate::node::Node;
use crate::permission::{MASTERDOWN, OOM, check_write, is_stale};
use crate::script::machine::{CodeKind, CompiledScript, MACHINE};
use crate::script_state::flags::ScriptFlags;
use crate::script_state::libraries::{Libraries, NOT_FOUND, find};
use crate::script_state::{Busy, FunctionCall};
use crate::session::{Block, ClientIdentity, ScriptRun, Session, SessionReplication};

/// The keys and the arguments of a script.
pub type Words<'a> = (&'a [Bytes], &'a [Bytes]);

/// A script with its arguments.
pub struct Program<'a> {
    kind: CodeKind,
    /// The script's SHA1, or the function's name.
    name: Bytes,
    /// `None` for a script without a shebang line.
    flags: Option<ScriptFlags>,
    function: Function,
    words: Words<'a>,
    /// Whether the calling command must not write.
    read_only: bool,
}

/// The script of this text.
///
/// # Errors
/// Redis's error text for a script that does not compile.
pub fn compiled(body: &[u8]) -> Result<Rc<CompiledScript>, Reply> {
    MACHINE.with(|machine| machine.script(body))
}

/// A script with these arguments. `read_only` is set for commands that must not write.
pub fn of_script<'a>(script: &CompiledScript, words: Words<'a>, read_only: bool) -> Program<'a> {
    let CompiledScript { sha, flags, function } = script;
    let (kind, name) = (CodeKind::Script, sha.clone());
    Program { kind, name, flags: *flags, function: function.clone(), words, read_only }
}

/// The function of this name, ignoring case, with these arguments. `read_only` is set for commands
/// that must not write.
///
/// # Errors
/// If there is no such function.
pub fn of_function<'a>(
    known: &Libraries,
    name: &[u8],
    words: Words<'a>,
    read_only: bool,
) -> Result<Program<'a>, Reply> {
    let (name, found) = find(known, name).ok_or(Reply::error(NOT_FOUND))?;
    let (flags, function) = (Some(found.flags), found.callback.clone());
    Ok(Program { kind: CodeKind::Library, name: name.clone(), flags, function, words, read_only })
}

/// Runs a script or a function on the node, whose time is frozen meanwhile.
///
/// # Errors
/// A refusal before it runs.
pub fn run(call: &mut Call, program: &Program, execute: Execute) -> Result<Reply, Reply> {
    debug_assert!(call.session.script.is_none(), "a script runs no script");
    let Call { node, session, .. } = call;
    let (words, read_only) = (program.words, program.read_only);
    let flags = program.flags.unwrap_or_default();
    if is_stale(node)
        && !session.replication.from_master
        && !flags.intersects(ScriptFlags::ALLOW_STALE)
    {
        return Err(MASTERDOWN);
    }
    if program.flags.is_some() {
        admit(node, session, flags, read_only)?;
    }
    let keeps_to_slot =
        program.flags.is_some() && !flags.intersects(ScriptFlags::ALLOW_CROSS_SLOT_KEYS);
    let script = ScriptRun {
        read_only: read_only || flags.intersects(ScriptFlags::NO_WRITES),
        allow_oom: flags.intersects(ScriptFlags::ALLOW_OOM),
        wrote: false,
        keeps_to_slot,
        slot: words.0.first().filter(|_| keeps_to_slot).map(|key| of_key(key)),
    };
    let inner = Session {
        id: session.id,
        db: session.db,
        client: ClientIdentity { addresses: session.client.addresses, ..ClientIdentity::default() },
        user: session.user.clone(),
        routing: session.routing,
        replication: SessionReplication {
            from_master: session.replication.from_master,
            ..SessionReplication::default()
        },
        script: Some(script),
        ..Session::default()
    };
    // During the run the node is inside the machine: until it is back, `call.node` is an empty one.
    let ran = MACHINE.with(|machine| {
        machine.enter(node, inner, execute);
        let result = machine.call(program.kind, &program.function, words);
        let wrote = machine.leave(node);
        let ended = machine.ended().map(|line| (line, wrote));
        ended.map_or_else(|| Ok(machine.reply(&program.name, &program.function, result)), Err)
    });
    // Push messages of a script to its own connection precede its reply.
    for push in call.node.clients.take_said() {
        call.session.replies.push(&push);
    }
    Ok(ran.unwrap_or_else(|(line, wrote)| hold(call, program, line, wrote)))
}

/// The remaining checks of a script's flags: `scriptPrepareForRun`. Admission has checked them
/// already, unless the script was not in the cache then.
fn admit(node: &Node, session: &Session, flags: ScriptFlags, read_only: bool) -> Result<(), Reply> {
    if flags.intersects(ScriptFlags::NO_CLUSTER) && node.cluster.is_some() {
        let text = "ERR Can not run script on cluster, 'no-cluster' flag is set.";
        return Err(Reply::error(text));
    }
    if flags.intersects(ScriptFlags::NO_WRITES) {
        return Ok(());
    }
    if node.peers.master.is_some() && !session.replication.from_master {
        let text = "READONLY Can not run script with write flag on readonly replica.";
        return Err(Reply::error(text));
    }
    check_write(node, session)?;
    if !flags.intersects(ScriptFlags::ALLOW_OOM)
        && node.usage.is_exceeded
        && !session.replication.from_master
    {
        return Err(Reply::error(OOM));
    }
    if read_only {
        let text = "ERR Can not execute a script with write flag using *_ro command.";
        return Err(Reply::error(text));
    }
    Ok(())
}

/// A script that does not terminate holds its node. Its writes are never propagated, since it never
/// ends.
fn hold(call: &mut Call, program: &Program, line: i64, wrote: bool) -> Reply {
    let Call { node, session, args, .. } = call;
    node.effects.commands.clear();
    let command = || FunctionCall { name: program.name.clone(), command: args.to_vec() };
    node.scripts.busy = Some(Busy {
        since_ms: node.clock.now_ms,
        session: session.id,
        wrote,
        killed: killed_text(program.kind, &program.name, line),
        endless: true,
        function: (program.kind == CodeKind::Library).then(command),
    });
    session.blocked = Some(Block::Script);
    Reply::SILENCE
}

/// The state of a terminating script that is about to hold its node.
pub fn begins(node: &Node, session: u64, since_ms: u64, args: &[Bytes]) -> Busy {
    let word = args.get(1).cloned().unwrap_or_default();
    let (kind, name) = match &args[0].to_ascii_uppercase()[..] {
        b"EVAL" | b"EVAL_RO" => (CodeKind::Script, sha1_hex(&word)),
        b"FCALL" | b"FCALL_RO" => {
            let found = find(&node.scripts.libraries, &word);
            (CodeKind::Library, found.map_or(word, |(name, _)| name.clone()))
        }
        _ => (CodeKind::Script, word),
    };
    let killed = killed_text(kind, &name, 1);
    let command = || FunctionCall { name, command: args.to_vec() };
    let function = (kind == CodeKind::Library).then(command);
    Busy { since_ms, session, wrote: false, killed, endless: false, function }
}

/// The reply to the caller of a killed script.
fn killed_text(kind: CodeKind, name: &[u8], line: i64) -> Bytes {
    let name = String::from_utf8_lossy(name);
    let source = if kind == CodeKind::Library { "user_function" } else { "user_script" };
    let text = "ERR Script killed by user with SCRIPT KILL... script: ";
    Bytes::from(format!("{text}{name}, on @{source}:{line}."))
}

#[cfg(test)]
mod tests {
    use crate::execution::apply;
    use crate::frame::Reply;
    use crate::node::{Node, NodeConfig};
    use crate::session::Session;
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
            let busy = node.scripts.busy.take().expect("it holds the node");
            assert!(busy.endless && !busy.wrote && busy.killed.ends_with(b"on @user_script:1."));
        }
        eval(&mut node, "redis.call('set','k','v') while true do end");
        assert!(node.scripts.busy.take().is_some_and(|busy| busy.wrote));
        check(&mut node, "return redis.call('incr', 'n')", "1");
    }

    fn query(node: &mut Node, words: &[&str]) -> Reply {
        let words: Vec<Bytes> =
            words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        apply(node, &mut Session::default(), &words)
    }

    #[test]
    fn an_endless_function_is_reported_and_killed_as_a_function() {
        let mut node = node();
        let code = "#!lua name=l\nredis.register_function('f', function() while true do end end)";
        query(&mut node, &["FUNCTION", "LOAD", code]);
        assert_eq!(query(&mut node, &["FCALL", "F", "0"]), Reply::SILENCE);
        let busy = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or \
            SHUTDOWN NOSAVE.";
        node.clock.now_ms += 7_000;
        assert_eq!(query(&mut node, &["PING"]), Reply::error(busy));
        assert_eq!(query(&mut node, &["SCRIPT", "KILL"]), Reply::error(busy));
        let Reply::Map(stats) = query(&mut node, &["FUNCTION", "STATS"]) else { panic!("no map") };
        let command = ["FCALL", "F", "0"].map(|word| Reply::bulk(word.as_bytes()));
        let expected = Reply::Map(vec![
            Reply::word("name"),
            Reply::word("f"),
            Reply::word("command"),
            Reply::Array(command.to_vec()),
            Reply::word("duration_ms"),
            Reply::Integer(7_000),
        ]);
        assert_eq!(stats[1], expected);
        let killed = &node.scripts.busy.as_ref().expect("it is busy").killed;
        assert!(killed.ends_with(b"SCRIPT KILL... script: f, on @user_function:2."));
        assert_eq!(query(&mut node, &["FUNCTION", "KILL"]), Reply::OK);
        assert_eq!(query(&mut node, &["PING"]), Reply::simple("PONG"));
        eval(&mut node, "while true do end");
        assert!(query(&mut node, &["FUNCTION", "KILL"]).is_error());
        assert!(query(&mut node, &["FUNCTION", "STATS"]).is_error());
        assert_eq!(query(&mut node, &["SCRIPT", "KILL"]), Reply::OK);
    }

    #[test]
    fn what_a_library_remembers_is_its_nodes_own_and_lasts_until_it_is_loaded_anew() {
        let code = "#!lua name=l\nlocal n = 0 redis.register_function('f', function() n = n + 1 \
            return n end)";
        let (mut first, mut second) = (node(), node());
        for node in [&mut first, &mut second] {
            query(node, &["FUNCTION", "LOAD", code]);
            assert_eq!(query(node, &["FCALL", "f", "0"]), Reply::Integer(1));
            assert_eq!(query(node, &["FCALL", "f", "0"]), Reply::Integer(2));
        }
        query(&mut first, &["FUNCTION", "LOAD", "REPLACE", code]);
        assert_eq!(query(&mut first, &["FCALL", "f", "0"]), Reply::Integer(1));
        assert_eq!(query(&mut second, &["FCALL", "f", "0"]), Reply::Integer(3));
    }

    #[test]
    fn a_library_that_comes_to_no_end_is_not_loaded() {
        let mut node = node();
        let code = "#!lua name=l\nredis.register_function('f', function() end) while true do end";
        let expected = "ERR Error registering functions: ERR FUNCTION LOAD timeout";
        assert_eq!(query(&mut node, &["FUNCTION", "LOAD", code]), Reply::error(expected));
        assert!(node.scripts.libraries.is_empty() && node.scripts.busy.is_none());
        check(&mut node, "return redis.call('incr', 'n')", "1");
    }

    #[test]
    fn a_script_without_no_writes_is_refused_where_it_is_queued() {
        let mut node = node();
        node.peers.master = Some(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1));
        let mut session = Session::default();
        let mut query = |words: &[&'static str]| {
            let words: Vec<Bytes> =
                words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect();
            apply(&mut node, &mut session, &words)
        };
        query(&["MULTI"]);
        let reads = query(&["EVAL", "#!lua flags=no-writes\nreturn 1", "0"]);
        assert_eq!(reads, Reply::simple("QUEUED"));
        assert!(query(&["EVAL", "#!lua\nreturn 1", "0"]).is_error());
        assert!(query(&["EXEC"]).is_error());
    }

    #[test]
    fn a_replica_lets_a_script_read_and_refuses_its_first_write() {
        let mut node = node();
        eval(&mut node, "return redis.call('set', 'k', 'v')");
        node.peers.master = Some(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1));
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
