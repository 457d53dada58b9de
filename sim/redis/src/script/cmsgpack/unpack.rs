//! `cmsgpack.unpack` and its variants: MessagePack as Lua values.

use mlua::{MultiValue, Table, Value};

use crate::script::arguments::ScriptArguments;
use crate::script::raised::Raised;

/// Maximum number of Lua stack slots of a C function.
const MAX_SLOTS: usize = 8000;
/// Maximum number of strings and tables held at a time: references of the machine are fewer than
/// slots.
const MAX_HELD: usize = 6000;

const TOO_MANY: &str = "stack overflow (too many return values at once; use unpack_one or \
                        unpack_limit instead.)";
const TOO_DEEP: &str = "stack overflow (in function mp_decode_to_lua_array)";
const MISSING: &str = "Missing bytes in input.";
const BAD_FORMAT: &str = "Bad data format in input.";

/// `cmsgpack.unpack(data)`: all values.
pub fn unpack(arguments: &ScriptArguments) -> mlua::Result<MultiValue> {
    unpack_some(arguments, 0, 0, arguments.count())
}

/// `cmsgpack.unpack_one(data [, offset])`: the next offset and a value.
pub fn unpack_one(arguments: &ScriptArguments) -> mlua::Result<MultiValue> {
    let offset = arguments.integer_or(2, 0)?;
    unpack_some(arguments, 1, offset, 1)
}

/// `cmsgpack.unpack_limit(data, limit [, offset])`: the next offset and up to `limit` values.
pub fn unpack_limit(arguments: &ScriptArguments) -> mlua::Result<MultiValue> {
    let limit = arguments.integer(2)?;
    let offset = arguments.integer_or(3, 0)?;
    unpack_some(arguments, limit, offset, 1)
}

fn unpack_some(
    arguments: &ScriptArguments,
    limit: i64,
    offset: i64,
    slots: usize,
) -> mlua::Result<MultiValue> {
    let data = arguments.text(1)?;
    let data = data.as_bytes();
    let all = limit == 0 && offset == 0;
    let (Ok(start), false) = (usize::try_from(offset), limit < 0) else {
        let (offset, length) = (offset as i32, data.len() as i32);
        return Err(arguments.complain(&format!(
            "Invalid request to unpack with offset of {offset} and limit of {length}."
        )));
    };
    let Some(rest) = data.get(start..) else {
        let (offset, length) = (offset as i32, data.len());
        return Err(arguments
            .complain(&format!("Start offset {offset} greater than input length {length}.")));
    };
    let limit = if all { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
    let mut reader = Reader { arguments, rest, levels: Vec::new(), slots, held: 0 };
    let mut values = Vec::new();
    while !reader.rest.is_empty() && values.len() < limit {
        values.push(reader.value()?);
        reader.slots += 1;
    }
    if !all {
        let next =
            if reader.rest.is_empty() { -1.0 } else { (data.len() - reader.rest.len()) as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(MultiValue::from_iter(values))
}

/// An array or a map being parsed.
struct UnpackLevel {
    table: Table,
    left: u32,
    place: UnpackPlace,
}

/// The position of the next value.
enum UnpackPlace {
    Index(usize),
    Key,
    Under(Value),
}

struct Reader<'a> {
    arguments: &'a ScriptArguments<'a>,
    rest: &'a [u8],
    levels: Vec<UnpackLevel>,
    /// Lua stack slots that the library would use by now.
    slots: usize,
    held: usize,
}

/// The contents after a code.
enum Found {
    Value(Value),
    Text(usize),
    Array(u32),
    Map(u32),
}

impl<'a> Reader<'a> {
    /// Parses one value, nested ones included.
    fn value(&mut self) -> mlua::Result<Value> {
        loop {
            let found = self.found()?;
            let mut value = match found {
                Found::Value(value) => value,
                Found::Text(length) => {
                    self.hold()?;
                    Value::String(self.arguments.lua.create_string(self.take(length)?)?)
                }
                Found::Array(left) => {
                    if self.slots + 2 > MAX_SLOTS {
                        return Err(self.arguments.complain(TOO_DEEP));
                    }
                    let table = self.table()?;
                    if left > 0 {
                        self.slots += 2;
                        self.levels.push(UnpackLevel { table, left, place: UnpackPlace::Index(1) });
                        continue;
                    }
                    Value::Table(table)
                }
                Found::Map(left) => {
                    let table = self.table()?;
                    if left > 0 {
                        self.slots += 1;
                        self.levels.push(UnpackLevel { table, left, place: UnpackPlace::Key });
                        continue;
                    }
                    Value::Table(table)
                }
            };
            loop {
                let Some(mut level) = self.levels.pop() else { return Ok(value) };
                match level.place {
                    UnpackPlace::Key => {
                        self.slots += 1;
                        level.place = UnpackPlace::Under(value);
                        self.levels.push(level);
                        break;
                    }
                    UnpackPlace::Index(index) => {
                        self.release(&value);
                        level.table.raw_seti(index, value)?;
                        level.place = UnpackPlace::Index(index + 1);
                    }
                    UnpackPlace::Under(key) => {
                        self.slots -= 1;
                        self.release(&value);
                        self.release(&key);
                        check_key(&key)?;
                        level.table.raw_set(key, value)?;
                        level.place = UnpackPlace::Key;
                    }
                }
                level.left -= 1;
                if level.left > 0 {
                    self.levels.push(level);
                    break;
                }
                self.slots -= if matches!(level.place, UnpackPlace::Index(_)) { 2 } else { 1 };
                value = Value::Table(level.table);
            }
        }
    }

    /// Counts a reference that is held.
    fn hold(&mut self) -> mlua::Result<()> {
        self.held += 1;
        if self.held > MAX_HELD {
            return Err(self.arguments.complain(TOO_MANY));
        }
        Ok(())
    }

    fn release(&mut self, value: &Value) {
        self.held -= usize::from(matches!(value, Value::String(_) | Value::Table(_)));
    }

    fn table(&mut self) -> mlua::Result<Table> {
        self.hold()?;
        self.arguments.lua.create_table()
    }

    fn take(&mut self, length: usize) -> mlua::Result<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.arguments.complain(MISSING));
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// The next bytes as one number.
    fn number(&mut self, width: usize) -> mlua::Result<u64> {
        Ok(self.take(width)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn length(&mut self, width: usize) -> mlua::Result<u32> {
        Ok(u32::try_from(self.number(width)?).expect("at most four bytes"))
    }

    fn found(&mut self) -> mlua::Result<Found> {
        if self.rest.is_empty() {
            return Err(self.arguments.complain(MISSING));
        }
        if self.slots + 1 > MAX_SLOTS {
            return Err(self.arguments.complain(TOO_MANY));
        }
        let code = self.take(1)?[0];
        let number = match code {
            0x00..=0x7f => f64::from(code),
            0xe0..=0xff => f64::from(code as i8),
            0xca => f64::from(f32::from_bits(self.length(4)?)),
            0xcb => f64::from_bits(self.number(8)?),
            0xcc => self.number(1)? as f64,
            0xcd => self.number(2)? as f64,
            0xce => self.number(4)? as f64,
            0xd0 => f64::from(self.number(1)? as i8),
            0xd1 => f64::from(self.number(2)? as i16),
            0xd2 => f64::from(self.number(4)? as i32),
            // Lua's integers are signed, so a large unsigned one becomes negative.
            0xcf | 0xd3 => self.number(8)? as i64 as f64,
            0xc0 => return Ok(Found::Value(Value::Nil)),
            0xc2 | 0xc3 => return Ok(Found::Value(Value::Boolean(code == 0xc3))),
            0xa0..=0xbf => return Ok(Found::Text(usize::from(code & 0x1f))),
            0xd9..=0xdb => return Ok(Found::Text(self.number(1 << (code - 0xd9))? as usize)),
            0x90..=0x9f => return Ok(Found::Array(u32::from(code & 0xf))),
            0xdc | 0xdd => return self.length(2 << (code - 0xdc)).map(Found::Array),
            0x80..=0x8f => return Ok(Found::Map(u32::from(code & 0xf))),
            0xde | 0xdf => return self.length(2 << (code - 0xde)).map(Found::Map),
            _ => return Err(self.arguments.complain(BAD_FORMAT)),
        };
        Ok(Found::Value(Value::Number(number)))
    }
}

fn check_key(key: &Value) -> mlua::Result<()> {
    let text = match key {
        Value::Nil => "table index is nil",
        Value::Number(number) if number.is_nan() => "table index is NaN",
        _ => return Ok(()),
    };
    Err(Raised::Text(text.into()).into())
}
