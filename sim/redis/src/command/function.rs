//! FUNCTION and FCALL: named, persistent scripts. `script::library` defines libraries.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome, container};
use crate::command::key::dump::WRONG_FOOT;
use crate::command::scripting::{self, end_script, help};
use crate::frame::{Reply, integer};
use crate::glob::matches;
use crate::rdb;
use crate::script::conversions::until_zero;
use crate::script::library::load as load_library;
use crate::script::{self, Program};
use crate::script_state::flags::quoting;
use crate::script_state::libraries::{Libraries, Library, NOT_FOUND, Registered, find, join};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("function", container),
    ("function|delete", delete),
    ("function|dump", dump),
    ("function|flush", flush),
    ("function|help", function_help),
    ("function|kill", kill),
    ("function|list", list),
    ("function|load", load),
    ("function|restore", restore),
    ("function|stats", stats),
];

const HELP: &[&str] = &[
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Library description",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using \
         FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore \
         policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, \
         replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of \
         failure",
    "      in case of functions name collision with another library).",
    "HELP",
    "    Prints this help.",
];

/// FCALL function numkeys key ... arg ...
pub fn fcall<'a>(call: &mut Call<'a>) -> Result<Program<'a>, Reply> {
    named(call, false)
}

/// FCALL_RO function numkeys key ... arg ...
pub fn fcall_ro<'a>(call: &mut Call<'a>) -> Result<Program<'a>, Reply> {
    named(call, true)
}

fn named<'a>(call: &mut Call<'a>, read_only: bool) -> Result<Program<'a>, Reply> {
    let name = &call.args[1];
    if find(&call.node.scripts.libraries, name).is_none() {
        return Err(Reply::error(NOT_FOUND));
    }
    let number = integer(&call.args[2]).ok_or(Reply::error("ERR Bad number of keys provided"))?;
    let words = scripting::split_words(number, call.from(3))?;
    script::of_function(&call.node.scripts.libraries, name, words, read_only)
}

/// FUNCTION LOAD [REPLACE] code
pub fn load(call: &mut Call) -> Outcome {
    let [options @ .., code] = call.from(2) else {
        return Err(Reply::error("ERR Function code is missing"));
    };
    if let Some(unknown) = options.iter().find(|word| !word.eq_ignore_ascii_case(b"REPLACE")) {
        return Err(quoting("Unknown option given: ", until_zero(unknown)));
    }
    let name = load_library(&mut call.node.scripts.libraries, code, !options.is_empty())?;
    call.propagate_verbatim();
    Ok(Reply::Bulk(name))
}

/// FUNCTION DELETE library
pub fn delete(call: &mut Call) -> Outcome {
    if call.node.scripts.libraries.remove(&call.args[2]).is_none() {
        return Err(Reply::error("ERR Library not found"));
    }
    call.propagate_verbatim();
    Ok(Reply::OK)
}

/// FUNCTION FLUSH [ASYNC | SYNC]
pub fn flush(call: &mut Call) -> Outcome {
    match call.from(2) {
        [] => {}
        [_] if matches!(&call.word(2)[..], b"SYNC" | b"ASYNC") => {}
        [_] => return Err(Reply::error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        _ => return Err(too_many(call)),
    }
    call.node.scripts.libraries.clear();
    call.propagate_verbatim();
    Ok(Reply::OK)
}

fn too_many(call: &Call) -> Reply {
    let head = &b"ERR unknown subcommand or wrong number of arguments for '"[..];
    let word = until_zero(&call.args[1]);
    Reply::Error([head, word, b"'. Try FUNCTION HELP."].concat().into())
}

/// FUNCTION DUMP
pub fn dump(call: &mut Call) -> Outcome {
    let codes = call.node.scripts.libraries.values().map(|library| &library.code);
    Ok(Reply::Bulk(rdb::dump_libraries(codes)))
}

/// FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]: all of its libraries, or none.
pub fn restore(call: &mut Call) -> Outcome {
    let (flushes, replaces) = match call.from(3) {
        [] => (false, false),
        [_] => match &call.word(3)[..] {
            b"APPEND" => (false, false),
            b"REPLACE" => (false, true),
            b"FLUSH" => (true, false),
            _ => {
                return Err(Reply::error(
                    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or \
                     REPLACE.",
                ));
            }
        },
        _ => return Err(too_many(call)),
    };
    let dump = &call.args[2];
    if !rdb::is_checked(dump) {
        return Err(Reply::error(WRONG_FOOT));
    }
    let mut restored = Libraries::new();
    for code in rdb::dumped_libraries(dump).map_err(|wrong| quoting(wrong.0, b""))? {
        load_library(&mut restored, &code, false)?;
    }
    call.node.scripts.libraries = match flushes {
        true => restored,
        false => join(&call.node.scripts.libraries, restored, replaces)?,
    };
    call.propagate_verbatim();
    Ok(Reply::OK)
}

/// FUNCTION HELP
pub fn function_help(_: &mut Call) -> Outcome {
    Ok(help(HELP))
}

/// FUNCTION KILL
pub fn kill(call: &mut Call) -> Outcome {
    end_script(call, true)
}

/// FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]
pub fn list(call: &mut Call) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = call.from(2).iter();
    while let Some(word) = words.next() {
        if !with_code && word.eq_ignore_ascii_case(b"WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"LIBRARYNAME") {
            let missing = Reply::error("ERR library name argument was not given");
            pattern = Some(words.next().ok_or(missing)?.to_ascii_lowercase());
        } else {
            return Err(quoting("Unknown argument ", until_zero(word)));
        }
    }
    let is_listed = |name: &Bytes| {
        pattern.as_ref().is_none_or(|pattern| matches(pattern, &name.to_ascii_lowercase()))
    };
    let libraries = call.node.scripts.libraries.iter().filter(|(name, _)| is_listed(name));
    Ok(Reply::Array(libraries.map(|(name, library)| listed(name, library, with_code)).collect()))
}

fn listed(name: &Bytes, library: &Library, with_code: bool) -> Reply {
    let functions = library.functions.iter().map(|(name, registered)| described(name, registered));
    let mut items = vec![
        Reply::word("library_name"),
        Reply::Bulk(name.clone()),
        Reply::word("engine"),
        Reply::word("LUA"),
        Reply::word("functions"),
        Reply::Array(functions.collect()),
    ];
    if with_code {
        items.extend([Reply::word("library_code"), Reply::Bulk(library.code.clone())]);
    }
    Reply::Map(items)
}

fn described(name: &Bytes, registered: &Registered) -> Reply {
    let description = registered.description.clone();
    Reply::Map(vec![
        Reply::word("name"),
        Reply::Bulk(name.clone()),
        Reply::word("description"),
        description.map_or(Reply::Nil, Reply::Bulk),
        Reply::word("flags"),
        Reply::Set(registered.flags.names().map(|name| Reply::Simple(name.into())).collect()),
    ])
}

/// FUNCTION STATS
pub fn stats(call: &mut Call) -> Outcome {
    let running = match &call.node.scripts.busy {
        None => Reply::Nil,
        Some(busy) => match &busy.function {
            None => return Err(scripting::is_busy(busy)),
            Some(function) => {
                let duration_ms = call.node.clock.now_ms.saturating_sub(busy.since_ms);
                let words = function.command.iter().cloned().map(Reply::Bulk);
                Reply::Map(vec![
                    Reply::word("name"),
                    Reply::Bulk(function.name.clone()),
                    Reply::word("command"),
                    Reply::Array(words.collect()),
                    Reply::word("duration_ms"),
                    Reply::Integer(i64::try_from(duration_ms).unwrap_or(i64::MAX)),
                ])
            }
        },
    };
    let libraries = &call.node.scripts.libraries;
    let functions = libraries.values().map(|library| library.functions.len()).sum();
    let counts = vec![
        Reply::word("libraries_count"),
        Reply::count(libraries.len()),
        Reply::word("functions_count"),
        Reply::count(functions),
    ];
    Ok(Reply::Map(vec![
        Reply::word("running_script"),
        running,
        Reply::word("engines"),
        Reply::Map(vec![Reply::word("LUA"), Reply::Map(counts)]),
    ]))
}
