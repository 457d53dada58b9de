//! How much memory scripts may take.

use mlua::Lua;

/// Bytes that the machine may take while a script's own code runs.
const MOST_MEMORY: usize = 256 * 1024 * 1024;

/// Makes values for a script without a limit of memory: under one every single value costs a
/// protected call. The limit stands for what scripts do themselves.
pub fn unlimited<T>(lua: &Lua, make: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    lua.set_memory_limit(0)?;
    let made = make();
    lua.set_memory_limit(MOST_MEMORY)?;
    made
}
