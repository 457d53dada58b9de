//! `cjson.encode`: a Lua value as JSON.

use std::io::Write;

use mlua::{Function, LuaString, Table, Value};

use crate::digits::in_digits;
use crate::script::arguments::{ScriptArguments, kind};
use crate::script::cjson::settings::{CjsonSettings, InvalidNumbers, MAX_LEVELS};
use crate::script::globals::behind;

/// `cjson.encode(value)`.
pub fn encode(
    arguments: &ScriptArguments,
    settings: CjsonSettings,
    protected: &Table,
) -> mlua::Result<LuaString> {
    if arguments.count() != 1 {
        return Err(arguments.refuse(1, "expected 1 argument"));
    }
    let next = arguments.lua.named_registry_value::<Function>("next")?;
    let mut writer =
        Writer { arguments, settings, protected, next, json: Vec::new(), levels: Vec::new() };
    writer.write(arguments.value(1))?;
    while let Some(level) = writer.levels.pop() {
        writer.advance(level)?;
    }
    arguments.lua.create_string(writer.json)
}

/// A table being written.
struct EncodeLevel {
    table: Table,
    written: usize,
    shape: Shape,
}

enum Shape {
    Array {
        length: usize,
    },
    /// With the last written key.
    Object {
        key: Value,
    },
}

struct Writer<'a> {
    arguments: &'a ScriptArguments<'a>,
    settings: CjsonSettings,
    protected: &'a Table,
    next: Function,
    json: Vec<u8>,
    levels: Vec<EncodeLevel>,
}

impl Writer<'_> {
    /// Writes a value; of a table only the opening.
    fn write(&mut self, value: &Value) -> mlua::Result<()> {
        match value {
            Value::String(text) => write_text(&mut self.json, &text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(value) => {
                self.json.extend_from_slice(if *value { b"true" } else { b"false" });
            }
            Value::Table(table) => self.open(table)?,
            Value::Nil => self.json.extend_from_slice(b"null"),
            null if null.is_null() => self.json.extend_from_slice(b"null"),
            other => return Err(self.cannot(kind(other), "type not supported")),
        }
        Ok(())
    }

    /// Writes the next element of a table, or its closing.
    fn advance(&mut self, mut level: EncodeLevel) -> mlua::Result<()> {
        let comma = level.written > 0;
        level.written += 1;
        match &mut level.shape {
            Shape::Array { length } if level.written > *length => {
                self.json.push(b']');
                Ok(())
            }
            Shape::Array { .. } => {
                self.comma(comma);
                let value: Value = level.table.raw_get(level.written)?;
                self.levels.push(level);
                self.write(&value)
            }
            Shape::Object { key } => {
                let (found, value): (Value, Value) = self.next.call((&level.table, &*key))?;
                if found.is_nil() {
                    self.json.push(b'}');
                    return Ok(());
                }
                *key = found.clone();
                self.levels.push(level);
                self.comma(comma);
                self.key(&found)?;
                self.write(&value)
            }
        }
    }

    fn comma(&mut self, wanted: bool) {
        if wanted {
            self.json.push(b',');
        }
    }

    fn key(&mut self, key: &Value) -> mlua::Result<()> {
        match key {
            Value::Integer(_) | Value::Number(_) => {
                self.json.push(b'"');
                self.write(key)?;
                self.json.extend_from_slice(b"\":");
            }
            Value::String(text) => {
                write_text(&mut self.json, &text.as_bytes());
                self.json.push(b':');
            }
            other => return Err(self.cannot(kind(other), "table key must be a number or string")),
        }
        Ok(())
    }

    fn open(&mut self, table: &Table) -> mlua::Result<()> {
        let depth = self.levels.len() + 1;
        if depth > self.settings.encode_max_depth.min(MAX_LEVELS) as usize {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(self.arguments.complain(&text));
        }
        let table = behind(self.protected, table)?;
        let length = self.array_length(&table)?;
        self.json.push(if length > 0 { b'[' } else { b'{' });
        let array = length > 0;
        let shape = if array { Shape::Array { length } } else { Shape::Object { key: Value::Nil } };
        self.levels.push(EncodeLevel { table, written: 0, shape });
        Ok(())
    }

    /// The highest index of a table whose keys are all positive integers, otherwise 0.
    fn array_length(&self, table: &Table) -> mlua::Result<usize> {
        let (mut most, mut items) = (0i64, 0i64);
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(index) if index >= 1 => {
                    if index > most {
                        // C keeps the index in 32 bits, and out of range gives their minimum.
                        most = i64::from(i32::try_from(index).unwrap_or(i32::MIN));
                    }
                }
                Value::Number(index) if index >= 1.0 && index.floor() == index => {
                    most = i64::from(i32::MIN);
                }
                _ => return Ok(0),
            }
            items += 1;
        }
        let CjsonSettings { sparse_convert, sparse_ratio, sparse_safe, .. } = self.settings;
        let (ratio, safe) = (i64::from(sparse_ratio), i64::from(sparse_safe));
        if ratio > 0 && most > items * ratio && most > safe {
            if !sparse_convert {
                return Err(self.cannot("table", "excessively sparse array"));
            }
            return Ok(0);
        }
        Ok(usize::try_from(most).unwrap_or(0))
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid_numbers {
                InvalidNumbers::Refused => {
                    return Err(self.cannot("number", "must not be NaN or Inf"));
                }
                InvalidNumbers::Written if number.is_nan() => {
                    self.json.extend_from_slice(b"nan");
                    return Ok(());
                }
                InvalidNumbers::Written => {}
                InvalidNumbers::Null => {
                    self.json.extend_from_slice(b"null");
                    return Ok(());
                }
            }
        }
        let digits = usize::try_from(self.settings.encode_number_precision).unwrap_or(14);
        self.json.extend_from_slice(in_digits(number, digits).as_bytes());
        Ok(())
    }

    fn cannot(&self, what: &str, why: &str) -> mlua::Error {
        self.arguments.complain(&format!("Cannot serialise {what}: {why}"))
    }
}

fn write_text(json: &mut Vec<u8>, text: &[u8]) {
    json.push(b'"');
    for byte in text {
        match byte {
            b'"' => json.extend_from_slice(b"\\\""),
            b'\\' => json.extend_from_slice(b"\\\\"),
            b'/' => json.extend_from_slice(b"\\/"),
            8 => json.extend_from_slice(b"\\b"),
            9 => json.extend_from_slice(b"\\t"),
            10 => json.extend_from_slice(b"\\n"),
            12 => json.extend_from_slice(b"\\f"),
            13 => json.extend_from_slice(b"\\r"),
            0..=31 | 127 => write!(json, "\\u{byte:04x}").expect("memory takes it"),
            other => json.push(*other),
        }
    }
    json.push(b'"');
}
