//! The memory limit of scripts.

use mlua::Lua;

/// Maximum memory of the machine in bytes while a script's own code runs.
const MAX_MEMORY: usize = 256 * 1024 * 1024;

/// Creates values for a script without a memory limit: under one every single value costs a
/// protected call. The limit only concerns what scripts do themselves.
pub fn unlimited<T>(lua: &Lua, make: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    lua.set_memory_limit(0)?;
    let made = make();
    lua.set_memory_limit(MAX_MEMORY)?;
    made
}
