//! LCS: the longest common subsequence of two strings, through the table of all their prefixes.

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::errors::SYNTAX;
use crate::frame::{MAX_BULK_LEN, Reply};
use crate::keyspace::Value;

/// The options of LCS.
#[derive(Default)]
struct LcsOptions {
    places: bool,
    length: bool,
    with_length: bool,
    shortest: i64,
}

/// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]
pub fn lcs(call: &mut Call) -> Outcome {
    let strings = [text(call, &call.args[1]), text(call, &call.args[2])];
    let [Some(one), Some(other)] = strings else {
        return Err(Reply::error("ERR The specified keys must contain string values"));
    };
    let options = options(call)?;
    let cells = (one.len() as u64 + 1) * (other.len() as u64 + 1);
    if cells > MAX_BULK_LEN.unsigned_abs() / 4 {
        return Err(Reply::error(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let table = Table::of(&one, &other);
    let length = Reply::Integer(i64::from(table.at(one.len(), other.len())));
    if options.places {
        let matches = table.matches(&one, &other, &options);
        let items = [Reply::word("matches"), Reply::Array(matches), Reply::word("len"), length];
        return Ok(Reply::Map(items.to_vec()));
    }
    Ok(if options.length { length } else { Reply::Bulk(table.text(&one, &other)) })
}

/// The string of a key, empty if it is missing; `None` for another type.
fn text(call: &mut Call, key: &[u8]) -> Option<Bytes> {
    match call.entry(key).map(|entry| &entry.value) {
        None => Some(Bytes::new()),
        Some(Value::String(bytes)) => Some(bytes.clone()),
        Some(_) => None,
    }
}

fn options(call: &Call) -> Result<LcsOptions, Reply> {
    let mut options = LcsOptions::default();
    let mut at = 3;
    while at < call.args.len() {
        match &call.word(at)[..] {
            b"IDX" => options.places = true,
            b"LEN" => options.length = true,
            b"WITHMATCHLEN" => options.with_length = true,
            b"MINMATCHLEN" if at + 1 < call.args.len() => {
                at += 1;
                options.shortest = call.integer(at)?;
            }
            _ => return Err(Reply::error(SYNTAX)),
        }
        at += 1;
    }
    if options.places && options.length {
        return Err(Reply::error(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    Ok(options)
}

/// The length of the common subsequence of every two prefixes.
struct Table {
    width: usize,
    cells: Vec<u32>,
}

impl Table {
    fn of(one: &[u8], other: &[u8]) -> Table {
        let width = other.len() + 1;
        let mut table = Table { width, cells: vec![0; (one.len() + 1) * width] };
        for (i, a) in one.iter().enumerate() {
            for (j, b) in other.iter().enumerate() {
                table.cells[(i + 1) * width + j + 1] = if a == b {
                    table.at(i, j) + 1
                } else {
                    table.at(i, j + 1).max(table.at(i + 1, j))
                };
            }
        }
        table
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.width + j]
    }

    /// Pairs of positions that hold the same byte of the subsequence, from the last to the first.
    fn pairs(&self, one: &[u8], other: &[u8]) -> Vec<(usize, usize)> {
        let (mut i, mut j) = (one.len(), other.len());
        let mut pairs = Vec::new();
        while i > 0 && j > 0 {
            if one[i - 1] == other[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        pairs
    }

    fn text(&self, one: &[u8], other: &[u8]) -> Bytes {
        self.pairs(one, other).into_iter().rev().map(|(i, _)| one[i]).collect()
    }

    /// Runs of adjacent pairs, the last first.
    fn matches(&self, one: &[u8], other: &[u8], options: &LcsOptions) -> Vec<Reply> {
        let pairs = self.pairs(one, other);
        let runs = pairs.chunk_by(|next, before| (before.0 + 1, before.1 + 1) == *next);
        let long = runs.filter(|run| run.len() as i64 >= options.shortest);
        long.map(|run| {
            let (last, first) = (run[0], run[run.len() - 1]);
            let pair = |from, to| Reply::Array(vec![Reply::count(from), Reply::count(to)]);
            let mut items = vec![pair(first.0, last.0), pair(first.1, last.1)];
            items.extend(options.with_length.then(|| Reply::count(run.len())));
            Reply::Array(items)
        })
        .collect()
    }
}
