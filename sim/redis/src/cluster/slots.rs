//! Hash slots: key to slot, and sets of slots.

use std::fmt;
use std::str::FromStr;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: that of its hash tag if it has one, else of all of it.
pub(crate) fn of_key(key: &[u8]) -> u16 {
    redis_protocol::redis_keyslot(key)
}

/// A set of slots, as ordered, separate, inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotSet(Vec<(u16, u16)>);

impl SlotSet {
    /// The slots of one inclusive range.
    pub fn range(ends: (u16, u16)) -> SlotSet {
        SlotSet(vec![ends])
    }

    /// The ranges, in order.
    pub(crate) fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    /// All slots of the set, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// How many slots it has.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|(first, last)| usize::from(last - first) + 1).sum()
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it contains a slot.
    pub(crate) fn contains(&self, slot: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// Whether the two sets intersect.
    pub(crate) fn meets(&self, other: &SlotSet) -> bool {
        let meets = |(a, b): &(u16, u16), (c, d): &(u16, u16)| a <= d && c <= b;
        self.0.iter().any(|one| other.0.iter().any(|two| meets(one, two)))
    }

    /// The intersection.
    #[must_use]
    pub(crate) fn common(&self, other: &SlotSet) -> SlotSet {
        let both = |one: &(u16, u16), two: &(u16, u16)| (one.0.max(two.0), one.1.min(two.1));
        let parts = self.0.iter().flat_map(|one| other.0.iter().map(move |two| both(one, two)));
        SlotSet(parts.filter(|(first, last)| first <= last).collect())
    }

    /// The difference.
    #[must_use]
    pub(crate) fn without(&self, other: &SlotSet) -> SlotSet {
        let mut rest = Vec::new();
        for (first, last) in &self.0 {
            let mut from = *first;
            for (taken, until) in other.0.iter().filter(|(_, until)| until >= first) {
                if taken > last {
                    break;
                }
                if *taken > from {
                    rest.push((from, taken - 1));
                }
                from = until + 1;
            }
            if from <= *last {
                rest.push((from, *last));
            }
        }
        SlotSet(rest)
    }

    /// The union.
    #[must_use]
    pub(crate) fn with(&self, other: &SlotSet) -> SlotSet {
        let mut ranges: Vec<(u16, u16)> = self.0.iter().chain(&other.0).copied().collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, range| {
            let touches = next.0 <= range.1 + 1;
            if touches {
                range.1 = range.1.max(next.1);
            }
            touches
        });
        SlotSet(ranges)
    }

    /// Adds a slot.
    pub(crate) fn insert(&mut self, slot: u16) {
        if self.contains(slot) {
            return;
        }
        let at = self.0.partition_point(|range| range.1 < slot);
        self.0.insert(at, (slot, slot));
        if self.0.get(at + 1).is_some_and(|next| next.0 == slot + 1) {
            self.0[at].1 = self.0.remove(at + 1).1;
        }
        if at > 0 && self.0[at - 1].1 + 1 == slot {
            self.0[at - 1].1 = self.0.remove(at).1;
        }
    }

    /// Removes a slot.
    pub(crate) fn remove(&mut self, slot: u16) {
        let holds = |range: &(u16, u16)| (range.0..=range.1).contains(&slot);
        let Some(at) = self.0.iter().position(holds) else { return };
        let (first, last) = self.0.remove(at);
        if slot < last {
            self.0.insert(at, (slot + 1, last));
        }
        if first < slot {
            self.0.insert(at, (first, slot - 1));
        }
    }
}

/// `0-5460 7000`, as in CLUSTER NODES.
impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (first, last)) in self.0.iter().enumerate() {
            let gap = if nth == 0 { "" } else { " " };
            match first == last {
                true => write!(f, "{gap}{first}")?,
                false => write!(f, "{gap}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Ranges that are unordered or adjacent are refused: they are never written so.
impl FromStr for SlotSet {
    type Err = ();

    fn from_str(text: &str) -> Result<SlotSet, ()> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let number = |text: &str| text.parse().ok().filter(|slot| *slot < SLOTS).ok_or(());
            let (first, last) = (number(first)?, number(last)?);
            let is_behind = ranges.last().is_none_or(|before| before.1 + 1 < first);
            if !is_behind || first > last {
                return Err(());
            }
            ranges.push((first, last));
        }
        Ok(SlotSet(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::{SlotSet, of_key};

    /// The values are those of CLUSTER KEYSLOT.
    #[test]
    fn keys_go_to_the_slots_of_redis() {
        let slots = [
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("{}bar", 6479),
            ("a", 15495),
            ("b", 3300),
            ("123456789", 12739),
            ("", 0),
            ("a{", 14311),
        ];
        for (key, slot) in slots {
            assert_eq!(of_key(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(of_key(b"x{foo}{bar}"), of_key(b"foo"));
        assert_ne!(of_key(b"{foo"), of_key(b"foo"));
    }

    #[test]
    fn a_set_keeps_ranges_apart_and_is_read_as_it_is_written() {
        let mut set = SlotSet::default();
        [5, 7, 6, 1, 0, 9].into_iter().for_each(|slot| set.insert(slot));
        assert_eq!((set.to_string(), set.len()), ("0-1 5-7 9".to_owned(), 6));
        set.remove(6);
        set.remove(0);
        set.remove(3);
        assert_eq!(set.to_string(), "1 5 7 9");
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 5, 7, 9]);
        assert!(set.meets(&SlotSet::range((8, 9))) && !set.meets(&SlotSet::range((2, 4))));
        assert_eq!("1 5 7 9".parse(), Ok(set));
        let sets = |one: &str, two: &str| -> [SlotSet; 2] {
            [one, two].map(|text| text.parse().expect("a set of slots"))
        };
        for (one, two, common, without, with) in [
            ("0-9 20-29", "5-22", "5-9 20-22", "0-4 23-29", "0-29"),
            ("0-9", "2 4-5", "2 4-5", "0-1 3 6-9", "0-9"),
            ("0-9", "10-16383", "", "0-9", "0-16383"),
            ("3-4 8", "", "", "3-4 8", "3-4 8"),
        ] {
            let [one, two] = sets(one, two);
            assert_eq!(one.common(&two).to_string(), common);
            assert_eq!(one.without(&two).to_string(), without);
            assert_eq!(one.with(&two).to_string(), with);
            assert_eq!(two.with(&one), one.with(&two));
        }
        for wrong in ["5-16384", "7-5", "5-7 6", "5 6", "7 5", "x", "-1"] {
            assert_eq!(wrong.parse::<SlotSet>(), Err(()), "{wrong}");
        }
    }
}
