//! Ranges of sorted sets: by rank, by score, by member.

use std::ops::Range;

use bytes::Bytes;

use crate::errors::NOT_INTEGER;
use crate::float;
use crate::frame::{Reply, integer};
use crate::keyspace::sorted_set::{MemberEnd, MemberRange, ScoreRange, SortedSet};

/// How a range is specified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By index, from the end if negative.
    Rank,
    /// By score.
    Score,
    /// By member, where all scores are equal.
    Member,
}

/// A range as requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RangeBounds<'a> {
    /// From one index to another.
    Ranks([i64; 2]),
    /// Scores.
    Scores(ScoreRange),
    /// Members.
    Members(MemberRange<'a>),
}

impl<'a> RangeBounds<'a> {
    /// Parses the two bounds, the lower one first.
    pub fn read(by: By, [least, most]: [&'a Bytes; 2]) -> Result<RangeBounds<'a>, Reply> {
        match by {
            By::Rank => {
                let rank = |text| integer(text).ok_or(Reply::error(NOT_INTEGER));
                Ok(RangeBounds::Ranks([rank(least)?, rank(most)?]))
            }
            By::Score => {
                let ((least, from), (most, to)) = (score_end(least)?, score_end(most)?);
                Ok(RangeBounds::Scores(ScoreRange { ends: [least, most], open: [from, to] }))
            }
            By::Member => {
                let (least, most) = (member_end(least)?, member_end(most)?);
                Ok(RangeBounds::Members(MemberRange { least, most }))
            }
        }
    }

    /// The selected ranks, counted from the lowest score even if requested in reverse.
    pub fn of(&self, set: &SortedSet, reverse: bool) -> Range<usize> {
        match self {
            RangeBounds::Ranks(ends) => ranks(*ends, set.len(), reverse),
            RangeBounds::Scores(range) => set.by_score(range),
            RangeBounds::Members(range) => set.by_member(range, reverse),
        }
    }
}

/// A score, and whether the bracket before it excludes it.
fn score_end(text: &[u8]) -> Result<(f64, bool), Reply> {
    let (text, open) = match text {
        [b'(', rest @ ..] => (rest, true),
        text => (text, false),
    };
    let read = float::loose_number(text).ok_or(Reply::error("ERR min or max is not a float"))?;
    Ok((read.number, open))
}

/// Ranks as Redis counts them: from the other end if negative, clamped to the set.
fn ranks([start, end]: [i64; 2], length: usize, reverse: bool) -> Range<usize> {
    let length_signed = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |rank: i64| if rank < 0 { rank.saturating_add(length_signed) } else { rank };
    let start = usize::try_from(place(start)).unwrap_or(0);
    let Ok(end) = usize::try_from(place(end)) else { return 0..0 };
    let end = end.saturating_add(1).min(length);
    if start >= end {
        return 0..0;
    }
    if reverse { length - end..length - start } else { start..end }
}

/// The part of some ranks that LIMIT leaves: nothing for a negative offset, all after the offset
/// for a negative count.
pub fn limited(ranks: Range<usize>, [offset, count]: [i64; 2], reverse: bool) -> Range<usize> {
    let Ok(offset) = usize::try_from(offset) else { return 0..0 };
    let offset = offset.min(ranks.len());
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(ranks.len() - offset);
    if reverse {
        let end = ranks.end - offset;
        end - count..end
    } else {
        let start = ranks.start + offset;
        start..start + count
    }
}

fn member_end(text: &[u8]) -> Result<MemberEnd<'_>, Reply> {
    match text {
        b"-" => Ok(MemberEnd::First),
        b"+" => Ok(MemberEnd::Last),
        [b'[', member @ ..] => Ok(MemberEnd::At(member)),
        [b'(', member @ ..] => Ok(MemberEnd::Beside(member)),
        _ => Err(Reply::error("ERR min or max not valid string range item")),
    }
}
