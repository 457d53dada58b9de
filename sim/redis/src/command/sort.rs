//! SORT: the elements of a list, a set or a sorted set, ordered by themselves or by other keys.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::errors::{NOT_INTEGER, SYNTAX, WRONGTYPE};
use crate::float;
use crate::frame::{Reply, integer};
use crate::keyspace::Value;
use crate::keyspace::list::List;

/// The commands of this file, by name.
pub const FAMILY: Family = &[("sort", sort), ("sort_ro", sort)];

/// The options of a request.
#[derive(Default)]
struct SortArguments<'a> {
    by: Option<&'a Bytes>,
    gets: Vec<&'a Bytes>,
    limit: Option<[i64; 2]>,
    descending: bool,
    alphabetic: bool,
    destination: Option<&'a Bytes>,
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]
/// [STORE destination]
pub fn sort(call: &mut Call) -> Outcome {
    let mut arguments = options(call, call.command.name == "SORT")?;
    let unsorted = arguments.by.is_some_and(|by| !by.contains(&b'*'));
    let value = call.entry(&call.args[1]).map(|entry| &entry.value);
    // A set has no defined order that a script or a replica could rely on.
    let must_sort = matches!(value, Some(Value::Set(_)));
    let elements = elements(value)?;
    if let Some(row) = call.sorted_set_mut(&call.args[1]) {
        // Redis walks only a skiplist here, and never converts it back.
        row.outgrow();
    }
    let must_sort = must_sort && (arguments.destination.is_some() || call.session.script.is_some());
    if unsorted && must_sort {
        (arguments.by, arguments.alphabetic) = (None, true);
    }
    let elements = if unsorted && !must_sort {
        let is_row =
            matches!(call.entry(&call.args[1]).map(|e| &e.value), Some(Value::SortedSet(_)));
        let reverse = is_row && arguments.descending;
        if reverse { elements.into_iter().rev().collect() } else { elements }
    } else {
        sorted(call, elements, &arguments)?
    };
    let elements = limited(elements, arguments.limit);
    let mut parts = Vec::new();
    for element in &elements {
        match &arguments.gets[..] {
            [] => parts.push(Some(element.clone())),
            gets => parts.extend(gets.iter().map(|get| looked_up(call, get, element))),
        }
    }
    let Some(destination) = arguments.destination else {
        let reply = |part: Option<Bytes>| part.map_or(Reply::Nil, Reply::Bulk);
        return Ok(Reply::Array(parts.into_iter().map(reply).collect()));
    };
    let list = List(parts.into_iter().map(Option::unwrap_or_default).collect());
    call.store(destination, Value::List(list), b'l', "sortstore")
}

fn options<'a>(call: &Call<'a>, stores: bool) -> Result<SortArguments<'a>, Reply> {
    let (words, clustered) = (call.from(2), call.node.cluster.is_some());
    let mut arguments = SortArguments::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let left = words.len() - at - 1;
        let number = |at: usize| integer(&words[at]).ok_or(Reply::error(NOT_INTEGER));
        match &word.to_ascii_uppercase()[..] {
            b"ASC" => arguments.descending = false,
            b"DESC" => arguments.descending = true,
            b"ALPHA" => arguments.alphabetic = true,
            b"LIMIT" if left >= 2 => {
                arguments.limit = Some([number(at + 1)?, number(at + 2)?]);
                at += 2;
            }
            b"STORE" if stores && left >= 1 => {
                at += 1;
                arguments.destination = Some(&words[at]);
            }
            b"BY" if left >= 1 && clustered && words[at + 1].contains(&b'*') => {
                return Err(Reply::error("ERR BY option of SORT denied in Cluster mode."));
            }
            b"GET" if left >= 1 && clustered => {
                return Err(Reply::error("ERR GET option of SORT denied in Cluster mode."));
            }
            b"BY" if left >= 1 => {
                at += 1;
                arguments.by = Some(&words[at]);
            }
            b"GET" if left >= 1 => {
                at += 1;
                arguments.gets.push(&words[at]);
            }
            _ => return Err(Reply::error(SYNTAX)),
        }
        at += 1;
    }
    Ok(arguments)
}

fn elements(value: Option<&Value>) -> Result<Vec<Bytes>, Reply> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::List(list)) => Ok(list.0.iter().cloned().collect()),
        Some(Value::Set(set)) => Ok(set.iter().collect()),
        Some(Value::SortedSet(set)) => Ok(set.iter().map(|(member, _)| member.clone()).collect()),
        Some(_) => Err(Reply::error(WRONGTYPE)),
    }
}

/// The sort key of an element.
enum Weight {
    Number(f64),
    Text(Option<Bytes>),
}

fn sorted(
    call: &mut Call,
    elements: Vec<Bytes>,
    arguments: &SortArguments,
) -> Result<Vec<Bytes>, Reply> {
    let mut weighted = Vec::new();
    let mut wrong = false;
    for element in elements {
        let text = match arguments.by {
            Some(by) => looked_up(call, by, &element),
            None => Some(element.clone()),
        };
        let weight = match text {
            text if arguments.alphabetic => Weight::Text(text),
            None => Weight::Number(0.0),
            Some(text) => {
                let read = float::loose_number(&text).filter(|read| !read.out_of_range);
                wrong |= read.is_none();
                Weight::Number(read.map_or(0.0, |read| read.number))
            }
        };
        weighted.push((weight, element));
    }
    if wrong {
        return Err(Reply::error("ERR One or more scores can't be converted into double"));
    }
    weighted.sort_by(|one, other| {
        let order = compare(one, other);
        if arguments.descending { order.reverse() } else { order }
    });
    Ok(weighted.into_iter().map(|(_, element)| element).collect())
}

/// Equal numbers are ordered by their elements' bytes, equal texts are not.
fn compare(one: &(Weight, Bytes), other: &(Weight, Bytes)) -> Ordering {
    match (&one.0, &other.0) {
        (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
        (Weight::Number(a), Weight::Number(b)) => {
            a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| one.1.cmp(&other.1))
        }
        _ => Ordering::Equal,
    }
}

fn limited(elements: Vec<Bytes>, limit: Option<[i64; 2]>) -> Vec<Bytes> {
    let Some([offset, count]) = limit else { return elements };
    let offset = usize::try_from(offset).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    elements.into_iter().skip(offset).take(count).collect()
}

/// The result of a pattern for an element: `#` is the element itself, `key_*` a string,
/// `key_*->field` a field of a hash.
fn looked_up(call: &mut Call, pattern: &[u8], element: &Bytes) -> Option<Bytes> {
    if pattern == b"#" {
        return Some(element.clone());
    }
    let star = pattern.iter().position(|byte| *byte == b'*')?;
    let (start, rest) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = rest.windows(2).position(|pair| pair == b"->");
    let arrow = arrow.filter(|at| rest.len() > at + 2);
    let end = arrow.map_or(rest, |at| &rest[..at]);
    let key = [start, &element[..], end].concat();
    match (call.entry(&key).map(|entry| &entry.value)?, arrow) {
        (Value::String(text), None) => Some(text.clone()),
        (Value::Hash(hash), Some(at)) => hash.get(&rest[at + 2..]).cloned(),
        _ => None,
    }
}
