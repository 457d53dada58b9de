//! EVAL, EVALSHA, SCRIPT. `script` executes the code.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome, container};
use crate::compat::Difference;
use crate::frame::Reply;
use crate::node::Node;
use crate::script;
use crate::script::Program;
use crate::script_state::Busy;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("script", container),
    ("script|debug", debug),
    ("script|exists", exists),
    ("script|flush", flush),
    ("script|help", script_help),
    ("script|kill", kill),
    ("script|load", load),
];

const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against \
    the dataset. You can either wait the script termination or kill the server in a hard way \
    using the SHUTDOWN NOSAVE command.";

const SLOW_SCRIPT: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
    SHUTDOWN NOSAVE.";
const SLOW_FUNCTION: &str = "BUSY Redis is busy running a script. You can only call FUNCTION KILL \
    or SHUTDOWN NOSAVE.";

const HELP: &[&str] = &[
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DEBUG (YES|SYNC|NO)",
    "    Set the debug mode for subsequent scripts executed.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
    "HELP",
    "    Prints this help.",
];

/// EVAL script numkeys key ... arg ...
pub fn eval<'a>(call: &mut Call<'a>) -> Result<Program<'a>, Reply> {
    of_body(call, false)
}

/// EVAL_RO script numkeys key ... arg ...
pub fn eval_ro<'a>(call: &mut Call<'a>) -> Result<Program<'a>, Reply> {
    of_body(call, true)
}

fn of_body<'a>(call: &mut Call<'a>, read_only: bool) -> Result<Program<'a>, Reply> {
    let words = split_words(call.integer(2)?, call.from(3))?;
    let body = &call.args[1];
    let script = script::compiled(body)?;
    if !call.node.scripts.cache.contains_key(&script.sha) {
        call.node.scripts.cache.insert(script.sha.clone(), Bytes::copy_from_slice(body));
    }
    Ok(script::of_script(&script, words, read_only))
}

/// EVALSHA sha1 numkeys key ... arg ...
pub fn evalsha<'a>(call: &mut Call<'a>) -> Result<Program<'a>, Reply> {
    of_known(call, false)
}

/// EVALSHA_RO sha1 numkeys key ... arg ...
pub fn evalsha_ro<'a>(call: &mut Call<'a>) -> Result<Program<'a>, Reply> {
    of_known(call, true)
}

fn of_known<'a>(call: &mut Call<'a>, read_only: bool) -> Result<Program<'a>, Reply> {
    let words = split_words(call.integer(2)?, call.from(3))?;
    let sha = Bytes::from(call.args[1].to_ascii_lowercase());
    let Some(body) = call.node.scripts.cache.get(&sha) else {
        return Err(no_script(call.node));
    };
    Ok(script::of_script(&*script::compiled(body)?, words, read_only))
}

fn no_script(node: &Node) -> Reply {
    Reply::error(match node.differs(Difference::TextsOfValkey) {
        true => "NOSCRIPT No matching script.",
        false => "NOSCRIPT No matching script. Please use EVAL.",
    })
}

/// The keys, `number` of them, and the arguments of a script.
pub fn split_words(number: i64, words: &[Bytes]) -> Result<script::Words<'_>, Reply> {
    let keys = usize::try_from(number)
        .map_err(|_| Reply::error("ERR Number of keys can't be negative"))?;
    words
        .split_at_checked(keys)
        .ok_or(Reply::error("ERR Number of keys can't be greater than number of args"))
}

/// SCRIPT LOAD script
pub fn load(call: &mut Call) -> Outcome {
    let body = &call.args[2];
    let sha = script::compiled(body)?.sha.clone();
    call.node.scripts.cache.insert(sha.clone(), Bytes::copy_from_slice(body));
    Ok(Reply::Bulk(sha))
}

/// SCRIPT EXISTS sha1 ...
pub fn exists(call: &mut Call) -> Outcome {
    let known = |sha: &Bytes| call.node.scripts.cache.contains_key(&sha.to_ascii_lowercase()[..]);
    let replies = call.from(2).iter().map(|sha| Reply::Integer(i64::from(known(sha))));
    Ok(Reply::Array(replies.collect()))
}

/// SCRIPT FLUSH [ASYNC | SYNC]
pub fn flush(call: &mut Call) -> Outcome {
    let known = |word: &Bytes| matches!(&word.to_ascii_uppercase()[..], b"SYNC" | b"ASYNC");
    if call.from(3).is_empty() && call.from(2).iter().all(known) {
        call.node.scripts.cache.clear();
        return Ok(Reply::OK);
    }
    Err(Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"))
}

/// SCRIPT DEBUG: there is no debugger.
pub fn debug(call: &mut Call) -> Outcome {
    if call.session.transaction.is_running() || !call.session.replies.buffer.is_empty() {
        return Err(Reply::error("ERR SCRIPT DEBUG must be called outside a pipeline"));
    }
    match &call.word(2)[..] {
        b"NO" => Ok(Reply::OK),
        b"YES" | b"SYNC" => Err(Reply::error("ERR scripts can't be debugged on this node")),
        _ => Err(Reply::error("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
    }
}

/// SCRIPT HELP
pub fn script_help(_: &mut Call) -> Outcome {
    Ok(help(HELP))
}

/// The lines of a HELP.
pub fn help(lines: &[&'static str]) -> Reply {
    Reply::Array(lines.iter().map(|line| Reply::simple(line)).collect())
}

/// SCRIPT KILL
pub fn kill(call: &mut Call) -> Outcome {
    end_script(call, false)
}

/// Kills the script that holds the node, if it is of the requested kind; its caller gets an error.
pub fn end_script(call: &mut Call, function: bool) -> Outcome {
    let Some(busy) = call.node.scripts.busy.take() else {
        return Err(Reply::error("NOTBUSY No scripts in execution right now."));
    };
    let refusal = if busy.wrote { Some(Reply::error(UNKILLABLE)) } else { None };
    let refusal = refusal.or((busy.function.is_some() != function).then(|| is_busy(&busy)));
    if let Some(refusal) = refusal {
        call.node.scripts.busy = Some(busy);
        return Err(refusal);
    }
    // A script that a fault makes slow has a task of its own that replies: `run_slowly`.
    if busy.endless {
        call.node.clients.answer_script(busy.session, &Reply::Error(busy.killed));
    }
    Ok(Reply::OK)
}

/// The reply to others while a script holds the node.
pub fn is_busy(busy: &Busy) -> Reply {
    Reply::error(if busy.function.is_some() { SLOW_FUNCTION } else { SLOW_SCRIPT })
}
