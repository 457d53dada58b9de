//! Sets. A set of few integers is an intset, ordered from the lowest.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::frame::integer;

/// Members. The encoding changes one way: a set that has become `Words` stays it.
#[derive(Clone, Debug)]
pub enum Set {
    /// Integers only.
    Integers(Integers),
    /// Any members. Each has its own copy of the bytes.
    Words(BTreeSet<Bytes>),
}

/// Integers from the lowest; all take the width of the widest that was ever added.
#[derive(Clone, Debug)]
pub struct Integers {
    numbers: BTreeSet<i64>,
    width: usize,
}

impl Integers {
    fn insert(&mut self, number: i64) -> bool {
        let width = match number {
            -0x8000..=0x7FFF => 2,
            -0x8000_0000..=0x7FFF_FFFF => 4,
            _ => 8,
        };
        self.width = self.width.max(width);
        self.numbers.insert(number)
    }

    /// The integers, from the lowest.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        self.numbers.iter().copied()
    }

    /// The width of each integer in bytes: 2, 4 or 8.
    pub fn width(&self) -> usize {
        self.width
    }
}

impl Default for Set {
    fn default() -> Set {
        Set::of_integers([], 2)
    }
}

/// Sets with the same members are equal in any encoding: a reloaded file may well choose another
/// one.
impl PartialEq for Set {
    fn eq(&self, other: &Set) -> bool {
        self.len() == other.len() && self.iter().all(|member| other.contains(&member))
    }
}

impl Eq for Set {}

impl Set {
    /// A set of integers of at least this width.
    pub fn of_integers(numbers: impl IntoIterator<Item = i64>, width: usize) -> Set {
        let mut integers = Integers { numbers: BTreeSet::new(), width };
        for number in numbers {
            integers.insert(number);
        }
        Set::Integers(integers)
    }

    /// Adds a member; whether it is new.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        if let (Set::Integers(integers), Some(number)) = (&mut *self, integer(member)) {
            return integers.insert(number);
        }
        let words = self.widen();
        !words.contains(member) && words.insert(Bytes::copy_from_slice(member))
    }

    /// Leaves the intset encoding if there are more than `most` members.
    pub fn settle(&mut self, most: usize) {
        if self.len() > most {
            self.widen();
        }
    }

    /// Converts to the encoding for any members.
    fn widen(&mut self) -> &mut BTreeSet<Bytes> {
        if let Set::Integers(_) = self {
            *self = Set::Words(self.iter().collect());
        }
        match self {
            Set::Words(words) => words,
            Set::Integers(_) => unreachable!("it was turned just now"),
        }
    }

    /// Removes a member; whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Set::Integers(all) => integer(member).is_some_and(|number| all.numbers.remove(&number)),
            Set::Words(all) => all.remove(member),
        }
    }

    /// Whether it has this member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match self {
            Set::Integers(all) => {
                integer(member).is_some_and(|number| all.numbers.contains(&number))
            }
            Set::Words(all) => all.contains(member),
        }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        match self {
            Set::Integers(all) => all.numbers.len(),
            Set::Words(all) => all.len(),
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The members: integers from the lowest, words by their bytes.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Bytes> + '_> {
        match self {
            Set::Integers(all) => Box::new(all.iter().map(|number| number.to_string().into())),
            Set::Words(all) => Box::new(all.iter().cloned()),
        }
    }

    /// Its name in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        match self {
            Set::Integers(_) => "intset",
            Set::Words(_) => "hashtable",
        }
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Set {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Set {
        let mut set = Set::default();
        for member in members {
            set.insert(member.as_ref());
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::Set;

    #[test]
    fn a_set_of_integers_lists_them_from_the_least_until_a_word_comes() {
        let mut set: Set = ["10", "-3", "7", "7"].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), ["-3", "7", "10"]);
        assert!(!set.contains(b"07") && !set.remove(b"x"));
        assert!(set.insert(b"07") && set.contains(b"7"));
        assert!(set.remove(b"07"));
        assert_eq!((set.encoding(), set.len()), ("hashtable", 3));
        assert_eq!(set, ["7", "10", "-3"].into_iter().collect());
    }

    #[test]
    fn many_integers_are_words() {
        let mut set: Set = (0..7).map(|n| n.to_string()).collect();
        set.settle(7);
        assert_eq!(set.encoding(), "intset");
        set.insert(b"-1");
        set.settle(7);
        assert_eq!((set.encoding(), set.len()), ("hashtable", 8));
    }
}
