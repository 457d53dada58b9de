//! SCAN and its variants. Small values are returned in one reply.
//!
//! Larger ones are walked in the order of a hash of the names: the cursor is the hash to continue
//! from. So a cursor needs no memory in the node, and an element that exists from the first request
//! to the last is returned exactly once, whatever is added and removed in between.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::command::key::object::encoding_of;
use crate::errors::{NOT_INTEGER, SYNTAX, WRONGTYPE};
use crate::frame::digits;
use crate::frame::{Reply, in_17_digits, integer};
use crate::glob::matches;
use crate::keyspace::Value;

/// The commands of this file, by name.
pub const FAMILY: Family = &[("hscan", hscan), ("scan", scan), ("sscan", sscan), ("zscan", zscan)];

/// Half the range of signed 64 bits: up to there a small sorted set stores integers.
const MAX_WHOLE: f64 = 4_611_686_018_427_387_904.0;

/// The options of a request.
struct ScanArguments<'a> {
    pattern: Option<&'a Bytes>,
    kind: Option<&'a Bytes>,
    count: usize,
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub fn scan(call: &mut Call) -> Outcome {
    let cursor = cursor(&call.args[1])?;
    let arguments = options(call.from(2), true)?;
    let names = call.node.keyspace.db(call.session.db).iter();
    let (next, names) = page(names.map(|(key, _)| key), cursor, arguments.count);
    let keys: Vec<Bytes> = names.into_iter().map(|key| Bytes::copy_from_slice(key)).collect();
    let mut found = Vec::new();
    for key in keys {
        if arguments.pattern.is_some_and(|pattern| !matches(pattern, &key)) {
            continue;
        }
        let kind = call.node.live(call.session, &key).map(|entry| entry.value.kind());
        let fits = |kind: &str| {
            arguments.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind.as_bytes()))
        };
        if kind.is_some_and(fits) {
            found.push(Reply::Bulk(key));
        }
    }
    Ok(answer(next, found))
}

/// SSCAN key cursor [MATCH pattern] [COUNT count]
pub fn sscan(call: &mut Call) -> Outcome {
    scan_value(call, "set")
}

/// HSCAN key cursor [MATCH pattern] [COUNT count]
pub fn hscan(call: &mut Call) -> Outcome {
    scan_value(call, "hash")
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count]
pub fn zscan(call: &mut Call) -> Outcome {
    scan_value(call, "zset")
}

fn scan_value(call: &mut Call, kind: &str) -> Outcome {
    let cursor = cursor(&call.args[2])?;
    let words = call.from(3);
    let Some(entry) = call.entry(&call.args[1]) else { return Ok(answer(0, Vec::new())) };
    let value = &entry.value;
    if value.kind() != kind {
        return Err(Reply::error(WRONGTYPE));
    }
    let arguments = options(words, false)?;
    let parts = parts(value);
    let is_small = matches!(encoding_of(entry), "intset" | "listpack");
    let (next, parts) = match is_small {
        true => (0, parts),
        false => page(parts, cursor, arguments.count),
    };
    let fits =
        |part: &ScanPart| arguments.pattern.is_none_or(|pattern| matches(pattern, &part.name));
    let items = parts.into_iter().filter(fits).flat_map(|part| [Some(part.name), part.value]);
    Ok(answer(next, items.flatten().map(Reply::Bulk).collect()))
}

/// A member, or a field with its value, or a member with its score.
struct ScanPart {
    name: Bytes,
    value: Option<Bytes>,
}

impl AsRef<[u8]> for ScanPart {
    fn as_ref(&self) -> &[u8] {
        &self.name
    }
}

fn parts(value: &Value) -> Vec<ScanPart> {
    let pair = |name: &Bytes, value| ScanPart { name: name.clone(), value: Some(value) };
    match value {
        Value::Set(set) => set.iter().map(|name| ScanPart { name, value: None }).collect(),
        Value::Hash(hash) => {
            hash.in_order().into_iter().map(|(name, value)| pair(name, value.clone())).collect()
        }
        Value::SortedSet(set) => {
            let score = |score| Bytes::from(score_text(score, set.is_small()));
            set.iter().map(|(name, at)| pair(name, score(at))).collect()
        }
        Value::String(_) | Value::List(_) => Vec::new(),
    }
}

/// A listpack stores whole numbers as integers, which are reported with all their digits.
fn score_text(score: f64, small: bool) -> String {
    let whole = score.fract() == 0.0 && score.abs() <= MAX_WHOLE;
    if small && whole { format!("{score:.0}") } else { in_17_digits(score) }
}

/// The position of a name in the walk. It has fewer bits than a cursor may have, as clients may use
/// signed integers; the walk begins at 1, since a cursor of 0 is its end.
fn place(name: &[u8]) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = name.iter().fold(ODD, |mixed, byte| {
        let mixed = (mixed ^ u64::from(*byte)).wrapping_mul(ODD);
        mixed ^ (mixed >> 29)
    });
    (mixed >> 16) + 1
}

/// About `count` names from the cursor on, and the cursor of the next page. Names at the same
/// position are always on one page.
fn page<T: AsRef<[u8]>>(
    names: impl IntoIterator<Item = T>,
    cursor: u64,
    count: usize,
) -> (u64, Vec<T>) {
    let placed = names.into_iter().map(|name| (place(name.as_ref()), name));
    let mut left: Vec<(u64, T)> = placed.filter(|(place, _)| *place >= cursor).collect();
    if count < left.len() {
        left.select_nth_unstable_by_key(count, |(place, _)| *place);
        let next = left[count].0;
        let page = left.into_iter().filter(|(place, _)| *place <= next);
        // Names at the next position come with the next page, unless the page would be empty.
        let mut page: Vec<(u64, T)> = page.collect();
        page.sort_by_key(|(place, _)| *place);
        let before = page.partition_point(|(place, _)| *place < next);
        if before > 0 {
            page.truncate(before);
            return (next, page.into_iter().map(|(_, name)| name).collect());
        }
        return (next + 1, page.into_iter().map(|(_, name)| name).collect());
    }
    left.sort_by_key(|(place, _)| *place);
    (0, left.into_iter().map(|(_, name)| name).collect())
}

fn answer(next: u64, found: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::Bulk(digits(next)), Reply::Array(found)])
}

/// A cursor as C's `strtoul` parses it: blanks are refused, a sign is not.
fn cursor(text: &[u8]) -> Result<u64, Reply> {
    let wrong = || Reply::error("ERR invalid cursor");
    let (negative, number) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if text.is_empty() {
        return Ok(0);
    }
    if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
        return Err(wrong());
    }
    let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    let number: u64 = number.ok_or_else(wrong)?;
    Ok(if negative { number.wrapping_neg() } else { number })
}

fn options(words: &[Bytes], takes_type: bool) -> Result<ScanArguments<'_>, Reply> {
    let mut arguments = ScanArguments { pattern: None, kind: None, count: 10 };
    for option in words.chunks(2) {
        let [word, value] = option else { return Err(Reply::error(SYNTAX)) };
        match &word.to_ascii_uppercase()[..] {
            b"MATCH" => arguments.pattern = Some(value),
            b"COUNT" => {
                let count = integer(value).ok_or(Reply::error(NOT_INTEGER))?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                arguments.count = count.ok_or(Reply::error(SYNTAX))?;
            }
            b"TYPE" if takes_type => arguments.kind = Some(value),
            _ => return Err(Reply::error(SYNTAX)),
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn what_is_there_throughout_is_answered_once_whatever_comes_and_goes() {
        for count in [1, 2, 7, 10, 1_000] {
            let stays: Vec<String> = (0..200).map(|n| format!("stays:{n}")).collect();
            let mut guests: Vec<String> = (0..50).map(|n| format!("guest:{n}")).collect();
            let (mut cursor, mut seen) = (0, Vec::new());
            loop {
                let names = stays.iter().chain(&guests).cloned();
                let (next, names) = page(names, cursor, count);
                seen.extend(names.into_iter().filter(|name| name.starts_with("stays")));
                guests = (0..50).map(|n| format!("guest:{cursor}:{n}")).collect();
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            seen.sort();
            let mut stays = stays;
            stays.sort();
            assert_eq!(seen, stays);
        }
    }
}
