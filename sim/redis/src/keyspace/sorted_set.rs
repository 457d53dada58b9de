//! Sorted sets: members with scores.
//!
//! Members are in one row by score, then by their bytes, so that a rank is a position in it and
//! every range is a slice; a second index maps members to scores. Commands on the ends of the row,
//! as for queues and sliding windows, move nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;

use crate::keyspace::limits::Small;

/// Members with their scores. No score is NaN.
#[derive(Clone, Debug, Default)]
pub struct SortedSet {
    scores: BTreeMap<Bytes, f64>,
    row: VecDeque<(f64, Bytes)>,
    /// Length of the longest member that it ever had.
    longest: usize,
    /// Whether a signed zero was added since it was last settled.
    signed: bool,
    /// Whether it has outgrown the listpack; it never returns.
    large: bool,
}

/// Equal by members and scores, in any encoding.
impl PartialEq for SortedSet {
    fn eq(&self, other: &SortedSet) -> bool {
        self.scores == other.scores
    }
}

impl Eq for SortedSet {}

impl SortedSet {
    /// An empty set in the skiplist encoding.
    pub fn large() -> SortedSet {
        SortedSet { large: true, ..SortedSet::default() }
    }

    /// The same members as a listpack, if they fit.
    pub fn fitted(self, bounds: Small) -> SortedSet {
        let mut fitted = SortedSet { large: false, signed: true, ..self };
        fitted.settle(bounds);
        fitted
    }

    /// Leaves the listpack encoding if it exceeds these limits. A listpack stores whole numbers as
    /// integers: zero has no sign there.
    pub fn settle(&mut self, bounds: Small) {
        self.large |= self.len() > bounds.entries || self.longest > bounds.longest;
        if std::mem::take(&mut self.signed) && !self.large {
            let zeros = self.by_score(&ScoreRange { ends: [0.0; 2], open: [false; 2] });
            for (score, member) in self.row.range_mut(zeros) {
                *score = 0.0;
                self.scores.insert(member.clone(), 0.0);
            }
        }
    }

    /// Leaves the listpack encoding for good.
    pub fn outgrow(&mut self) {
        self.large = true;
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Sets the score of a member; whether the member is new.
    pub fn insert(&mut self, member: &[u8], score: f64) -> bool {
        assert!(!score.is_nan(), "a score has a place in the row");
        let old = self.scores.get_key_value(member).map(|(member, old)| (member.clone(), *old));
        let new = old.is_none();
        let member = match old {
            None => Bytes::copy_from_slice(member),
            Some((_, old)) if old == score => return false,
            Some((member, old)) => {
                let at = self.place(old, &member);
                debug_assert!(
                    self.row.get(at).is_some_and(|(_, there)| *there == member),
                    "the row has every member at its score"
                );
                self.row.remove(at);
                member
            }
        };
        self.longest = self.longest.max(member.len());
        self.signed |= score == 0.0 && score.is_sign_negative();
        // After the old place is vacated: it would shift the new one.
        let at = self.place(score, &member);
        self.row.insert(at, (score, member.clone()));
        self.scores.insert(member, score);
        debug_assert_eq!(self.scores.len(), self.row.len(), "row and index have the same members");
        new
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        let at = self.place(score, member);
        debug_assert!(
            self.row.get(at).is_some_and(|(_, there)| *there == member),
            "the row has every member at its score"
        );
        self.row.remove(at);
        Some(score)
    }

    /// Removes the members at these ranks; returns them in order.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) -> Vec<(Bytes, f64)> {
        let removed: Vec<(f64, Bytes)> = self.row.drain(ranks).collect();
        for (_, member) in &removed {
            self.scores.remove(member);
        }
        debug_assert_eq!(self.scores.len(), self.row.len(), "row and index have the same members");
        removed.into_iter().map(|(score, member)| (member, score)).collect()
    }

    /// The position of a member with this score, present or not.
    fn place(&self, score: f64, member: &[u8]) -> usize {
        self.row.partition_point(|(s, m)| *s < score || (*s == score && m[..] < *member))
    }

    /// How many members precede this one.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        self.score(member).map(|score| self.place(score, member))
    }

    /// The members at these ranks with their scores.
    pub fn ranks(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = (&Bytes, f64)> {
        self.row.range(ranks).map(|(score, member)| (member, *score))
    }

    /// All members with their scores, from the lowest.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, f64)> {
        self.ranks(0..self.len())
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// Whether it is a listpack.
    pub fn is_small(&self) -> bool {
        !self.large
    }

    /// Its name in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        if self.large { "skiplist" } else { "listpack" }
    }

    /// The ranks of the scores in a range.
    pub fn by_score(&self, range: &ScoreRange) -> Range<usize> {
        let start = self.row.partition_point(|(score, _)| !range.is_above_least(*score));
        let end = self.row.partition_point(|(score, _)| range.is_below_most(*score));
        start..end.max(start)
    }

    /// The ranks of the members in a range, if all scores are equal. Otherwise Redis leaves the
    /// result unspecified, but walks a small set from one end; so does this function.
    pub fn by_member(&self, range: &MemberRange, from_the_end: bool) -> Range<usize> {
        let above = |(_, member): &(f64, Bytes)| range.least.is_at_or_before(member);
        let below = |(_, member): &(f64, Bytes)| range.most.is_at_or_after(member);
        if !self.row.back().is_some_and(above) || !self.row.front().is_some_and(below) {
            return 0..0;
        }
        if self.large {
            let start = self.row.partition_point(|item| !above(item));
            return start..self.row.partition_point(below).max(start);
        }
        if from_the_end {
            let end = self.row.iter().rposition(below).map_or(0, |last| last + 1);
            let before = self.row.range(..end).rposition(|item| !above(item));
            return before.map_or(0, |last| last + 1)..end;
        }
        let start = self.row.iter().position(above).unwrap_or(self.len());
        let length = self.row.range(start..).position(|item| !below(item));
        start..length.map_or(self.len(), |length| start + length)
    }
}

/// A range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// The minimum and the maximum.
    pub ends: [f64; 2],
    /// Whether each of them is exclusive.
    pub open: [bool; 2],
}

impl ScoreRange {
    fn is_above_least(&self, score: f64) -> bool {
        if self.open[0] { score > self.ends[0] } else { score >= self.ends[0] }
    }

    fn is_below_most(&self, score: f64) -> bool {
        if self.open[1] { score < self.ends[1] } else { score <= self.ends[1] }
    }
}

/// A range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRange<'a> {
    /// The lower bound.
    pub least: MemberEnd<'a>,
    /// The upper bound.
    pub most: MemberEnd<'a>,
}

/// A bound of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEnd<'a> {
    /// Before every member: `-`.
    First,
    /// After every member: `+`.
    Last,
    /// This member, inclusive: `[`.
    At(&'a [u8]),
    /// This member, exclusive: `(`.
    Beside(&'a [u8]),
}

impl MemberEnd<'_> {
    fn is_at_or_before(&self, member: &[u8]) -> bool {
        match *self {
            MemberEnd::First => true,
            MemberEnd::Last => false,
            MemberEnd::At(end) => end <= member,
            MemberEnd::Beside(end) => end < member,
        }
    }

    fn is_at_or_after(&self, member: &[u8]) -> bool {
        match *self {
            MemberEnd::First => false,
            MemberEnd::Last => true,
            MemberEnd::At(end) => end >= member,
            MemberEnd::Beside(end) => end > member,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MemberEnd, MemberRange, ScoreRange, SortedSet};
    use crate::keyspace::limits::Small;

    fn set() -> SortedSet {
        let mut set = SortedSet::default();
        for (member, score) in [("b", 1.0), ("a", 1.0), ("c", -2.0), ("d", f64::INFINITY)] {
            assert!(set.insert(member.as_bytes(), score));
        }
        set
    }

    fn members(set: &SortedSet) -> Vec<&[u8]> {
        set.iter().map(|(member, _)| &member[..]).collect()
    }

    #[test]
    fn members_stand_by_score_and_then_by_bytes() {
        let mut set = set();
        assert_eq!(members(&set), [b"c", b"a", b"b", b"d"]);
        assert!(!set.insert(b"c", 7.0));
        assert_eq!(members(&set), [b"a", b"b", b"c", b"d"]);
        assert_eq!((set.rank(b"c"), set.rank(b"x")), (Some(2), None));
        assert_eq!(set.remove(b"b"), Some(1.0));
        assert_eq!(set.remove_ranks(1..3).len(), 2);
        assert_eq!((members(&set), set.score(b"d")), (vec![&b"a"[..]], None));
    }

    #[test]
    fn ranges_are_ranks() {
        let set = set();
        let range = |ends, open| set.by_score(&ScoreRange { ends, open });
        assert_eq!(range([1.0, f64::INFINITY], [false; 2]), 1..4);
        assert_eq!(range([1.0, f64::INFINITY], [true; 2]), 3..3);
        assert_eq!(range([5.0, 1.0], [false; 2]), 3..3);
        let all = MemberRange { least: MemberEnd::First, most: MemberEnd::Last };
        assert_eq!(set.by_member(&all, false), 0..4);
        let some = MemberRange { least: MemberEnd::At(b"a"), most: MemberEnd::Beside(b"d") };
        assert_eq!((set.by_member(&some, false), set.by_member(&some, true)), (0..3, 0..3));
    }

    #[test]
    fn a_set_that_has_grown_stays_large() {
        let mut set = SortedSet::default();
        let bounds = Small { entries: 7, longest: 1 };
        for n in 0..=7 {
            assert_eq!(set.encoding(), "listpack");
            set.insert(n.to_string().as_bytes(), -0.0);
            set.settle(bounds);
        }
        for n in 1..7 {
            set.remove(n.to_string().as_bytes());
        }
        assert_eq!(set.encoding(), "skiplist");
        assert!(set.score(b"0").is_some_and(f64::is_sign_positive), "it was small by then");
        assert!(set.score(b"7").is_some_and(f64::is_sign_negative));
        assert_eq!(set.clone().fitted(bounds).encoding(), "listpack");
        set.insert(b"long", 1.0);
        assert_eq!(set.clone().fitted(bounds).encoding(), "skiplist");
        assert_eq!(set.clone().fitted(bounds), set);
    }
}
