//! The library `struct` of scripts: packs Lua values in C's memory layout.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::script::arguments::{ScriptArguments, function, kind};
use crate::script::conversions::{until_zero, whole};

/// Bytes of the widest integer.
const WIDEST: usize = 32;
/// The alignment of `!` without a number.
const NATURAL: usize = 8;
/// Maximum number of Lua stack slots of a C function.
const MAX_SLOTS: usize = 8000;

/// The library's table.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", function(lua, pack)?)?;
    table.raw_set("unpack", function(lua, unpack)?)?;
    table.raw_set("size", function(lua, size)?)?;
    Ok(table)
}

/// A format being parsed.
struct Format<'a> {
    arguments: &'a ScriptArguments<'a>,
    text: Vec<u8>,
    at: usize,
    is_big: bool,
    align: usize,
}

/// One letter of a format and its size in bytes.
struct Item {
    letter: u8,
    size: usize,
}

impl<'a> Format<'a> {
    fn new(arguments: &'a ScriptArguments<'a>) -> mlua::Result<Format<'a>> {
        let text = arguments.text(1)?;
        let text = until_zero(&text.as_bytes()).to_vec();
        Ok(Format { arguments, text, at: 0, is_big: false, align: 1 })
    }

    fn next(&mut self) -> mlua::Result<Option<Item>> {
        let Some(letter) = self.text.get(self.at).copied() else { return Ok(None) };
        self.at += 1;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > WIDEST {
                    let text = format!("integral size {size} is larger than limit of {WIDEST}");
                    return Err(self.arguments.complain(&text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { letter, size }))
    }

    /// The number that follows a letter.
    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let start = self.at;
        let mut number = 0usize;
        while let Some(digit) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            number = number * 10 + usize::from(digit - b'0');
            if number > i32::MAX as usize {
                return Err(self.arguments.complain("integral size overflow"));
            }
            self.at += 1;
        }
        Ok(if self.at == start { default } else { number })
    }

    /// The padding in front of an item.
    fn padding(&self, at: usize, item: &Item) -> usize {
        if item.size == 0 || item.letter == b'c' {
            return 0;
        }
        let size = item.size.min(self.align);
        (size - (at & (size - 1))) & (size - 1)
    }

    /// Handles a letter that changes how the rest is parsed.
    fn control(&mut self, letter: u8) -> mlua::Result<()> {
        match letter {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.number(NATURAL)?;
                if !align.is_power_of_two() {
                    let text = format!("alignment {align} is not a power of 2");
                    return Err(self.arguments.complain(&text));
                }
                self.align = align;
            }
            _ => {
                let text = [b"invalid format option '", &[letter][..], b"'"].concat();
                return Err(self.arguments.refuse_bytes(1, &text));
            }
        }
        Ok(())
    }

    fn put(&self, bytes: &mut Vec<u8>, mut little: Vec<u8>) {
        if self.is_big {
            little.reverse();
        }
        bytes.extend_from_slice(&little);
    }
}

/// `struct.pack(format, ...)`.
fn pack(arguments: &ScriptArguments) -> mlua::Result<LuaString> {
    let mut format = Format::new(arguments)?;
    let mut bytes = Vec::new();
    let mut nth = 1;
    let mut argument = || {
        nth += 1;
        nth
    };
    while let Some(item) = format.next()? {
        bytes.resize(bytes.len() + format.padding(bytes.len(), &item), 0);
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = unsigned(number(arguments, argument())?);
                let mut little = number.to_le_bytes().to_vec();
                little.resize(item.size, 0);
                format.put(&mut bytes, little);
            }
            b'x' => bytes.push(0),
            b'f' => {
                let number = number(arguments, argument())? as f32;
                format.put(&mut bytes, number.to_le_bytes().to_vec());
            }
            b'd' => {
                let number = number(arguments, argument())?;
                format.put(&mut bytes, number.to_le_bytes().to_vec());
            }
            b'c' | b's' => {
                let nth = argument();
                let text = arguments.as_text(nth)?;
                let text = text.ok_or_else(|| wrong_kind(arguments, nth, "string"))?;
                let text = text.as_bytes();
                let size = if item.size == 0 { text.len() } else { item.size };
                if text.len() < size {
                    return Err(arguments.refuse(nth + 1, "string too short"));
                }
                bytes.extend_from_slice(&text[..size]);
                if item.letter == b's' {
                    bytes.push(0);
                }
            }
            letter => format.control(letter)?,
        }
    }
    arguments.lua.create_string(bytes)
}

fn number(arguments: &ScriptArguments, nth: usize) -> mlua::Result<f64> {
    arguments.as_number(nth)?.ok_or_else(|| wrong_kind(arguments, nth, "number"))
}

/// The library pushes a nil after its arguments, so none counts as missing.
fn wrong_kind(arguments: &ScriptArguments, nth: usize, expected: &str) -> mlua::Error {
    let got = kind(arguments.value(nth));
    arguments.refuse(nth, &format!("{expected} expected, got {got}"))
}

/// A number as an unsigned integer, as the processor converts it.
fn unsigned(number: f64) -> u64 {
    const TOP: f64 = 9_223_372_036_854_775_808.0;
    if number >= TOP { (whole(number - TOP) as u64) ^ 1 << 63 } else { whole(number) as u64 }
}

/// `struct.size(format)`.
fn size(arguments: &ScriptArguments) -> mlua::Result<f64> {
    let mut format = Format::new(arguments)?;
    let mut at = 0;
    while let Some(item) = format.next()? {
        at += format.padding(at, &item);
        match item {
            Item { letter: b's', .. } => {
                return Err(arguments.refuse(1, "option 's' has no fixed size"));
            }
            Item { letter: b'c', size: 0 } => {
                return Err(arguments.refuse(1, "option 'c0' has no fixed size"));
            }
            Item { letter, .. } if !letter.is_ascii_alphanumeric() => format.control(letter)?,
            _ => {}
        }
        at += item.size;
    }
    Ok(at as f64)
}

/// `struct.unpack(format, data [, offset])`.
fn unpack(arguments: &ScriptArguments) -> mlua::Result<MultiValue> {
    let mut format = Format::new(arguments)?;
    let data = arguments.text(2)?;
    let data = data.as_bytes();
    let offset = arguments.integer_or(3, 1)?;
    if offset == 0 {
        return Err(arguments.refuse(3, "offset must be 1 or greater"));
    }
    let mut at = (offset as usize).wrapping_sub(1);
    let mut values: Vec<Value> = Vec::new();
    while let Some(item) = format.next()? {
        at = at.wrapping_add(format.padding(at, &item));
        let rest = |at: usize, size| at.checked_add(size).and_then(|end| data.get(at..end));
        let short = || arguments.refuse(2, "data string too short");
        let mut bytes = rest(at, item.size).ok_or_else(short)?;
        if arguments.count() + values.len() + 2 > MAX_SLOTS {
            return Err(arguments.complain("stack overflow (too many results)"));
        }
        let mut taken = item.size;
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                values.push(Value::Number(integer(bytes, format.is_big, item.letter)));
            }
            b'x' => {}
            b'f' => {
                let bits = u32::try_from(joined(bytes, format.is_big)).expect("four bytes");
                values.push(Value::Number(f64::from(f32::from_bits(bits))));
            }
            b'd' => values.push(Value::Number(f64::from_bits(joined(bytes, format.is_big)))),
            b'c' => {
                if item.size == 0 {
                    let size = previous_size(arguments, values.pop())?;
                    bytes = rest(at, size).ok_or_else(short)?;
                    taken = size;
                }
                values.push(Value::String(arguments.lua.create_string(bytes)?));
            }
            b's' => {
                let rest = &data[at..];
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| arguments.complain("unfinished string in data"))?;
                taken = end + 1;
                values.push(Value::String(arguments.lua.create_string(&rest[..end])?));
            }
            letter => format.control(letter)?,
        }
        at = at.wrapping_add(taken);
    }
    values.push(Value::Number(at.wrapping_add(1) as i64 as f64));
    Ok(MultiValue::from_iter(values))
}

/// The size for `c0`: the value of the previous item.
fn previous_size(arguments: &ScriptArguments, previous: Option<Value>) -> mlua::Result<usize> {
    let size = match previous {
        Some(Value::Number(number)) => Some(number),
        Some(text @ Value::String(_)) => arguments.lua.coerce_number(text)?,
        _ => None,
    };
    let size = size.ok_or_else(|| arguments.complain("format 'c0' needs a previous size"))?;
    Ok(usize::try_from(unsigned(size)).unwrap_or(usize::MAX))
}

/// Bytes as one number; of more than eight only the lowest are kept.
fn joined(bytes: &[u8], is_big: bool) -> u64 {
    let push = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    if is_big { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
}

fn integer(bytes: &[u8], is_big: bool, letter: u8) -> f64 {
    let number = joined(bytes, is_big);
    if !letter.is_ascii_lowercase() {
        return number as f64;
    }
    // A shift by more than the width wraps around, as in the processor.
    let sign = u64::MAX.wrapping_shl((bytes.len() as u32).wrapping_mul(8).wrapping_sub(1));
    let extended = if number & sign == 0 { number } else { number | sign };
    extended as i64 as f64
}
