//! Reads a TOML table field by field. Every refusal has a place; no key remains unread.

use std::collections::BTreeMap;
use std::ops::Range;

use lockstorm_platform::time::Nanos;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::field::{Field, Takes};
use crate::length;
use crate::refusal::{Place, Refusal};

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
    ) -> Result<Section<'a>, Refusal> {
        let section = Section { path: path.to_owned(), span, table };
        for key in table.keys() {
            let word: &str = key.get_ref();
            if !keys.contains(&word) {
                let mut refusal = Refusal::word(key.span(), word, "key", keys);
                refusal.what = format!("{} has no key '{word}'", section.title());
                return Err(refusal);
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
    pub fn lacks(&self, key: &str, example: &str) -> Refusal {
        let what = format!("{} lacks '{key}': add {key} = {example}", self.title());
        Refusal::at(self.span(), what, "here")
    }

    /// A string.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        self.get(key).map(|value| text_of(key, value)).transpose()
    }

    /// A length of time, non-negative.
    pub fn length(&self, key: &str) -> Result<Option<Nanos>, Refusal> {
        self.get(key).map(|value| length_of(key, value)).transpose()
    }

    /// A length of time that may be negative.
    pub fn shift(&self, key: &str) -> Result<Option<i64>, Refusal> {
        let read = |value: &'a Value<'a>| {
            length::read_shift(with_unit(key, value)?).map_err(|no| no.on(place_of(value)))
        };
        self.get(key).map(read).transpose()
    }

    /// A whole number that fits the type.
    pub fn number<N: TryFrom<i128>>(&self, key: &str) -> Result<Option<N>, Refusal> {
        let read = |value: &'a Value<'a>| {
            let DeValue::Integer(number) = value.get_ref() else {
                return Err(other_type(key, value, "a whole number, like 3"));
            };
            let fits = integer(number).and_then(|number| N::try_from(number).ok());
            let what = format!("'{key}' cannot be {number}");
            fits.ok_or_else(|| Refusal::at(value.span(), what, bound_of::<N>(number)))
        };
        self.get(key).map(read).transpose()
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Refusal> {
        let read = |value: &'a Value<'a>| match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(other_type(key, value, "true or false")),
        };
        self.get(key).map(read).transpose()
    }

    /// One of some words, as the value that it selects.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Refusal> {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        let word = self.one_of(key, &known)?;
        Ok(word.and_then(|word| words.iter().find(|(known, _)| *known == word)).map(|(_, t)| *t))
    }

    /// One of some words.
    pub fn one_of(&self, key: &str, words: &[&str]) -> Result<Option<&'a str>, Refusal> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let word = text_of(key, value)?;
        if !words.contains(&word) {
            return Err(Refusal::word(value.span(), word, key, words));
        }
        Ok(Some(word))
    }

    /// A value with these fields as written here; omitted fields are as in `defaults`.
    pub fn settings<'f, T: Serialize + DeserializeOwned>(
        &self,
        fields: impl Iterator<Item = &'f Field>,
        defaults: &T,
    ) -> Result<T, Refusal> {
        let mut all = serde_json::to_value(defaults).expect("settings are plain data");
        for field in fields {
            if let Some(value) = self.setting(field)? {
                all[field.key] = value;
            }
        }
        Ok(serde_json::from_value(all).expect("the rows are those of the type"))
    }

    fn setting(&self, field: &Field) -> Result<Option<serde_json::Value>, Refusal> {
        let key = field.key;
        Ok(match field.takes {
            Takes::Text => self.text(key)?.map(Into::into),
            Takes::Word(words) => self.one_of(key, words)?.map(Into::into),
            Takes::Flag => self.flag(key)?.map(Into::into),
            Takes::Count => self.number::<u32>(key)?.map(Into::into),
            Takes::Number => self.number::<i64>(key)?.map(Into::into),
            Takes::Length => self.length(key)?.map(Into::into),
        })
    }

    /// A table within this one.
    pub fn section(&self, key: &str, keys: &[&str]) -> Result<Option<Section<'a>>, Refusal> {
        let Some(value) = self.get(key) else { return Ok(None) };
        table_of(&self.within(key), value, keys).map(Some)
    }

    /// The path of a field.
    pub fn within(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// A value that must be a table with these keys.
pub fn table_of<'a>(
    path: &str,
    value: &'a Value<'a>,
    keys: &[&str],
) -> Result<Section<'a>, Refusal> {
    match value.get_ref() {
        DeValue::Table(table) => Section::open(path, value.span(), table, keys),
        _ => Err(other_type(path, value, &format!("a table with {}", keys.join(", ")))),
    }
}

/// A value that must be a string.
pub fn text_of<'a>(key: &str, value: &'a Value<'a>) -> Result<&'a str, Refusal> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => Err(other_type(key, value, "a text in quotes")),
    }
}

/// A value that must be a length of time.
pub fn length_of(key: &str, value: &Value) -> Result<Nanos, Refusal> {
    length::read(with_unit(key, value)?).map_err(|no| no.on(place_of(value)))
}

fn with_unit<'a>(key: &str, value: &'a Value) -> Result<&'a str, Refusal> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        DeValue::Integer(number) => {
            let what = format!("'{key}' is a length of time and needs a unit");
            Err(Refusal::at(value.span(), what, format!("write \"{number}s\" or \"{number}ms\"")))
        }
        _ => Err(other_type(key, value, "a length of time, like \"15s\"")),
    }
}

fn place_of(value: &Value) -> Place {
    Place::Bytes(value.span())
}

/// The refusal of a value of the wrong type.
pub fn other_type(key: &str, value: &Value, wanted: &str) -> Refusal {
    let found = match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    Refusal::at(value.span(), format!("'{key}' cannot be {found}"), format!("write {wanted}"))
}

/// The number, unless it is out of range of every type.
pub fn integer(number: &DeInteger) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The `id` of a list entry, if it has one.
fn id_of(entry: &DeValue) -> Option<usize> {
    let DeValue::Table(entry) = entry else { return None };
    let DeValue::Integer(id) = entry.get("id")?.get_ref() else { return None };
    integer(id)?.try_into().ok()
}

/// What a number that does not fit its type should be.
fn bound_of<N: TryFrom<i128>>(number: &DeInteger) -> String {
    let fits = |most: &i128| N::try_from(*most).is_ok();
    let most = (0..i128::BITS - 1).rev().map(|bits| (1 << bits) - 1).find(fits).unwrap_or(0);
    let least = if fits(&-1) { -most - 1 } else { 0 };
    let is_negative = number.as_str().starts_with('-');
    if is_negative { format!("at least {least}") } else { format!("at most {most}") }
}

/// The place of every field of a table; list entries count from 1, unless they have an `id`.
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
                    let path = format!("{path}.{}", id_of(entry.get_ref()).unwrap_or(nth + 1));
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
