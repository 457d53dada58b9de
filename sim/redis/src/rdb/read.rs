//! Bytes to values: all encodings of strings, lists, sets, hashes and sorted sets that Redis up to
//! 7.0 writes.

use bytes::Bytes;

use crate::float;
use crate::keyspace::Value;
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::sorted_set::SortedSet;
use crate::rdb::cursor::{Cursor, WrongRdb};
use crate::rdb::{kind, listpack, lzf, ziplist};

/// Maximum number of bytes that one compressed byte can expand to.
const MAX_EXPANSION: usize = 128;
/// A list node that is one element, and one that is a listpack.
const PLAIN: usize = 1;
const PACKED: usize = 2;

impl Cursor<'_> {
    /// A length.
    ///
    /// # Errors
    /// If there is no valid length.
    pub fn length(&mut self) -> Result<usize, WrongRdb> {
        let head = self.byte()?;
        let length = match head {
            0..0x40 => u64::from(head),
            0x40..0x80 => u64::from(head & 0x3F) << 8 | u64::from(self.byte()?),
            0x80 => self.big(4)?,
            0x81 => self.big(8)?,
            _ => return Err(WrongRdb("no length")),
        };
        usize::try_from(length).map_err(|_| WrongRdb("a length beyond all memory"))
    }

    /// A string in any of its encodings, as a copy.
    ///
    /// # Errors
    /// If there is no valid string.
    pub fn string(&mut self) -> Result<Bytes, WrongRdb> {
        let number = match self.rest().first() {
            Some(&kind::IN_8_BITS) => 1,
            Some(&kind::IN_16_BITS) => 2,
            Some(&kind::IN_32_BITS) => 4,
            Some(&kind::COMPRESSED) => {
                self.byte()?;
                return self.compressed();
            }
            _ => {
                let length = self.length()?;
                return self.copy(length);
            }
        };
        self.byte()?;
        Ok(Bytes::from(self.signed(number)?.to_string()))
    }

    fn compressed(&mut self) -> Result<Bytes, WrongRdb> {
        let (taken, length) = (self.length()?, self.length()?);
        let input = self.take(taken)?;
        if length > taken.saturating_mul(MAX_EXPANSION) {
            return Err(WrongRdb("a string that cannot be so long"));
        }
        lzf::decompress(input, length).map(Bytes::from)
    }

    /// A score as text: its length first, with special values for what is not text.
    fn score_in_text(&mut self) -> Result<f64, WrongRdb> {
        match self.byte()? {
            253 => Ok(f64::NAN),
            254 => Ok(f64::INFINITY),
            255 => Ok(f64::NEG_INFINITY),
            length => score(self.take(usize::from(length))?),
        }
    }
}

fn score(text: &[u8]) -> Result<f64, WrongRdb> {
    float::number(text).ok_or(WrongRdb("a score that is no number"))
}

/// The value of this type; `None` if it is empty, which no key can be.
///
/// # Errors
/// If there is no valid value, or its type is unknown.
pub fn value(of: u8, cursor: &mut Cursor) -> Result<Option<Value>, WrongRdb> {
    let value = match of {
        kind::STRING => Value::String(cursor.string()?),
        kind::LIST => list(counted(cursor, 1, |cursor, out| {
            out.push(cursor.string()?);
            Ok(())
        })?),
        kind::LIST_AS_ZIPLIST => list(ziplist::elements(&cursor.string()?)?),
        kind::LIST_OF_ZIPLISTS => list(counted(cursor, 1, |cursor, out| {
            out.extend(ziplist::elements(&cursor.string()?)?);
            Ok(())
        })?),
        kind::LIST_OF_LISTPACKS => list(counted(cursor, 2, piece)?),
        kind::SET => Value::Set(set(cursor)?),
        kind::SET_OF_INTEGERS => Value::Set(integers(&cursor.string()?)?),
        kind::HASH => hash(&counted(cursor, 2, |cursor, out| {
            out.extend([cursor.string()?, cursor.string()?]);
            Ok(())
        })?)?,
        kind::HASH_AS_ZIPMAP => hash(&ziplist::zipmap_elements(&cursor.string()?)?)?,
        kind::HASH_AS_ZIPLIST => hash(&ziplist::elements(&cursor.string()?)?)?,
        kind::HASH_AS_LISTPACK => hash(&listpack::elements(&cursor.string()?)?)?,
        kind::SORTED_SET_IN_TEXT => sorted_set(cursor, |cursor| cursor.score_in_text())?,
        kind::SORTED_SET => sorted_set(cursor, |cursor| Ok(f64::from_bits(cursor.little(8)?)))?,
        kind::SORTED_SET_AS_ZIPLIST => scored(&ziplist::elements(&cursor.string()?)?)?,
        kind::SORTED_SET_AS_LISTPACK => scored(&listpack::elements(&cursor.string()?)?)?,
        _ => return Err(WrongRdb("a kind of value that is not known")),
    };
    Ok(Some(value).filter(|value| !value.is_empty()))
}

/// As many items as a length announces, each of which takes at least `least` bytes.
fn counted(
    cursor: &mut Cursor,
    least: usize,
    mut read: impl FnMut(&mut Cursor, &mut Vec<Bytes>) -> Result<(), WrongRdb>,
) -> Result<Vec<Bytes>, WrongRdb> {
    let count = cursor.length()?;
    if count > cursor.rest().len() / least {
        return Err(WrongRdb("it ends too early"));
    }
    let mut out = Vec::new();
    for _ in 0..count {
        read(cursor, &mut out)?;
    }
    Ok(out)
}

/// One node of a list.
fn piece(cursor: &mut Cursor, out: &mut Vec<Bytes>) -> Result<(), WrongRdb> {
    match cursor.length()? {
        PLAIN => out.push(cursor.string()?),
        PACKED => out.extend(listpack::elements(&cursor.string()?)?),
        _ => return Err(WrongRdb("a piece of a list that is not known")),
    }
    Ok(())
}

fn list(elements: Vec<Bytes>) -> Value {
    Value::List(List(elements.into()))
}

fn set(cursor: &mut Cursor) -> Result<Set, WrongRdb> {
    let mut set = Set::default();
    for _ in 0..cursor.length()? {
        if !set.insert(&cursor.string()?) {
            return Err(WrongRdb("a member that is there twice"));
        }
    }
    Ok(set)
}

fn integers(bytes: &[u8]) -> Result<Set, WrongRdb> {
    let mut cursor = Cursor::new(bytes);
    let (width, count) = (cursor.little(4)?, cursor.little(4)?);
    let width = match width {
        2 | 4 | 8 => width as usize,
        _ => return Err(WrongRdb("integers of no known width")),
    };
    let mut numbers = Vec::new();
    while !cursor.rest().is_empty() {
        numbers.push(cursor.signed(width)?);
    }
    if numbers.len() as u64 != count || !numbers.is_sorted() {
        return Err(WrongRdb("integers in disorder"));
    }
    Ok(Set::of_integers(numbers, width))
}

fn hash(parts: &[Bytes]) -> Result<Value, WrongRdb> {
    let mut hash = Hash::default();
    for pair in parts.chunks(2) {
        let [field, value] = pair else { return Err(WrongRdb("a field without a value")) };
        if !hash.set(field, value.clone()) {
            return Err(WrongRdb("a field that is there twice"));
        }
    }
    Ok(Value::Hash(hash))
}

fn sorted_set(
    cursor: &mut Cursor,
    mut score: impl FnMut(&mut Cursor<'_>) -> Result<f64, WrongRdb>,
) -> Result<Value, WrongRdb> {
    let mut set = SortedSet::default();
    for _ in 0..cursor.length()? {
        let member = cursor.string()?;
        put(&mut set, &member, score(cursor)?)?;
    }
    Ok(Value::SortedSet(set))
}

fn scored(parts: &[Bytes]) -> Result<Value, WrongRdb> {
    let mut set = SortedSet::default();
    for pair in parts.chunks(2) {
        let [member, text] = pair else { return Err(WrongRdb("a member without a score")) };
        put(&mut set, member, score(text)?)?;
    }
    Ok(Value::SortedSet(set))
}

fn put(set: &mut SortedSet, member: &[u8], score: f64) -> Result<(), WrongRdb> {
    if score.is_nan() || !set.insert(member, score) {
        return Err(WrongRdb("a member that is there twice, or has no place"));
    }
    Ok(())
}
