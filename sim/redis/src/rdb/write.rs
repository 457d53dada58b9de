//! Values to bytes, in the encodings of Redis 7.0.

use bytes::Bytes;

use crate::frame::{in_17_digits, integer};
use crate::keyspace::hash::Hash;
use crate::keyspace::limits::Limits;
use crate::keyspace::list::List;
use crate::keyspace::set::{Integers, Set};
use crate::keyspace::sorted_set::SortedSet;
use crate::keyspace::{Entry, Value};
use crate::rdb::listpack::Listpack;
use crate::rdb::{kind, lzf};

/// Longer strings are compressed, if that saves at least [`MIN_GAIN`].
const MAX_PLAIN_LEN: usize = 20;
const MIN_GAIN: usize = 4;
/// Longer strings are not tried as integers.
const MAX_NUMBER_LEN: usize = 11;
/// Redis's estimate of the overhead of an element when it checks whether the element fits.
const GUESSED_HEAD: usize = 8;
/// A list node that is a listpack.
const PACKED: usize = 2;

/// Writes a length: 6, 14, 32 or 64 bits.
pub fn length(length: usize, out: &mut Vec<u8>) {
    let bytes = (length as u64).to_be_bytes();
    match length {
        0..64 => out.push(bytes[7]),
        64..16_384 => out.extend([0x40 | bytes[6], bytes[7]]),
        16_384..=0xFFFF_FFFF => {
            out.push(0x80);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Writes a string: as a small integer, compressed, or unchanged.
pub fn string(text: &[u8], out: &mut Vec<u8>) {
    let number = if text.len() <= MAX_NUMBER_LEN { integer(text) } else { None };
    if let Some(number) = number.and_then(|number| i32::try_from(number).ok()) {
        return small_number(number, out);
    }
    if text.len() > MAX_PLAIN_LEN
        && let Some(compressed) = lzf::compress(text, text.len() - MIN_GAIN)
    {
        out.push(kind::COMPRESSED);
        length(compressed.len(), out);
        length(text.len(), out);
        return out.extend(compressed);
    }
    length(text.len(), out);
    out.extend_from_slice(text);
}

fn small_number(number: i32, out: &mut Vec<u8>) {
    let bytes = number.to_le_bytes();
    let (head, size) = match number {
        -0x80..=0x7F => (kind::IN_8_BITS, 1),
        -0x8000..=0x7FFF => (kind::IN_16_BITS, 2),
        _ => (kind::IN_32_BITS, 4),
    };
    out.push(head);
    out.extend_from_slice(&bytes[..size]);
}

/// The type byte of a value, which includes its encoding.
pub fn kind_of(value: &Value) -> u8 {
    match value {
        Value::String(_) => kind::STRING,
        Value::List(_) => kind::LIST_OF_LISTPACKS,
        Value::Set(Set::Integers(_)) => kind::SET_OF_INTEGERS,
        Value::Set(Set::Words(_)) => kind::SET,
        Value::Hash(hash) if hash.is_small() => kind::HASH_AS_LISTPACK,
        Value::Hash(_) => kind::HASH,
        Value::SortedSet(set) if set.is_small() => kind::SORTED_SET_AS_LISTPACK,
        Value::SortedSet(_) => kind::SORTED_SET,
    }
}

/// Writes a value, without its type byte.
pub fn value(value: &Value, limits: &Limits, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => string(text, out),
        Value::List(list) => put_list(list, limits.piece, out),
        Value::Set(Set::Integers(integers)) => put_integers(integers, out),
        Value::Set(Set::Words(words)) => {
            length(words.len(), out);
            words.iter().for_each(|word| string(word, out));
        }
        Value::Hash(hash) => put_hash(hash, out),
        Value::SortedSet(set) => put_sorted_set(set, out),
    }
}

/// Elements fill one node after the other. (In Redis the nodes of a long list depend on its
/// history.)
fn put_list(list: &List, limit: i64, out: &mut Vec<u8>) {
    let mut pieces = vec![Listpack::default()];
    for element in &list.0 {
        let last = pieces.last().filter(|piece| takes(piece, element, limit));
        if last.is_none() {
            pieces.push(Listpack::default());
        }
        pieces.last_mut().expect("one was put there").push(element);
    }
    length(pieces.len(), out);
    for piece in pieces {
        length(PACKED, out);
        string(&piece.finish(), out);
    }
}

/// Whether an element fits into a node: into an empty one it always does.
fn takes(piece: &Listpack, element: &Bytes, limit: i64) -> bool {
    const CLASSES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];
    const SAFE: usize = 8192;
    let size = piece.size() + element.len() + GUESSED_HEAD;
    piece.is_empty()
        || match usize::try_from(limit) {
            Ok(most) => size <= SAFE && piece.len() < most,
            Err(_) => {
                let class = usize::try_from(limit.saturating_add(1).unsigned_abs()).unwrap_or(4);
                size <= CLASSES[class.min(4)]
            }
        }
}

fn put_integers(integers: &Integers, out: &mut Vec<u8>) {
    let width = integers.width();
    let mut bytes = vec![width as u8, 0, 0, 0];
    let count = u32::try_from(integers.iter().count()).unwrap_or(u32::MAX);
    bytes.extend(count.to_le_bytes());
    integers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()[..width]));
    string(&bytes, out);
}

fn put_hash(hash: &Hash, out: &mut Vec<u8>) {
    let pairs = hash.in_order();
    let parts = pairs.iter().flat_map(|(field, value)| [field, value]);
    if hash.is_small() {
        let mut pack = Listpack::default();
        parts.for_each(|part| pack.push(part));
        return string(&pack.finish(), out);
    }
    length(pairs.len(), out);
    parts.for_each(|part| string(part, out));
}

/// A skiplist is written from its end, so that the reader can insert each member before the last.
fn put_sorted_set(set: &SortedSet, out: &mut Vec<u8>) {
    if set.is_small() {
        let mut pack = Listpack::default();
        for (member, score) in set.iter() {
            pack.push(member);
            pack.push(score_in_text(score).as_bytes());
        }
        return string(&pack.finish(), out);
    }
    length(set.len(), out);
    for (member, score) in set.iter().rev() {
        string(member, out);
        out.extend(score.to_le_bytes());
    }
}

/// Whole numbers are written as integers if they are well within 64 bits (`double2ll`).
fn score_in_text(score: f64) -> String {
    const FARTHEST: f64 = (i64::MAX / 2) as f64;
    if score.abs() <= FARTHEST && score.trunc() == score {
        return (score as i64).to_string();
    }
    in_17_digits(score)
}

/// Writes a key with its expiry time, type and value.
pub fn entry(key: &[u8], entry: &Entry, limits: &Limits, out: &mut Vec<u8>) {
    if let Some(until_ms) = entry.until_ms() {
        out.push(kind::ENDS_AT_MS);
        out.extend(until_ms.to_le_bytes());
    }
    out.push(kind_of(&entry.value));
    string(key, out);
    value(&entry.value, limits, out);
}
