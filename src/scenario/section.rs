//! A TOML table read field by field. Every refusal has a place; no key remains unread.

use std::collections::BTreeMap;
use std::ops::Range;

use lockstorm_platform::time::Nanos;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::length::{self, NoLength};
use crate::refusal::Wrong;

/// A value with its place.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// The place of every field of a file, by its path: `lock.ttl`, `fault.2.target`.
pub type Places = BTreeMap<String, Range<usize>>;

/// A table whose keys are all known.
pub struct Section<'a> {
    path: String,
    span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// Opens a table. A key that is not one of `keys` is refused.
    pub fn open(
        path: &str,
        span: Range<usize>,
        table: &'a DeTable<'a>,
        keys: &[&str],
    ) -> Result<Section<'a>, Wrong> {
        let section = Section { path: path.to_owned(), span, table };
        for key in table.keys() {
            let word: &str = key.get_ref();
            if !keys.contains(&word) {
                let wrong = Wrong::word(key.span(), word, "key", keys);
                let what = format!("{} has no key '{word}'", section.title());
                return Err(Wrong { what, ..wrong });
            }
        }
        Ok(section)
    }

    /// The name of the table in refusals.
    fn title(&self) -> String {
        match self.path.as_str() {
            "" => "a scenario".to_owned(),
            path if path.starts_with("fault.") => {
                let (_, id) = path.split_once('.').expect("there is a dot");
                format!("fault {}", id.replace('.', ", "))
            }
            path => format!("[{path}]"),
        }
    }

    /// The place of the table.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// A field.
    pub fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.table.iter().find(|(known, _)| known.get_ref() == key).map(|(_, value)| value)
    }

    /// Every field in the order of the keys.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, Range<usize>, &'a Value<'a>)> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
    }

    /// The refusal of a table that lacks a field.
    pub fn lacks(&self, key: &str, example: &str) -> Wrong {
        let what = format!("{} lacks '{key}': add {key} = {example}", self.title());
        Wrong::at(self.span(), what, "here")
    }

    /// A string.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Wrong> {
        self.get(key).map(|value| text_of(key, value)).transpose()
    }

    /// A length of time, non-negative.
    pub fn length(&self, key: &str) -> Result<Option<Nanos>, Wrong> {
        self.get(key).map(|value| length_of(key, value)).transpose()
    }

    /// A length of time that may be negative.
    pub fn shift(&self, key: &str) -> Result<Option<i64>, Wrong> {
        let read =
            |value| length::read_shift(with_unit(key, value)?).map_err(|no| no_length(value, no));
        self.get(key).map(read).transpose()
    }

    /// A whole number that fits the type.
    pub fn number<N: TryFrom<i128>>(&self, key: &str) -> Result<Option<N>, Wrong> {
        let read = |value: &'a Value<'a>| {
            let DeValue::Integer(number) = value.get_ref() else {
                return Err(other_type(key, value, "a whole number, like 3"));
            };
            let fits = integer(number).and_then(|number| N::try_from(number).ok());
            let what = format!("'{key}' cannot be {number}");
            fits.ok_or_else(|| Wrong::at(value.span(), what, "out of range"))
        };
        self.get(key).map(read).transpose()
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Wrong> {
        let read = |value: &'a Value<'a>| match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(other_type(key, value, "true or false")),
        };
        self.get(key).map(read).transpose()
    }

    /// One of several words, and its value.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Wrong> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let word = text_of(key, value)?;
        match words.iter().find(|(known, _)| *known == word) {
            Some((_, meant)) => Ok(Some(*meant)),
            None => {
                let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
                Err(Wrong::word(value.span(), word, key, &known))
            }
        }
    }

    /// A table within this one.
    pub fn section(&self, key: &str, keys: &[&str]) -> Result<Option<Section<'a>>, Wrong> {
        let Some(value) = self.get(key) else { return Ok(None) };
        table_of(&self.within(key), value, keys).map(Some)
    }

    /// The path of a field.
    pub fn within(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// A value that must be a table with these keys.
pub fn table_of<'a>(path: &str, value: &'a Value<'a>, keys: &[&str]) -> Result<Section<'a>, Wrong> {
    match value.get_ref() {
        DeValue::Table(table) => Section::open(path, value.span(), table, keys),
        _ => Err(other_type(path, value, &format!("a table with {}", keys.join(", ")))),
    }
}

/// A value that must be a string.
pub fn text_of<'a>(key: &str, value: &'a Value<'a>) -> Result<&'a str, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => Err(other_type(key, value, "a text in quotes")),
    }
}

/// A value that must be a length of time.
pub fn length_of(key: &str, value: &Value) -> Result<Nanos, Wrong> {
    length::read(with_unit(key, value)?).map_err(|no| no_length(value, no))
}

fn with_unit<'a>(key: &str, value: &'a Value) -> Result<&'a str, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        DeValue::Integer(number) => {
            let what = format!("'{key}' is a length of time and needs a unit");
            Err(Wrong::at(value.span(), what, format!("write \"{number}s\" or \"{number}ms\"")))
        }
        _ => Err(other_type(key, value, "a length of time, like \"15s\"")),
    }
}

fn no_length(value: &Value, no: NoLength) -> Wrong {
    Wrong::at(value.span(), no.what, no.mend)
}

/// The refusal of a value of the wrong type.
pub fn other_type(key: &str, value: &Value, wanted: &str) -> Wrong {
    let found = match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    Wrong::at(value.span(), format!("'{key}' cannot be {found}"), format!("write {wanted}"))
}

/// The number, unless it is out of range of every type.
pub fn integer(number: &DeInteger) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The place of every field of a table; list entries count from 1.
pub fn places(path: &str, table: &DeTable, into: &mut Places) {
    for (key, value) in table {
        let path = if path.is_empty() {
            key.get_ref().to_string()
        } else {
            format!("{path}.{key}", key = key.get_ref())
        };
        into.insert(path.clone(), value.span());
        match value.get_ref() {
            DeValue::Table(inner) => places(&path, inner, into),
            DeValue::Array(list) => {
                for (nth, entry) in list.iter().enumerate() {
                    let path = format!("{path}.{}", nth + 1);
                    into.insert(path.clone(), entry.span());
                    if let DeValue::Table(inner) = entry.get_ref() {
                        places(&path, inner, into);
                    }
                }
            }
            _ => {}
        }
    }
}
