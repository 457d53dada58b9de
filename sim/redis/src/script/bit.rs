//! The library `bit` of scripts: BitOp 1.0.2, arithmetic on 32 bits.

use mlua::{Lua, LuaString, Table};

use crate::script::arguments::{ScriptArguments, function};

/// Moves the integer part of a double into its lower half: 2^52 + 2^51.
const SHIFT_INTO_PLACE: f64 = 6_755_399_441_055_744.0;

/// The library's table.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let one = |name: &str, body: fn(u32) -> u32| {
        let body = function(lua, move |arguments| Ok(signed(body(bits(arguments, 1)?))))?;
        table.raw_set(name, body)
    };
    let fold = |name: &str, body: fn(u32, u32) -> u32| {
        let body = function(lua, move |arguments| {
            let first = bits(arguments, 1)?;
            // From the last to the second argument: the order decides which invalid argument is
            // named.
            let rest = (2..=arguments.count()).rev();
            let joined = rest
                .into_iter()
                .try_fold(first, |sum, nth| bits(arguments, nth).map(|other| body(sum, other)));
            joined.map(signed)
        })?;
        table.raw_set(name, body)
    };
    let shift = |name: &str, body: fn(u32, u32) -> u32| {
        let body = function(lua, move |arguments| {
            let value = bits(arguments, 1)?;
            Ok(signed(body(value, bits(arguments, 2)? & 31)))
        })?;
        table.raw_set(name, body)
    };
    one("tobit", |value| value)?;
    one("bnot", |value| !value)?;
    fold("band", |left, right| left & right)?;
    fold("bor", |left, right| left | right)?;
    fold("bxor", |left, right| left ^ right)?;
    shift("lshift", |value, by| value << by)?;
    shift("rshift", |value, by| value >> by)?;
    shift("arshift", |value, by| (value as i32 >> by) as u32)?;
    shift("rol", u32::rotate_left)?;
    shift("ror", u32::rotate_right)?;
    one("bswap", u32::swap_bytes)?;
    table.raw_set("tohex", function(lua, tohex)?)?;
    Ok(table)
}

fn bits(arguments: &ScriptArguments, nth: usize) -> mlua::Result<u32> {
    Ok((arguments.number(nth)? + SHIFT_INTO_PLACE).to_bits() as u32)
}

fn signed(value: u32) -> f64 {
    f64::from(value as i32)
}

/// `bit.tohex(value [, digits])`: negative digits select upper case.
fn tohex(arguments: &ScriptArguments) -> mlua::Result<LuaString> {
    let value = bits(arguments, 1)?;
    let digits = if arguments.count() < 2 { 8 } else { bits(arguments, 2)? as i32 };
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let shown = usize::try_from(digits.unsigned_abs().min(8)).unwrap_or(8);
    arguments.lua.create_string(&text[8 - shown..])
}
