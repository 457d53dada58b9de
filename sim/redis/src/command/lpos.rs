//! LPOS: the position of an element in a list.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::command::list::{list, number_from};
use crate::errors::{NOT_INTEGER, SYNTAX};
use crate::frame::{Reply, integer};
use crate::keyspace::list::List;

/// The options of LPOS.
struct LposOptions {
    rank: i64,
    count: Option<usize>,
    longest: usize,
}

/// The commands of this file, by name.
pub const FAMILY: Family = &[("lpos", lpos)];

/// LPOS key element [RANK rank] [COUNT count] [MAXLEN length]
pub fn lpos(call: &mut Call) -> Outcome {
    let options = options(call)?;
    let element = &call.args[2];
    let places = match list(call, &call.args[1])? {
        None => Vec::new(),
        Some(list) => places(list, element, &options),
    };
    let mut places = places.into_iter().map(Reply::count);
    Ok(match options.count {
        None => places.next().unwrap_or(Reply::Nil),
        Some(_) => Reply::Array(places.collect()),
    })
}

fn options(call: &Call) -> Result<LposOptions, Reply> {
    let mut options = LposOptions { rank: 1, count: None, longest: 0 };
    for pair in call.from(3).chunks(2) {
        let [name, value] = pair else { return Err(Reply::error(SYNTAX)) };
        match &name.to_ascii_uppercase()[..] {
            b"RANK" => options.rank = rank(value)?,
            b"COUNT" => {
                options.count = Some(number_from(value, 0, "ERR COUNT can't be negative")?);
            }
            b"MAXLEN" => options.longest = number_from(value, 0, "ERR MAXLEN can't be negative")?,
            _ => return Err(Reply::error(SYNTAX)),
        }
    }
    Ok(options)
}

fn rank(text: &Bytes) -> Result<i64, Reply> {
    match integer(text) {
        None => Err(Reply::error(NOT_INTEGER)),
        Some(0) => Err(Reply::error(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or \
             use negative to start from the end of the list",
        )),
        Some(rank) => Ok(rank),
    }
}

fn places(list: &List, element: &Bytes, options: &LposOptions) -> Vec<usize> {
    let limit = |number: usize| if number == 0 { usize::MAX } else { number };
    // Redis negates the minimum rank, which overflows: no match is skipped and no count reached.
    let least = options.rank == i64::MIN;
    let wanted = options.count.map_or(1, |count| limit(if least { 0 } else { count }));
    let looked_at = limit(options.longest);
    let skipped = usize::try_from(options.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let skipped = if least { 0 } else { skipped };
    let last = list.0.len().saturating_sub(1);
    let hit = |(place, one): (usize, &Bytes)| (one == element).then_some(place);
    if options.rank > 0 {
        let hits = list.0.iter().take(looked_at).enumerate().filter_map(hit);
        hits.skip(skipped).take(wanted).collect()
    } else {
        let hits = list.0.iter().rev().take(looked_at).enumerate().filter_map(hit);
        hits.skip(skipped).take(wanted).map(|place| last - place).collect()
    }
}
