//! The libraries of functions of a node.

use std::collections::BTreeMap;

use bytes::Bytes;
use mlua::Function;

use crate::frame::Reply;
use crate::script_state::flags::ScriptFlags;

/// The error for an unknown function.
pub const NOT_FOUND: &str = "ERR Function not found";

/// Redis uses this text for a function's name too.
pub const BAD_NAME: &str = "Library names can only contain letters, numbers, or \
    underscores(_) and must be at least one character long";
/// The libraries of a node, by name.
pub type Libraries = BTreeMap<Bytes, Library>;

/// A library. The state that its code keeps between calls is in its callbacks.
#[derive(Clone, Debug)]
pub struct Library {
    /// Its code with the shebang line, as it was loaded.
    pub code: Bytes,
    /// Its functions, by name.
    pub functions: BTreeMap<Bytes, Registered>,
}

/// A function of a library.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its description.
    pub description: Option<Bytes>,
    /// Its flags.
    pub flags: ScriptFlags,
    /// The Lua function.
    pub callback: Function,
}

/// The functions registered so far by the library that is being loaded.
pub type Loading = BTreeMap<Bytes, Registered>;

/// The function of this name, ignoring case, with its registered name.
pub fn find<'a>(libraries: &'a Libraries, name: &[u8]) -> Option<(&'a Bytes, &'a Registered)> {
    let mut functions = libraries.values().flat_map(|library| &library.functions);
    functions.find(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// The union of both; where both have a library, the new one wins if it `replaces`.
///
/// # Errors
/// Redis's error text for a duplicate library or function.
pub fn join(known: &Libraries, new: Libraries, replaces: bool) -> Result<Libraries, Reply> {
    let mut joined = known.clone();
    for (name, library) in new {
        if joined.remove(&name).is_some() && !replaces {
            return Err(twice("Library ", &name));
        }
        if let Some(name) = known_elsewhere(&joined, &library.functions) {
            return Err(twice("Function ", &name));
        }
        joined.insert(name, library);
    }
    Ok(joined)
}

/// The error for a duplicate library or function.
pub fn twice(what: &str, name: &[u8]) -> Reply {
    let text = [b"ERR ", what.as_bytes(), name, b" already exists"].concat();
    Reply::Error(text.into())
}

/// The first of these functions that one of the libraries also has.
pub fn known_elsewhere(libraries: &Libraries, functions: &Loading) -> Option<Bytes> {
    functions.keys().find(|name| find(libraries, name).is_some()).cloned()
}

/// Whether a library or a function may have this name.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
