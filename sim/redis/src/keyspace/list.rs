//! Lists: elements from left to right, added and removed at both ends.

use std::collections::VecDeque;

use bytes::Bytes;

/// Elements from left to right. Each has its own copy of the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(pub VecDeque<Bytes>);

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its head.
    Left,
    /// Its tail.
    Right,
}

impl End {
    /// Its name in requests.
    pub fn word(self) -> &'static str {
        match self {
            End::Left => "left",
            End::Right => "right",
        }
    }
}

impl List {
    /// Adds a copy of an element.
    pub fn push(&mut self, end: End, element: &[u8]) {
        let element = Bytes::copy_from_slice(element);
        match end {
            End::Left => self.0.push_front(element),
            End::Right => self.0.push_back(element),
        }
    }

    /// Removes up to `count` elements from an end, in that order.
    pub fn pop(&mut self, end: End, count: usize) -> Vec<Bytes> {
        let count = count.min(self.0.len());
        match end {
            End::Left => self.0.drain(..count).collect(),
            End::Right => self.0.drain(self.0.len() - count..).rev().collect(),
        }
    }

    /// The position of an index: a negative one counts from the tail.
    pub fn place(&self, index: i64) -> Option<usize> {
        let from_tail = || self.0.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
        let place = if index < 0 { from_tail()? } else { usize::try_from(index).ok()? };
        (place < self.0.len()).then_some(place)
    }

    /// The positions from one index to another, inclusive; empty if there are none.
    pub fn range(&self, first: i64, last: i64) -> std::ops::Range<usize> {
        let length = i64::try_from(self.0.len()).unwrap_or(i64::MAX);
        let from_left = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
        let first = from_left(first).max(0);
        let last = from_left(last).min(length - 1);
        if first > last {
            return 0..0;
        }
        let place = |index: i64| usize::try_from(index).unwrap_or(0);
        place(first)..place(last) + 1
    }

    /// Removes up to `most` elements equal to `element`, starting at an end; returns how many.
    pub fn remove(&mut self, element: &[u8], end: End, most: usize) -> usize {
        let mut removed = 0;
        let mut keep = |one: &Bytes| {
            let goes = removed < most && one == element;
            removed += usize::from(goes);
            !goes
        };
        match end {
            End::Left => self.0.retain(keep),
            End::Right => {
                let kept: VecDeque<Bytes> =
                    self.0.drain(..).rev().filter(|one| keep(one)).collect();
                self.0 = kept.into_iter().rev().collect();
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::{End, List};

    fn list(text: &str) -> List {
        let mut list = List::default();
        text.bytes().for_each(|byte| list.push(End::Right, &[byte]));
        list
    }

    #[test]
    fn ranges_count_from_both_ends() {
        let list = list("abc");
        let cases = [((0, -1), 0..3), ((-2, 9), 1..3), ((-9, 0), 0..1), ((2, 1), 0..0)];
        for ((first, last), expected) in cases {
            assert_eq!(list.range(first, last), expected);
        }
        assert_eq!(list.range(i64::MIN, i64::MAX), 0..3);
        assert_eq!((list.place(-3), list.place(-4), list.place(i64::MIN)), (Some(0), None, None));
    }

    #[test]
    fn elements_are_removed_from_an_end_on() {
        for (end, most, expected) in
            [(End::Left, 1, "ba"), (End::Right, 1, "ab"), (End::Left, 9, "b")]
        {
            let mut list = list("aba");
            list.remove(b"a", end, most);
            assert_eq!(list, self::list(expected));
        }
    }
}
